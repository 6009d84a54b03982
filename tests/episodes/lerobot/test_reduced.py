"""A dataset of some episodes: numbers, timestamps, frames and packets are those of the source, which is untouched."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

import av
import numpy as np
import pyarrow.parquet as pq
import pytest

from stepscore.episodes import open_episodes
from stepscore.episodes.lerobot.writing import write_lerobot, write_reduced
from stepscore.errors import OptionError, SourceError
from tests.episodes.lerobot.datasets import FPS, LENGTHS, TOP, WRIST, dataset, recordings

KEPT = (0, 2, 3)


def digests(root: Path) -> dict[str, str]:
    return {
        str(path.relative_to(root)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(root.rglob("*"))
        if path.is_file()
    }


def packets(path: Path) -> list[bytes]:
    with av.open(str(path)) as container:
        return [bytes(packet) for packet in container.demux(video=0) if packet.size]


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return dataset(tmp_path_factory.mktemp("source") / "d", extras=[{"policy": f"p{k}"} for k in range(5)])


@pytest.fixture(scope="module")
def reduced(source: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    before = digests(source)
    root = write_reduced(source, KEPT, tmp_path_factory.mktemp("reduced") / "d")
    assert digests(source) == before
    return root


def test_counts_timestamps_and_frames_are_those_of_the_kept_episodes(source: Path, reduced: Path) -> None:
    old, new = open_episodes(source), open_episodes(reduced)
    assert len(new) == len(KEPT)
    for number, was in enumerate(KEPT):
        one, other = old[was], new[number]
        assert (one.instruction, one.policy) == (other.instruction, other.policy)
        for view in one.views:
            before, after = one.view(view), other.view(view)
            np.testing.assert_array_equal(before.timestamps(), after.timestamps())
            every = range(LENGTHS[was])
            np.testing.assert_array_equal(before.read(every), after.read(every))


def test_packets_are_copied_byte_for_byte(source: Path, reduced: Path) -> None:
    for camera in (TOP, WRIST):
        files = [sorted((root / "videos" / camera).rglob("*.mp4")) for root in (source, reduced)]
        originals = [packet for path in files[0] for packet in packets(path)]
        firsts = np.cumsum([0, *LENGTHS])
        kept = [packet for k in KEPT for packet in originals[firsts[k] : firsts[k + 1]]]
        assert [packet for path in files[1] for packet in packets(path)] == kept


def test_rows_are_copied_with_new_numbers(source: Path, reduced: Path) -> None:
    before, after = (
        [
            row
            for path in sorted((root / "data").rglob("*.parquet"))
            for row in pq.read_table(path).to_pylist()
        ]
        for root in (source, reduced)
    )
    new = {was: number for number, was in enumerate(KEPT)}
    expected = [
        {**row, "episode_index": new[row["episode_index"]]} for row in before if row["episode_index"] in new
    ]
    assert after == [{**row, "index": number} for number, row in enumerate(expected)]
    info = json.loads((reduced / "meta/info.json").read_text(encoding="utf-8"))
    assert (info["total_episodes"], info["total_frames"]) == (3, sum(LENGTHS[k] for k in KEPT))
    assert info["splits"] == {"train": "0:3"}
    kept = json.loads((reduced / "meta/reduced.json").read_text(encoding="utf-8"))["episodes"]
    assert kept == {"0": 0, "1": 2, "2": 3}


def test_statistics_are_those_of_a_dataset_written_with_these_episodes_only(
    reduced: Path, tmp_path: Path
) -> None:
    chosen = [recordings()[k] for k in KEPT]
    fresh = write_lerobot(tmp_path / "fresh", chosen, fps=FPS, episodes_per_file=2)
    ours, theirs = (
        json.loads((root / "meta/stats.json").read_text(encoding="utf-8")) for root in (reduced, fresh)
    )
    assert ours.keys() == theirs.keys()
    for name, values in theirs.items():
        for statistic, value in values.items():
            np.testing.assert_allclose(ours[name][statistic], value, atol=1e-9, err_msg=f"{name} {statistic}")
    rows, again = (
        pq.read_table(root / "meta/episodes/chunk-000/file-000.parquet").slice(0, 1).to_pylist()[0]
        for root in (reduced, fresh)
    )
    for key in (key for key in again if key.startswith("stats/")):
        np.testing.assert_allclose(rows[key], again[key], atol=1e-9, err_msg=key)


def test_what_cannot_be_written_is_refused(source: Path, reduced: Path, tmp_path: Path) -> None:
    with pytest.raises(OptionError, match="not empty"):
        write_reduced(source, KEPT, reduced)
    with pytest.raises(OptionError, match="inside the dataset"):
        write_reduced(source, KEPT, source / "less")
    with pytest.raises(OptionError, match="no episode 9"):
        write_reduced(source, [0, 9], tmp_path / "a")
    with pytest.raises(SourceError, match=r"only v3\.0"):
        write_reduced(dataset(tmp_path / "old", version="v2.1"), KEPT, tmp_path / "b")
