"""State and action of an episode are those of its own frames, whatever the layout, and unknown ones stay unknown."""

from __future__ import annotations

import json
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from stepscore.episodes import Episode, Signal, open_episodes, perturb
from stepscore.episodes.signals import dimension_names
from stepscore.errors import EpisodeError
from tests.episodes.lerobot.datasets import LENGTHS, add_column, change_info, dataset
from tests.media import write_video


def by_name(episode: Episode) -> dict[str, Signal]:
    return {signal.name: signal for signal in episode.signals()}


@pytest.mark.parametrize("options", [{}, {"version": "v2.1"}, {"episodes_per_file": 5}], ids=str)
def test_every_episode_has_the_state_and_action_of_its_own_frames(
    options: dict[str, Any], tmp_path: Path
) -> None:
    root = dataset(tmp_path / "data", **options)
    change_info(
        root,
        features={
            "action": {"dtype": "float64", "shape": [3], "names": {"motors": ["pan", "lift", "grip"]}},
        },
    )
    episodes = open_episodes(root)
    for k, (episode, n) in enumerate(zip(episodes, LENGTHS, strict=True)):
        found = by_name(episode)
        assert list(found)[:2] == ["observation.state", "action"]
        state, action = found["observation.state"], found["action"]
        assert (state.dimensions, action.dimensions) == (("0", "1"), ("pan", "lift", "grip"))
        np.testing.assert_array_equal(state.values, [[i, k] for i in range(n)])
        np.testing.assert_allclose(action.values[:, 0], np.arange(n) / 10)
        np.testing.assert_allclose(state.times, episode.view("top").timestamps(), atol=1e-6)
        np.testing.assert_array_equal(found["next.success"].values.sum(), 0 if k == 1 else 1)
        assert not {"timestamp", "frame_index", "episode_index", "index", "task_index"} & set(found)
        assert len(by_name(pickle.loads(pickle.dumps(episode)))) == len(found)


def test_signals_follow_the_frames_of_a_perturbed_episode(tmp_path: Path) -> None:
    episode = open_episodes(dataset(tmp_path / "data"))[2]
    for name, options, expected in (
        ("cut", {"to_s": 0.5}, range(5)),
        ("reversed", {}, range(11, -1, -1)),
        ("frozen", {"at": "last"}, [11] * 12),
        ("slowed", {"factor": 2.0}, range(12)),
        ("darker", {}, range(12)),
    ):
        changed = perturb(episode, name, **options)
        state = by_name(changed)["observation.state"]
        assert state.values[:, 0].tolist() == list(expected), name
        np.testing.assert_allclose(state.times, changed.view("top").timestamps(), atol=1e-6)


def test_null_is_unknown(tmp_path: Path) -> None:
    root = dataset(tmp_path / "data", lengths=(4,))
    change_info(
        root,
        features={
            "effort": {"dtype": "float32", "shape": [2], "names": None},
            "force": {"dtype": "float32", "shape": [1], "names": ["z"]},
        },
    )
    (file,) = (root / "data").rglob("*.parquet")
    add_column(file, "effort", pa.array([[1, 2], None, [None, 4], [5, 6]], pa.list_(pa.float32())))
    add_column(file, "force", pa.array([1, None, 3, 4], pa.float32()))
    found = by_name(open_episodes(root)[0])
    nan = np.nan
    np.testing.assert_array_equal(found["effort"].values, [[1, 2], [nan, nan], [nan, 4], [5, 6]])
    np.testing.assert_array_equal(found["force"].values, [[1], [nan], [3], [4]])
    assert found["force"].dimensions == ("z",)


def test_a_file_that_does_not_fit_the_metadata_is_an_error_of_its_episode(tmp_path: Path) -> None:
    root = dataset(tmp_path / "data", lengths=(4, 3), episodes_per_file=1)
    first, second = sorted((root / "data").rglob("*.parquet"))
    pq.write_table(pq.read_table(first).slice(0, 2), first)
    change_info(root, features={"action": {"dtype": "float64", "shape": [2], "names": None}})
    episodes = open_episodes(root)
    with pytest.raises(EpisodeError, match="2 rows instead of 4"):
        episodes[0].signals()
    with pytest.raises(EpisodeError, match="action is not 2 numbers in every row"):
        episodes[1].signals()
    second.unlink()
    with pytest.raises(EpisodeError, match=r"\.parquet"):
        episodes[1].signals()


def test_a_source_without_numbers_has_no_signals(tmp_path: Path) -> None:
    write_video(tmp_path / "a.mp4", 4)
    assert open_episodes(tmp_path)[0].signals() == ()


@pytest.mark.parametrize(
    ("names", "expected"),
    [
        (["x", "y"], ("x", "y")),
        ({"motors": ["x", "y"]}, ("x", "y")),
        ({"y": 1, "x": 0}, ("x", "y")),
        (None, ("0", "1")),
        (["x"], ("0", "1")),
        (["x", "x"], ("0", "1")),
        ({"motors": {"x": "y"}}, ("0", "1")),
        ([["x", "y"]], ("0", "1")),
        ("xy", ("0", "1")),
    ],
)
def test_dimensions_are_named_by_the_source_or_numbered(names: object, expected: tuple[str, ...]) -> None:
    assert dimension_names(2, json.loads(json.dumps(names))) == expected


def test_hdf5_files_have_observations_and_actions(tmp_path: Path) -> None:
    h5py = pytest.importorskip("h5py")
    images = np.zeros((6, 8, 8, 3), np.uint8)
    with h5py.File(tmp_path / "demo.hdf5", "w") as file:
        demo = file.create_group("data/demo_0")
        demo["obs/agentview_rgb"] = images
        demo["obs/robot0_eef_pos"] = np.arange(18.0).reshape(6, 3)
        demo["obs/note"] = "text"
        demo["actions"] = np.arange(12.0).reshape(6, 2)
    signals = open_episodes(tmp_path / "demo.hdf5")[0].signals()
    assert [(one.name, one.values.shape) for one in signals] == [
        ("actions", (6, 2)),
        ("robot0_eef_pos", (6, 3)),
    ]
    np.testing.assert_allclose(signals[0].times, np.arange(6) / 20)
    (tmp_path / "act").mkdir()
    with h5py.File(tmp_path / "act" / "episode_0.hdf5", "w") as file:
        file["observations/images/cam_high"] = images
        file["observations/qpos"] = np.ones((6, 14), np.float32)
        file["action"] = np.zeros((6, 14), np.float32)
    signals = open_episodes(tmp_path / "act")[0].signals()
    assert [one.name for one in signals] == ["action", "qpos"]
