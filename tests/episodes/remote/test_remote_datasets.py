"""LeRobot datasets at a URL: the same episodes as on disk, and no more bytes than are needed."""

from __future__ import annotations

import pickle
import threading
from collections.abc import Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import fsspec
import numpy as np
import pytest

from stepscore.episodes import Episode, open_episodes
from stepscore.episodes.remote import RemoteVideo, cache_only, offline_view
from stepscore.episodes.video.video_view import VideoView
from stepscore.errors import MissingExtraError, SourceError, VideoError
from tests.episodes.lerobot.datasets import TOP, WRIST, dataset
from tests.episodes.remote.stores import CountingFilesystem, upload

URL = "memory://bucket/blocks"


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("STEPSCORE_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


@pytest.fixture
def counted(monkeypatch: pytest.MonkeyPatch) -> Iterator[CountingFilesystem]:
    counting = CountingFilesystem()
    counting.install(monkeypatch)
    yield counting
    fsspec.filesystem("memory").rm("/", recursive=True)


def described(episode: Episode) -> dict[str, object]:
    return {
        name: getattr(episode, name)
        for name in (
            "id",
            "instruction",
            "task",
            "policy",
            "pair",
            "robot",
            "labels",
            "fingerprint",
            "metadata",
        )
    }


@pytest.mark.parametrize("options", [{}, {"images": [TOP, WRIST]}], ids=["videos", "images"])
def test_a_dataset_at_a_url_is_the_one_on_disk(
    tmp_path: Path, counted: CountingFilesystem, options: dict[str, list[str]]
) -> None:
    local = dataset(tmp_path / "local", **options)
    here, there = open_episodes(local), open_episodes(upload(local, URL))
    assert there.ids() == here.ids()
    assert (there.source, there.problems) == (URL, ())
    for a, b in zip(here, there, strict=True):
        assert described(a) == described(b)
        assert b.dataset == "blocks"
        for name in a.views:
            assert a.view(name).info() == b.view(name).info()
            np.testing.assert_array_equal(a.view(name).timestamps(), b.view(name).timestamps())
            every = range(a.view(name).info().n_frames)
            np.testing.assert_array_equal(a.view(name).read(every), b.view(name).read(every))
            assert b.view(name).location().startswith(URL)
        for x, y in zip(a.signals(), b.signals(), strict=True):
            assert (x.name, x.dimensions) == (y.name, y.dimensions)
            np.testing.assert_array_equal(x.values, y.values)


def test_an_address_of_a_file_is_read_as_any_other(tmp_path: Path, cache: Path) -> None:
    local = dataset(tmp_path / "local", lengths=(3, 3))
    here, there = open_episodes(local), open_episodes(local.as_uri())
    for a, b in zip(here, there, strict=True):
        assert described(a) == described(b)
        np.testing.assert_array_equal(a.view("top").read([2]), b.view("top").read([2]))
        assert isinstance(b.view("top"), RemoteVideo)


def test_a_web_server_is_refused_without_a_request(tmp_path: Path) -> None:
    dataset(tmp_path / "local", lengths=(3, 3))

    asked = []

    class Quiet(SimpleHTTPRequestHandler):
        def log_message(self, *args: object) -> None:
            asked.append(self.path)

    with ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=str(tmp_path))) as server:
        threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}).start()
        try:
            with pytest.raises(SourceError, match=r"web servers have no list.*Download the dataset"):
                open_episodes(f"http://127.0.0.1:{server.server_port}/local")
        finally:
            server.shutdown()
    assert asked == []


def test_a_store_that_cannot_be_asked_is_not_one_without_a_dataset(
    tmp_path: Path, counted: CountingFilesystem
) -> None:
    from fsspec.implementations.memory import MemoryFileSystem

    def fails(*args: object, **options: object) -> None:
        raise PermissionError("403: no access")

    upload(dataset(tmp_path / "local", lengths=(3, 3)), URL)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(MemoryFileSystem, "info", fails)
        with pytest.raises(SourceError, match=r"Cannot list memory://bucket/blocks: 403: no access\."):
            open_episodes(URL)


def test_listing_fetches_meta_alone(tmp_path: Path, counted: CountingFilesystem) -> None:
    url = upload(dataset(tmp_path / "local"), URL)
    counted.sent.clear()
    assert len(open_episodes(url)) == 5
    assert counted.of("/meta/") > 0
    assert counted.of("/data/") == counted.of("/videos/") == 0


