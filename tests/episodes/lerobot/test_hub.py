"""Datasets on the Hub: only the files that are needed are fetched."""

from __future__ import annotations

import fnmatch
import pickle
import shutil
import sys
import types
from pathlib import Path

import pytest

from stepscore.episodes import open_episodes
from stepscore.episodes.lerobot.hub import dataset_folder, fetch, snapshot_of
from stepscore.errors import MissingExtraError, SourceError, VideoError
from tests.episodes.lerobot.datasets import TOP, WRIST, dataset
from tests.media import numbers_of

COMMIT = "0123456789abcdef0123456789abcdef01234567"


class FakeHub(types.ModuleType):
    """The two functions of huggingface_hub that are used, on a local folder instead of a server."""

    def __init__(self, remote: Path, cache: Path) -> None:
        super().__init__("huggingface_hub")
        self.remote, self.cache = remote, cache
        self.fetched: list[str] = []
        self.online = True

    def snapshot_download(
        self, repo_id: str, *, repo_type: str, revision: str | None, allow_patterns: list[str]
    ) -> str:
        assert repo_type == "dataset"
        for path in sorted(self.remote.rglob("*")):
            name = path.relative_to(self.remote).as_posix()
            if path.is_file() and any(fnmatch.fnmatch(name, pattern) for pattern in allow_patterns):
                self.hf_hub_download(
                    repo_id, name, repo_type=repo_type, revision=revision or "main", cache_dir=self.cache
                )
        return str(self._snapshot(repo_id, self.cache))

    def hf_hub_download(
        self, repo_id: str, filename: str, *, repo_type: str, revision: str, cache_dir: Path
    ) -> str:
        assert repo_type == "dataset"
        assert revision in ("main", "v3.0", COMMIT)
        if not self.online:
            raise ConnectionError("no route to host")
        if repo_id != "ann/blocks":
            raise LookupError(f"404: {repo_id}")
        target = self._snapshot(repo_id, cache_dir) / filename
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(self.remote / filename, target)
        self.fetched.append(filename)
        return str(target)

    def _snapshot(self, repo_id: str, cache: Path) -> Path:
        return cache / f"datasets--{repo_id.replace('/', '--')}" / "snapshots" / COMMIT


@pytest.fixture
def hub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> FakeHub:
    fake = FakeHub(dataset(tmp_path / "remote"), tmp_path / "cache")
    monkeypatch.setitem(sys.modules, "huggingface_hub", fake)
    return fake


def test_opening_a_repo_fetches_its_meta_alone(hub: FakeHub) -> None:
    episodes = open_episodes("ann/blocks")
    assert len(episodes) == 5
    assert episodes.problems == ()
    assert hub.fetched
    assert all(name.startswith("meta/") for name in hub.fetched)


def test_an_episode_fetches_its_own_files_and_each_once(hub: FakeHub) -> None:
    episodes = open_episodes("ann/blocks")
    hub.fetched.clear()
    episode = episodes[2]
    assert (episode.dataset, episode.labels.success) == ("ann/blocks", True)
    assert hub.fetched == ["data/chunk-000/file-001.parquet"]
    assert numbers_of(episode.clip("top", count=3).frames) == [64, 70, 75]
    assert episodes[3].view("top").info().first_frame == 12
    assert hub.fetched[1:] == [f"videos/{TOP}/chunk-000/file-001.mp4"]
    assert len(episode.fingerprint) == 64
    assert hub.fetched[2:] == [f"videos/{WRIST}/chunk-000/file-001.mp4"]


def test_handles_fetch_in_other_processes_too(hub: FakeHub) -> None:
    episode = pickle.loads(pickle.dumps(open_episodes("ann/blocks")[4]))
    assert episode.view("top").location().endswith("file-002.mp4 [0.00..0.90 s]")
    assert not any(name.startswith("videos") for name in hub.fetched)
    assert len(episode.view("top").timestamps()) == 9


def test_image_features_fetch_the_data_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    remote = dataset(tmp_path / "remote", images=[TOP, WRIST], lengths=(3, 3))
    fake = FakeHub(remote, tmp_path / "cache")
    monkeypatch.setitem(sys.modules, "huggingface_hub", fake)
    episode = open_episodes("ann/blocks")[1]
    assert numbers_of(episode.view("top").read([2])) == [34]
    assert [name for name in fake.fetched if not name.startswith("meta/")] == [
        "data/chunk-000/file-000.parquet"
    ]


def test_recorded_progress_comes_with_the_meta(hub: FakeHub) -> None:
    (hub.remote / "sarm_progress.parquet").write_bytes(b"PAR1")
    assert [path.name for path in open_episodes("ann/blocks")[0].recorded] == ["sarm_progress.parquet"]


def test_a_revision_can_be_named(hub: FakeHub) -> None:
    assert dataset_folder("ann/blocks", "v3.0").name == COMMIT


def test_a_path_in_the_cache_tells_repository_and_commit(tmp_path: Path) -> None:
    folder = tmp_path / "datasets--ann--blocks" / "snapshots" / COMMIT
    assert snapshot_of(folder / "meta/info.json") == ("ann/blocks", COMMIT, tmp_path, folder)
    assert snapshot_of(folder) == snapshot_of(folder / "videos/a/b.mp4")
    assert snapshot_of(tmp_path / "models--ann--net" / "snapshots" / COMMIT) is None
    assert snapshot_of(tmp_path / "blocks") is None
    assert fetch(tmp_path / "absent.mp4") == tmp_path / "absent.mp4"


def test_what_cannot_be_fetched_is_named(hub: FakeHub) -> None:
    with pytest.raises(SourceError, match=r"Cannot fetch dataset 'ann/nothing' from the Hub: .*404"):
        open_episodes("ann/nothing")
    episodes = open_episodes("ann/blocks")
    hub.online = False
    episode = episodes[0]
    assert "no route to host" in str(episode.metadata["labels_error"])
    with pytest.raises(VideoError, match=rf"Cannot fetch videos/{TOP}/.*'ann/blocks': no route"):
        episode.clip("top", count=1)


def test_without_the_extra_the_message_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "huggingface_hub", None)
    with pytest.raises(MissingExtraError, match=r"stepscore\[hub\]"):
        open_episodes("ann/blocks")
