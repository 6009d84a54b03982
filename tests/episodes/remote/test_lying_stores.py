"""Stores that send for ever, or nothing, list what is not there, or are not there: an error that names the fault."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any

import pytest
import stamina

from stepscore.episodes import open_episodes
from stepscore.episodes.remote import RemoteFile, limits
from stepscore.errors import SourceError, VideoError
from tests.episodes.lerobot.datasets import dataset
from tests.episodes.remote.lying_store import LyingStore, lying_store
from tests.episodes.remote.stores import s3_environment

HUB = "ann/blocks"
Served = Callable[..., AbstractContextManager[LyingStore]]


@pytest.fixture(scope="module")
def local(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return dataset(tmp_path_factory.mktemp("local") / "set", lengths=(4, 4), episodes_per_file=1)


@pytest.fixture(scope="module")
def store(local: Path) -> Iterator[LyingStore]:
    """One server for all lies: making a client of S3 takes a second."""
    with lying_store(local) as serving:
        yield serving


@pytest.fixture
def served(store: LyingStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Served]:
    """Let the server lie, at an address that this process uses for S3 and the Hub."""

    @contextmanager
    def lying(**lies: Any) -> Iterator[LyingStore]:
        for name, value in {"about": "", "how": "", "value": None, "sizes": {}, **lies}.items():
            setattr(store, name, value)
        store.asked.clear()
        store.sent = 0
        yield store

    monkeypatch.setenv("STEPSCORE_CACHE", str(tmp_path / "cache"))
    use(monkeypatch, store.address)
    with stamina.set_testing(True, attempts=2, cap=True):
        yield lying


def use(monkeypatch: pytest.MonkeyPatch, address: str) -> None:
    from huggingface_hub import constants

    for name, value in {**s3_environment(address), "AWS_MAX_ATTEMPTS": "1"}.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(constants, "ENDPOINT", address)
    template = f"{address}/{{repo_id}}/resolve/{{revision}}/{{filename}}"
    monkeypatch.setattr(constants, "HUGGINGFACE_CO_URL_TEMPLATE", template)


@pytest.fixture
def new_client() -> Iterator[None]:
    """Let s3fs make a new client, and another one afterwards: those that are kept ask the address of their time."""
    from s3fs import S3FileSystem

    S3FileSystem.clear_instance_cache()
    yield
    S3FileSystem.clear_instance_cache()


SOURCES = pytest.mark.parametrize("source", ["s3://bucket/set", HUB])


@SOURCES
def test_without_a_lie_the_dataset_is_read(served: Served, source: str) -> None:
    with served():
        assert open_episodes(source)[0].clip("top", indices=[3]).frames.shape[0] == 1


@SOURCES
@pytest.mark.parametrize("how", ["endless", "empty pages", "same token"])
def test_a_list_that_does_not_end_is_asked_for_a_bounded_number_of_times(
    served: Served, source: str, how: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "LISTING_REQUESTS", 20)
    with served(about="list", how=how) as store:
        with pytest.raises(SourceError, match=r"list.* does not end after 20 requests"):
            open_episodes(source)
        assert len(store.asked) <= 22


def test_a_list_of_too_many_files_is_refused(served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "LISTED_FILES", 50)
    with served(about="list", how="endless"), pytest.raises(SourceError, match="has more than 50 files"):
        open_episodes("s3://bucket/set")


def test_a_list_that_is_only_a_part_is_refused(served: Served) -> None:
    with served(about="list", how="no token"), pytest.raises(SourceError, match="lists a part of the files"):
        open_episodes("s3://bucket/set")


@SOURCES
@pytest.mark.parametrize("how", ["unending", "unending 200", "unending chunks", "huge", "unending error"])
@pytest.mark.parametrize("about", ["list", "info.json", "videos/"])
def test_no_more_is_read_than_was_asked_for(
    served: Served, source: str, how: str, about: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "ANSWER_BYTES", 1 << 20)
    with served(about=about, how=how) as store:
        with pytest.raises((SourceError, VideoError)) as caught:
            open_episodes(source)[0].view("top").read([0])
        # What a client and the system hold of a connection comes on top.
        assert store.sent < 4 * (limits.ANSWER_BYTES + (8 << 20))
    assert any(text in str(caught.value) for text in ("bytes", "status", "whole files", "no access"))


def test_a_store_that_ignores_ranges_is_not_read_to_the_end(served: Served, local: Path) -> None:
    size = (local / "meta" / "info.json").stat().st_size
    with served(about="info.json", how="whole"):
        message = rf"Cannot fetch .*: the server sends {size} bytes where at most 10 bytes were asked for"
        with pytest.raises(VideoError, match=message):
            RemoteFile("s3://bucket/set", "meta/info.json", size, "").fetch([(5, 15)])


@SOURCES
def test_a_description_of_terabytes_is_refused_before_it_is_fetched(served: Served, source: str) -> None:
    with served(sizes={"meta/info.json": 10**13}) as store:
        message = r"meta/info.json is listed with 10,000,000,000,000 bytes; at most 1,073,741,824"
        with pytest.raises(SourceError, match=message):
            open_episodes(source)
        assert not any(path.endswith("info.json") for path in store.asked)


def test_many_files_of_meta_are_refused_before_they_are_fetched(
    served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "META_FILES", 50)
    with served(sizes={f"meta/more/{k}": 5 for k in range(60)}) as store:
        with pytest.raises(SourceError, match=r"meta/ of .* is listed with \d+ files"):
            open_episodes("s3://bucket/set")
        assert not any("/more/" in path for path in store.asked)


def test_more_than_the_disk_holds_is_not_fetched(served: Served, local: Path) -> None:
    name = next(local.rglob("*.mp4")).relative_to(local).as_posix()
    camera = name.split("/")[1].rpartition(".")[2]
    with served(sizes={name: 10**14}) as store:
        episode = open_episodes("s3://bucket/set")[0]
        with pytest.raises((VideoError, SourceError)):
            episode.view(camera).read([0])
        assert store.sent < 1 << 22


@SOURCES
@pytest.mark.parametrize("how", ["silent", "drip", "drip head"])
@pytest.mark.parametrize("about", ["list", "info.json"])
def test_a_server_that_sends_nothing_or_too_slowly_is_given_up(
    served: Served, source: str, how: str, about: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "REQUEST_S", 0.2)
    with (
        served(about=about, how=how),
        pytest.raises(SourceError, match=r"too slow|not complete after 0 s"),
    ):
        open_episodes(source)


@pytest.mark.parametrize(
    "odd",
    [
        f"meta/{'x' * 300}",
        f"meta/episodes/{'x' * 300}.parquet",
        f"videos/{'é' * 150}.mp4",
        "meta/info.json/more",
        "meta/info.json.ranges",
        ".files.json",
        "meta//info.json",
    ],
)
def test_a_file_without_a_place_on_this_machine_is_left_out_alone(served: Served, odd: str) -> None:
    with served(sizes={odd: 10}):
        episodes = open_episodes("s3://bucket/set")
        assert episodes[1].clip("top", indices=[3]).frames.shape[0] == 1
        assert [p.why.partition(":")[0] for p in episodes.problems] == ["the file is left out"]


@pytest.mark.parametrize(
    ("status", "message"),
    [
        (403, "HTTP status 403 Forbidden.*Check the credentials"),
        (404, "HTTP status 404 Not Found.*Check the address"),
        (500, "HTTP status 500 Internal Server Error.*Try again later"),
        (503, "HTTP status 503 Service Unavailable.*Try again later"),
    ],
)
def test_a_refusal_is_named_by_its_status(served: Served, status: int, message: str) -> None:
    with served(about="list", how="status", value=status), pytest.raises(SourceError, match=message):
        open_episodes("s3://bucket/set")


@SOURCES
def test_a_refused_connection_is_named(
    served: Served, new_client: None, source: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        address = f"http://127.0.0.1:{listener.getsockname()[1]}"
    use(monkeypatch, address)
    with pytest.raises(SourceError, match="the connection was refused"):
        open_episodes(source)


@SOURCES
def test_an_unknown_host_is_named(
    served: Served, new_client: None, source: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    use(monkeypatch, "http://no.such.host.invalid")
    with pytest.raises(SourceError, match="the name of the host was not found"):
        open_episodes(source)


def test_a_folder_without_a_dataset_is_still_one(served: Served) -> None:
    with served(), pytest.raises(SourceError, match=r"There is no meta/info\.json in s3://bucket/other"):
        open_episodes("s3://bucket/other")


@pytest.mark.skipif(sys.platform == "win32", reason="Ctrl-C is sent as a signal")
@pytest.mark.parametrize("about", ["list", "videos/"])
def test_ctrl_c_ends_judge_while_a_store_keeps_it_waiting(local: Path, tmp_path: Path, about: str) -> None:
    with lying_store(local, about=about, how="silent") as store:
        variables = {**s3_environment(store.address), "STEPSCORE_CACHE": str(tmp_path / "cache")}
        line = ["judge", store.url, "--judge", "image-difference", "-o", str(tmp_path / "run")]
        process = subprocess.Popen(
            [sys.executable, "-m", "stepscore", *line],
            env=os.environ | variables,
            stderr=subprocess.PIPE,
            text=True,
        )
        try:
            assert store.lied.wait(60)
            process.send_signal(signal.SIGINT)
            # A store may take longer than that for an answer: who waits for it does not end in time.
            _, printed = process.communicate(timeout=limits.REQUEST_S / 2)
        finally:
            process.kill()
    assert process.returncode == 130
    assert [line[:11] for line in printed.splitlines() if "nterrupt" in line] == ["Interrupted"]