def test_frames_are_fetched_from_their_keyframe_on_and_once(
    tmp_path: Path, counted: CountingFilesystem, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("stepscore.episodes.remote.video._END_BYTES", 256)
    monkeypatch.setattr("stepscore.episodes.remote.ranges.GAP_BYTES", 0)
    local = dataset(tmp_path / "local", lengths=(60, 60, 60), episodes_per_file=3)
    video = next(local.rglob(f"*{TOP}*/**/*.mp4"))
    episode = open_episodes(upload(local, URL))[1]
    view = episode.view("top")
    view.info()
    header = counted.of(f"videos/{TOP}")
    assert 0 < header < 0.5 * video.stat().st_size
    frames = view.read([30])
    fetched = counted.of(f"videos/{TOP}") - header
    index = VideoView(video).frames_in_file()[0]
    needed = index.packet_bytes[int(index.key_packet[index.key[90]]) : int(index.packet[90]) + 1, 1].sum()
    assert 0 < fetched <= needed
    np.testing.assert_array_equal(frames, open_episodes(local)[1].view("top").read([30]))
    view.read([30])
    assert counted.of(f"videos/{TOP}") == header + fetched
    assert counted.of(f"videos/{WRIST}") == 0


def test_a_container_without_a_table_is_fetched_whole(tmp_path: Path, counted: CountingFilesystem) -> None:
    local = dataset(tmp_path / "local")
    for path in local.rglob("*.mp4"):
        _as_fragments(path)
    here, there = open_episodes(local)[2], open_episodes(upload(local, URL))[2]
    np.testing.assert_array_equal(here.view("top").read([0, 5]), there.view("top").read([0, 5]))
    view = there.view("top")
    assert isinstance(view, RemoteVideo)
    assert view.on_disk() is not None


def _as_fragments(path: Path) -> None:
    import av

    parts = path.with_suffix(".part.mp4")
    flags = {"movflags": "frag_keyframe+empty_moov"}
    with av.open(str(path)) as source, av.open(str(parts), "w", options=flags) as out:
        stream = out.add_stream_from_template(source.streams.video[0])
        for packet in source.demux(source.streams.video[0]):
            if packet.size:
                packet.stream = stream
                out.mux(packet)
    parts.replace(path)


def test_handles_read_in_another_process(tmp_path: Path, counted: CountingFilesystem) -> None:
    local = dataset(tmp_path / "local")
    episode = pickle.loads(pickle.dumps(open_episodes(upload(local, URL))[3]))
    np.testing.assert_array_equal(
        episode.view("wrist").read([2]), open_episodes(local)[3].view("wrist").read([2])
    )


def test_a_replaced_file_is_fetched_anew(tmp_path: Path, counted: CountingFilesystem) -> None:
    first = dataset(tmp_path / "first", lengths=(7, 5))
    open_episodes(upload(first, URL))[0].view("top").read([1])
    second = dataset(tmp_path / "second", lengths=(9, 5))
    again = open_episodes(upload(second, URL))[0]
    assert again.view("top").info().n_frames == 9
    np.testing.assert_array_equal(again.view("top").read([8]), open_episodes(second)[0].view("top").read([8]))


def test_a_file_that_is_missing_is_a_problem_and_an_error_of_its_episodes(
    tmp_path: Path, counted: CountingFilesystem
) -> None:
    local = dataset(tmp_path / "local")
    sorted(local.rglob(f"*{TOP}*/**/*.mp4"))[0].unlink()
    episodes = open_episodes(upload(local, URL))
    assert "no file videos" in episodes.problems[0].why
    assert "has no file videos" in (episodes[0].error or "")
    assert episodes[4].error is None


def test_nothing_is_asked_when_only_the_cache_may_be_used(
    tmp_path: Path, counted: CountingFilesystem
) -> None:
    local = dataset(tmp_path / "local", lengths=(60, 60), episodes_per_file=2)
    with cache_only(), pytest.raises(SourceError, match="has been fetched"):
        open_episodes(URL)
    frames = open_episodes(upload(local, URL))[0].clip("top", indices=[3]).frames
    counted.sent.clear()
    with cache_only():
        episode = open_episodes(URL)[0]
        np.testing.assert_array_equal(episode.clip("top", indices=[3]).frames, frames)
        with pytest.raises(VideoError, match="has not been fetched"):
            episode.view("wrist").read([3])
    with pytest.raises(VideoError, match="has not been fetched"):
        offline_view(episode.view("wrist")).read([3])
    assert counted.sent == {}


def test_a_store_that_fails_or_lies_is_an_error_of_the_episode(
    tmp_path: Path, counted: CountingFilesystem, monkeypatch: pytest.MonkeyPatch
) -> None:
    from fsspec.implementations.memory import MemoryFileSystem

    episode = open_episodes(upload(dataset(tmp_path / "local"), URL))[0]

    def short(*args: object, **options: object) -> bytes:
        return b"abc"

    monkeypatch.setattr(MemoryFileSystem, "cat_file", short)
    with pytest.raises(VideoError, match="3 bytes instead of"):
        episode.view("top").read([0])

    def fails(*args: object, **options: object) -> bytes:
        raise PermissionError("403: no access")

    monkeypatch.setattr(MemoryFileSystem, "cat_file", fails)
    with pytest.raises(VideoError, match=r"Cannot fetch memory://bucket/blocks/videos.*403: no access\."):
        episode.view("top").read([0])


@pytest.mark.parametrize(
    ("url", "message"),
    [
        ("memory://bucket/nothing", "no meta/info.json"),
        ("s3://key:secret@bucket/name", "may hold no name, key or query"),
        ("https://host/name?token=secret", "may hold no name, key or query"),
        ("simplecache::memory://bucket/x", "is not the URL of a folder"),
        ("nothing://bucket/name", "Cannot open nothing://bucket/name"),
        ("memory://", "is not the URL of a folder"),
    ],
)
def test_urls_that_cannot_be_read_are_refused_with_the_reason(url: str, message: str) -> None:
    with pytest.raises(SourceError, match=message) as caught:
        open_episodes(url)
    assert "secret" not in str(caught.value)


def test_without_fsspec_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    import sys

    monkeypatch.setitem(sys.modules, "fsspec.core", None)
    with pytest.raises(MissingExtraError, match=r"stepscore\[remote\]"):
        open_episodes("s3://bucket/name")


def test_names_that_lead_out_of_the_dataset_have_no_place_here(
    tmp_path: Path, counted: CountingFilesystem, cache: Path
) -> None:
    url = upload(dataset(tmp_path / "local"), URL)
    fsspec.filesystem("memory").pipe_file("/bucket/blocks/meta/../../../evil.parquet", b"PAR1")
    open_episodes(url)
    assert not list(tmp_path.rglob("evil*"))
    assert all(path.is_relative_to(cache) for path in tmp_path.rglob("*.ranges"))
