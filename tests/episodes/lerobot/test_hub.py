"""The Hub without its package, and datasets in its cache by their path."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from stepscore.episodes import open_episodes
from stepscore.episodes.remote import snapshot_of
from stepscore.errors import MissingExtraError
from tests.episodes.lerobot.datasets import dataset

COMMIT = "0123456789abcdef0123456789abcdef01234567"


def test_a_path_in_the_cache_tells_repository_and_commit(tmp_path: Path) -> None:
    folder = tmp_path / "datasets--ann--blocks" / "snapshots" / COMMIT
    assert snapshot_of(folder / "meta/info.json") == ("ann/blocks", COMMIT, tmp_path, folder)
    assert snapshot_of(folder) == snapshot_of(folder / "videos/a/b.mp4")
    assert snapshot_of(tmp_path / "models--ann--net" / "snapshots" / COMMIT) is None
    assert snapshot_of(tmp_path / "blocks") is None


def test_a_downloaded_dataset_is_named_after_its_repository_and_lists_what_is_missing(tmp_path: Path) -> None:
    folder = dataset(tmp_path / "datasets--ann--blocks" / "snapshots" / COMMIT)
    assert open_episodes(folder)[0].dataset == "ann/blocks"
    assert open_episodes(folder).problems == ()
    next(folder.rglob("*.mp4")).unlink()
    assert "no file videos/" in open_episodes(folder).problems[0].why


@pytest.mark.parametrize("source", ["ann/blocks", "ann/blocks@v2.0", "hf://datasets/ann/blocks"])
def test_without_the_extra_the_message_says_what_to_install(
    source: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "huggingface_hub", None)
    with pytest.raises(MissingExtraError, match=r"stepscore\[hub\]"):
        open_episodes(source)
