"""Datasets on the Hub, by repo id and by URL: read by range at one commit, with what the Hub's cache has."""

from __future__ import annotations

import json
import os
import pickle
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import stamina
from huggingface_hub import constants, hf_hub_download, snapshot_download

import stepscore
from stepscore.episodes import Episodes, open_episodes
from stepscore.episodes.remote import RemoteVideo, cache_only
from stepscore.episodes.remote.hub import HubFolder, hub_folder
from stepscore.episodes.video.video_view import VideoView
from stepscore.errors import SourceError, VideoError
from tests.episodes.lerobot.datasets import TOP, WRIST, dataset
from tests.episodes.remote.fake_hub import SECRET, FakeHub, Fault, fake_hub, hub_environment, use_hub
from tests.episodes.remote.test_remote_datasets import described

ID = "ann/blocks"


@pytest.fixture
def hub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeHub]:
    with fake_hub() as served, stamina.set_testing(True, attempts=100, cap=True):
        use_hub(monkeypatch, served, tmp_path)
        yield served


@pytest.fixture(scope="module")
def local(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A dataset on disk: two videos of each camera."""
    return dataset(tmp_path_factory.mktemp("local") / "local", lengths=(7, 5, 6))


@pytest.fixture(scope="module")
def newer(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same dataset after a change of all of its files."""
    return dataset(tmp_path_factory.mktemp("newer") / "newer", lengths=(4, 4))


def assert_same(here: Episodes, there: Episodes) -> None:
    assert there.ids() == here.ids()
    for a, b in zip(here, there, strict=True):
        assert described(a) == described(b)
        for name in a.views:
            every = range(a.view(name).info().n_frames)
            np.testing.assert_array_equal(a.view(name).read(every), b.view(name).read(every))
        for x, y in zip(a.signals(), b.signals(), strict=True):
            np.testing.assert_array_equal(x.values, y.values)


@pytest.mark.parametrize("source", [ID, f"hf://datasets/{ID}"])
@pytest.mark.parametrize("options", [{}, {"images": [TOP, WRIST]}], ids=["videos", "images"])
def test_a_dataset_on_the_hub_is_the_one_on_disk(
    hub: FakeHub, tmp_path: Path, local: Path, source: str, options: dict[str, list[str]]
) -> None:
    local = dataset(tmp_path / "local", lengths=(4, 4), **options) if options else local
    commit = hub.upload(local, ID)
    there = open_episodes(source)
    assert (there.source, there.problems) == (source, ())
    assert {episode.dataset for episode in there} == {ID}
    assert_same(open_episodes(local), there)
    assert there[0].view("top").location().startswith(f"hf://datasets/{ID}@{commit}/")
    assert not (tmp_path / "hub").exists()


def test_listing_fetches_meta_alone_and_at_the_same_commit_nothing(hub: FakeHub, local: Path) -> None:
    hub.upload(local, ID)
    assert len(open_episodes(ID)) == 3
    assert hub.count(part="/tree/") > 2  # in pages
    assert hub.sent("/meta/") > 0
    assert hub.sent("/data/") == hub.sent("/videos/") == 0
    hub.asked.clear()
    assert len(open_episodes(ID)) == 3
    assert [asked.path for asked in hub.asked] == [f"/api/datasets/{ID}"]


def test_frames_are_fetched_from_their_keyframe_on_and_once(
    hub: FakeHub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("stepscore.episodes.remote.video._END_BYTES", 256)
    monkeypatch.setattr("stepscore.episodes.remote.ranges.GAP_BYTES", 0)
    local = dataset(tmp_path / "local", lengths=(60, 60, 60), episodes_per_file=3)
    hub.upload(local, ID)
    view, video = open_episodes(ID)[1].view("top"), next(local.rglob(f"*{TOP}*/**/*.mp4"))
    view.info()
    header, redirects = hub.sent(TOP), hub.count("hub", TOP)
    assert 0 < header < 0.5 * video.stat().st_size
    frames = view.read([2, 30])
    index = VideoView(video).frames_in_file()[0]
    needed = sum(
        index.packet_bytes[int(index.key_packet[index.key[at]]) : int(index.packet[at]) + 1, 1].sum()
        for at in (62, 90)
    )
    assert 0 < hub.sent(TOP) - header <= needed
    assert hub.count("hub", TOP) == redirects + 1  # two ranges, and the store's address asked for once
    np.testing.assert_array_equal(frames, open_episodes(local)[1].view("top").read([2, 30]))
    count = len(hub.asked)
    view.read([2, 30])
    assert len(hub.asked) == count
    assert hub.sent(WRIST) == 0


def test_the_fingerprint_by_range_is_that_of_the_file(hub: FakeHub, tmp_path: Path) -> None:
    # Larger than both of its ends together: what lies between is not fetched.
    local = noisy(tmp_path / "local")
    video = next(local.rglob(f"*{TOP}*/**/*.mp4"))
    assert video.stat().st_size > 3 * (1 << 16)
    hub.upload(local, ID)
    here, there = open_episodes(local)[0], open_episodes(ID)[0]
    assert there.fingerprint == here.fingerprint
    assert hub.sent(TOP) == 2 * (1 << 16)


def noisy(root: Path) -> Path:
    from stepscore.episodes.lerobot.writing import Recording, write_lerobot

    rng = np.random.default_rng(1)
    steps = ({TOP: rng.integers(0, 255, (64, 96, 3), dtype=np.uint8)} for _ in range(60))
    return write_lerobot(root, [Recording("look", steps)], fps=10)


def test_a_private_dataset_is_one_line_without_a_token_and_its_token_stays_with_the_hub(
    hub: FakeHub, tmp_path: Path, local: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    hub.upload(local, ID)
    hub.private.add(ID)
    for source in (ID, f"hf://datasets/{ID}", "ann/nothing"):
        with pytest.raises(SourceError, match=r"private or gated and you have no access.*HF_TOKEN") as caught:
            open_episodes(source)
        assert "\n" not in str(caught.value)
    monkeypatch.setenv("HF_TOKEN", SECRET)
    hub.asked.clear()
    assert_same(open_episodes(local), open_episodes(ID))
    tokens = {asked.server: asked.token for asked in hub.asked if "agent" not in asked.path}
    assert tokens == {"hub": f"Bearer {SECRET}", "store": ""}
    assert all(not asked.token for asked in hub.asked if asked.server == "store")
    assert not [
        path
        for path in (tmp_path / "cache").rglob("*")
        if path.is_file() and SECRET.encode() in path.read_bytes()
    ]


def test_access_that_ends_while_reading_is_an_error_of_the_episode(hub: FakeHub, local: Path) -> None:
    hub.upload(local, ID)
    episode = open_episodes(ID)[0]
    hub.private.add(ID)
    with pytest.raises(VideoError, match=r"Cannot fetch hf://.*: HTTP status 401 \(no access: hf auth login"):
        episode.view("top").read([0])


def test_a_revision_can_be_named(hub: FakeHub, local: Path, newer: Path) -> None:
    hub.upload(local, ID, "v2.0")
    commit = hub.upload(newer, ID)
    assert_same(open_episodes(local), open_episodes(f"{ID}@v2.0"))
    for source in (f"{ID}@v2.0", f"hf://datasets/{ID}@v2.0", f"hf://datasets/{ID}@v2%2E0"):
        there = open_episodes(source)
        assert (there.source, there.ids()) == (source, open_episodes(local).ids())
    for source in (ID, f"{ID}@{commit}"):
        assert open_episodes(source).ids() == open_episodes(newer).ids()
    with pytest.raises(SourceError, match=r"it has no revision 'v9'"):
        open_episodes(f"{ID}@v9")


def test_reading_goes_on_at_the_commit_that_was_listed(hub: FakeHub, local: Path, newer: Path) -> None:
    hub.upload(local, ID)
    listed = open_episodes(ID)
    listed[0].view("top").read([1])
    hub.upload(newer, ID)
    sent = pickle.loads(pickle.dumps(listed[2]))
    again = open_episodes(ID)  # as another process would, in the same cache
    assert_same(open_episodes(newer)[:1], again[:1])
    assert_same(open_episodes(local)[1:], listed[1:])
    np.testing.assert_array_equal(sent.view("top").read([3]), open_episodes(local)[2].view("top").read([3]))


def test_episodes_outlive_what_is_kept_of_their_dataset(hub: FakeHub, local: Path, tmp_path: Path) -> None:
    hub.upload(local, ID)
    listed = open_episodes(ID)
    shutil.rmtree(tmp_path / "cache")  # as the limit does after a while
    assert_same(open_episodes(local)[1:], listed[1:])


def test_a_damaged_list_of_files_is_made_anew(hub: FakeHub, local: Path, tmp_path: Path) -> None:
    hub.upload(local, ID)
    open_episodes(ID)
    for damage in ("", "[]", '{"url": 1}', '{"url": "x", "files": {"a": 1}}'):
        next((tmp_path / "cache").rglob(".files.json")).write_text(damage)
        assert_same(open_episodes(local)[:1], open_episodes(ID)[:1])


def test_a_server_that_ignores_ranges_is_refused(hub: FakeHub, tmp_path: Path) -> None:
    local = noisy(tmp_path / "local")
    hub.upload(local, ID)
    view = open_episodes(ID)[0].view("top")
    hub.faults.append(Fault("store", "/videos/", whole=True, times=99))
    with pytest.raises(VideoError, match=r"returns only whole files.*hf download.*pass its folder"):
        view.read([3])
    assert hub.count("store", "/videos/") == 1
    hub.faults.clear()
    np.testing.assert_array_equal(view.read([3]), open_episodes(local)[0].view("top").read([3]))


@pytest.mark.parametrize(
    "fault",
    [
        Fault("hub", "/videos/", status=429, headers={"Retry-After": "0"}, times=2),
        Fault("hub", "/api/datasets", status=503, times=2),
        Fault("store", "/videos/", status=500, times=2),
        Fault("store", "/videos/", cut_after=1000, times=2),
        Fault("store", "/videos/", cut_after=0),
        Fault("store", "/meta/", cut_after=100),
    ],
    ids=lambda fault: f"{fault.server}-{fault.part.strip('/')}-{fault.status or 'cut'}-{fault.cut_after}",
)
def test_what_passes_is_tried_again(hub: FakeHub, newer: Path, fault: Fault) -> None:
    hub.upload(newer, ID)
    hub.faults.append(Fault(**vars(fault)))
    assert_same(open_episodes(newer), open_episodes(ID))
    assert hub.faults[0].times == 0


def test_what_does_not_pass_is_an_error_of_the_episode(hub: FakeHub, local: Path) -> None:
    hub.upload(local, ID)
    episode = open_episodes(ID)[0]
    hub.faults.append(Fault("store", "/videos/", status=500, times=99))
    with pytest.raises(VideoError, match=r"Cannot fetch hf://\S+\.mp4: HTTP status 500\.") as caught:
        episode.view("top").read([0])
    assert "Signature" not in str(caught.value)
    assert hub.count("store", "/videos/") == 6
    hub.faults.append(Fault("hub", "/api/datasets", status=502, times=99))
    with pytest.raises(SourceError, match="the Hub answered with HTTP status 502"):
        open_episodes(ID)


def test_a_server_that_lies_about_a_range_is_refused(hub: FakeHub, tmp_path: Path) -> None:
    commit = hub.upload(dataset(tmp_path / "local"), ID)
    episode = open_episodes(ID)[0]
    files = hub.commits[ID, commit]
    name = next(name for name in files if TOP in name)
    files[name] += b"more"
    with pytest.raises(VideoError, match=r"the server gave 'bytes 0-\d+/\d+' for bytes 0-"):
        episode.view("top").read([0])


def test_an_unreachable_hub_is_one_line(hub: FakeHub, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(constants, "ENDPOINT", "http://127.0.0.1:9")
    with pytest.raises(
        SourceError,
        match=r"the Hub is not reached: the connection was refused.*\. To use what is .*HF_HUB_OFFLINE=1",
    ):
        open_episodes(ID)
    with pytest.raises(SourceError, match=r"Cannot read dataset 'ann/b--c' from the Hub: Cannot have --"):
        open_episodes("ann/b--c")


def test_files_in_the_hubs_cache_are_used_and_not_asked_for(
    hub: FakeHub, local: Path, tmp_path: Path
) -> None:
    hub.upload(local, ID)
    name = f"videos/{TOP}/chunk-000/file-000.mp4"
    hf_hub_download(ID, name, repo_type="dataset")
    episodes = open_episodes(ID)
    hub.asked.clear()
    view = episodes[1].view("top")
    np.testing.assert_array_equal(view.read([3]), open_episodes(local)[1].view("top").read([3]))
    assert isinstance(view, RemoteVideo)
    assert view.on_disk() == VideoView(view.file.path, view.span, sparse=True)
    assert view.file.path.is_relative_to(tmp_path / "hub")
    assert hub.count(part=TOP) == 0
    assert episodes[1].fingerprint == open_episodes(local)[1].fingerprint  # of both cameras
    assert hub.count(part=TOP) == 0 < hub.count(part=WRIST)


def test_offline_a_downloaded_dataset_is_read_by_its_id(
    hub: FakeHub, local: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    hub.upload(local, ID)
    folder = snapshot_download(ID, repo_type="dataset")
    hub.asked.clear()
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    there = open_episodes(ID)
    assert {episode.dataset for episode in there} == {ID}
    assert_same(open_episodes(local), there)
    assert_same(open_episodes(local), open_episodes(folder))  # as `hf download` prints it
    assert open_episodes(folder)[0].dataset == ID
    with pytest.raises(SourceError, match="Nothing of ann/other has been fetched"):
        open_episodes("ann/other")
    assert hub.asked == []


def test_offline_what_was_fetched_is_read_and_nothing_is_asked(
    hub: FakeHub, local: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    hub.upload(local, ID)
    frames = open_episodes(ID)[0].view("top").read([3])
    hub.asked.clear()
    with cache_only():
        episode = open_episodes(ID)[0]
        np.testing.assert_array_equal(episode.view("top").read([3]), frames)
        with pytest.raises(VideoError, match="has not been fetched"):
            episode.view("wrist").read([3])
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    np.testing.assert_array_equal(open_episodes(ID)[0].view("top").read([3]), frames)
    with pytest.raises(VideoError, match=r"Cannot fetch hf://.*offline"):
        open_episodes(ID)[0].view("wrist").read([3])
    assert hub.asked == []


def test_offline_what_came_last_is_read(
    hub: FakeHub, local: Path, newer: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    hub.upload(local, ID)
    open_episodes(ID)
    hub.upload(newer, ID)
    snapshot = Path(snapshot_download(ID, repo_type="dataset"))
    os.utime(snapshot, (snapshot.stat().st_mtime + 5,) * 2)
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    assert open_episodes(ID).ids() == open_episodes(newer).ids()
    os.utime(snapshot, (0, 0))
    assert open_episodes(ID).ids() == open_episodes(local).ids()


def test_a_dataset_in_a_folder_of_a_repository(hub: FakeHub, local: Path, tmp_path: Path) -> None:
    shutil.copytree(local, tmp_path / "all" / "runs" / "blocks")
    hub.upload(tmp_path / "all", "ann/many")
    there = open_episodes("hf://datasets/ann/many/runs/blocks")
    assert_same(open_episodes(local), there)
    assert there[0].dataset == "ann/many/runs/blocks"
    with pytest.raises(SourceError, match=r"no meta/info\.json in hf://datasets/ann/many@"):
        open_episodes("ann/many")


@pytest.mark.parametrize(
    ("url", "folder"),
    [
        ("hf://datasets/a/b", HubFolder("dataset", "a/b")),
        ("hf://datasets/a/b@v1/c/d", HubFolder("dataset", "a/b", "v1", "c/d")),
        ("hf://datasets/a/b@refs/pr/3/c", HubFolder("dataset", "a/b", "refs/pr/3", "c")),
        ("hf://datasets/a/b@refs%2Fpr%2F3", HubFolder("dataset", "a/b", "refs/pr/3")),
        ("hf://a/b", HubFolder("model", "a/b")),
        ("hf://spaces/a/b/c", HubFolder("space", "a/b", None, "c")),
        ("hf://buckets/a/b", None),
        ("hf://datasets/a", None),
        ("s3://a/b", None),
    ],
)
def test_addresses_of_the_hub(url: str, folder: HubFolder | None) -> None:
    assert hub_folder(url) == folder
    if folder is not None:
        assert hub_folder(folder.url) == folder


def test_a_repo_id_is_judged_as_the_same_dataset_on_disk(hub: FakeHub, local: Path, tmp_path: Path) -> None:
    hub.upload(local, ID)
    command = [
        sys.executable,
        "-m",
        "stepscore",
        "judge",
        ID,
        "--judge",
        "image-difference",
        "-J",
        "points=3",
    ]
    subprocess.run(
        [*command, "--views", "top", "-o", str(tmp_path / "there")],
        check=True,
        capture_output=True,
        env={**os.environ, **hub_environment(hub, tmp_path)},  # as a user names the Hub
        timeout=120,
        cwd=tmp_path,
    )
    judge = stepscore.get_judge("image-difference", points=3)
    stepscore.score(open_episodes(local), judge, out=tmp_path / "here", views=["top"])
    for table in ("judgements", "curves"):
        here, there = (tmp_path / name / f"{table}.parquet" for name in ("here", "there"))
        assert here.read_bytes() == there.read_bytes()
    assert json.loads((tmp_path / "there" / "run.json").read_text())["source"] == ID
    assert hub.sent(WRIST) == 0 < hub.sent(TOP)
