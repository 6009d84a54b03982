"""Logs of inspect-robots with their frames."""

from __future__ import annotations

import json
import pickle
from pathlib import Path

import numpy as np
import pytest

from stepscore.episodes import open_episodes
from stepscore.episodes.readers.inspect_robots import _safe
from stepscore.episodes.readers.npy_frames import NpyFramesView, read_npy_image
from stepscore.errors import OptionError, SourceError, VideoError
from tests.episodes.readers import written


def rewritten(path: Path, **changes: object) -> Path:
    path.write_text(json.dumps(json.loads(path.read_text()) | changes))
    return path


def test_a_trial_is_an_episode_with_policy_robot_scene_and_cameras(tmp_path: Path) -> None:
    episodes = open_episodes(written.inspect_robots(tmp_path))
    assert episodes.reader == "inspect-robots"
    assert episodes.ids() == ["bin a-e0", "kitchen-1-e0", "kitchen-1-e1"]
    first = episodes["kitchen-1-e0"]
    assert (first.policy, first.robot, first.dataset, first.pair) == (
        "pi05",
        "yam",
        "kitchenbench",
        "kitchen-1",
    )
    assert first.instruction == "put the cup in the sink"
    assert list(first.views) == ["front", "wrist_cam"]
    assert first.metadata["operator_note"] == "slipped once"
    clip = first.clip("front", indices=[0, 3])
    np.testing.assert_allclose(clip.timestamps, [0, 4 / 20])  # step 3 was not stored
    assert clip.frames[1, 0, 0].tolist() == [160] * 3
    assert first.info is not None
    assert first.info.duration_s == pytest.approx(0.25)


def test_success_is_what_an_operator_or_a_scorer_stated(tmp_path: Path) -> None:
    episodes = open_episodes(written.inspect_robots(tmp_path))
    stated = {episode.id: episode.labels.success for episode in episodes}
    # The scorer "operator" is 0 where nobody judged; that is no failure.
    assert stated == {"kitchen-1-e0": True, "kitchen-1-e1": False, "bin a-e0": None}
    path = written.inspect_robots(tmp_path / "again")
    log = json.loads(path.read_text())
    log["samples"][0]["operator_judgements"] = ["hard to tell", None]
    log["samples"][0]["epochs"][1] = {"operator": 0.0}
    again = open_episodes(rewritten(path, samples=log["samples"]))
    assert [again[name].labels.success for name in ("kitchen-1-e0", "kitchen-1-e1")] == [None, None]


def test_a_folder_of_logs_prefixes_their_names(tmp_path: Path) -> None:
    path = written.inspect_robots(tmp_path)
    assert open_episodes(path.parent).ids()[0] == "kitchenbench_0a1b2c3d/bin a-e0"


def test_a_warm_up_frame_without_pixels_is_left_out(tmp_path: Path) -> None:
    view = open_episodes(written.inspect_robots(tmp_path))["kitchen-1-e1"].views["front"]
    assert isinstance(view, NpyFramesView)
    assert view.steps == (1, 2, 4)
    assert view.timestamps()[0] == 0


@pytest.mark.parametrize("stated", [None, "", "..", "/etc", "a\0b", 5, "nowhere"])
def test_frames_are_looked_for_in_the_folder_of_the_log_alone(tmp_path: Path, stated: object) -> None:
    path = written.inspect_robots(tmp_path)
    stats = json.loads(path.read_text())["stats"] | {"frames_dir": stated}
    with pytest.raises(SourceError, match="3 of 3 trials have no frames"):
        open_episodes(rewritten(path, stats=stats))


@pytest.mark.parametrize(
    "changes", [{"version": 2}, {"eval": []}, {"samples": None}, {"samples": [], "version": True}]
)
def test_another_version_or_shape_is_refused_by_name(tmp_path: Path, changes: dict[str, object]) -> None:
    path = rewritten(written.inspect_robots(tmp_path), **changes)
    with pytest.raises(SourceError):
        open_episodes(path, reader="inspect-robots")


def test_a_policy_is_in_the_log_and_not_in_a_folder(tmp_path: Path) -> None:
    with pytest.raises(OptionError, match="policy-from"):
        open_episodes(written.inspect_robots(tmp_path), policy_from=1)


def test_names_in_files_are_those_inspect_robots_writes() -> None:
    assert _safe("kitchen-1-e0") == "kitchen-1-e0"
    assert _safe("a/b-e0") != _safe("a-b-e0")


class TestFrameFiles:
    def test_a_pickle_another_type_and_a_lying_header_are_refused(self, tmp_path: Path) -> None:
        path = tmp_path / "a.npy"
        for array in (
            np.zeros((4, 4, 3), np.float32),
            np.zeros((4, 4), np.uint8),
            np.zeros((4, 4, 4), np.uint8),
            np.array([{"a": 1}], dtype=object),
            np.asfortranarray(np.zeros((4, 5, 3), np.uint8)),
        ):
            np.save(path, array, allow_pickle=True)
            with pytest.raises(VideoError):
                read_npy_image(path)
        np.save(path, np.zeros((4, 4, 3), np.uint8))
        good = path.read_bytes()
        for content in (good[:-1], good + b"\0", good.replace(b"(4, 4, 3)", b"(4, 9, 3)"), b"", b"\x93NUMPY"):
            path.write_bytes(content)
            with pytest.raises(VideoError):
                read_npy_image(path)

    def test_frames_of_another_size_are_refused(self, tmp_path: Path) -> None:
        for number, side in enumerate((4, 5)):
            np.save(tmp_path / f"{number}.npy", np.zeros((side, side, 3), np.uint8))
        view = NpyFramesView((tmp_path / "0.npy", tmp_path / "1.npy"), (0, 1), 10.0)
        with pytest.raises(VideoError, match="all must agree"):
            view.read([1])
        assert pickle.loads(pickle.dumps(view)) == view


def test_trials_that_begin_and_end_alike_have_fingerprints_of_their_own(tmp_path: Path) -> None:
    # Two trials of one scene, of as many steps: the arm starts at home and ends at the cube.
    found = []
    for trial, middle in enumerate((50, 90)):
        paths = []
        for step, grey in enumerate((10, middle, 200)):
            paths.append(tmp_path / f"{trial}_{step}.npy")
            np.save(paths[-1], np.full((8, 8, 3), grey, np.uint8))
        found.append(NpyFramesView(tuple(paths), (0, 1, 2), 10.0).digest())
    assert found[0] != found[1]
