"""Episodes are kept by their numbers, frames by whether anything happens; the unknown is no failure."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

from stepscore.analysis import EpisodeMetrics
from stepscore.curation.selection import done_levels, select_episodes, stall_frames
from stepscore.errors import OptionError, UnknownNameError
from stepscore.metrics.catalog import MetricColumn
from tests.curation.made import frames_of

NAN = math.nan


@pytest.fixture
def measures() -> EpisodeMetrics:
    rows = tuple(
        {"episode_id": name, "task": task, "instruction": ""}
        for name, task in zip("abcdef", "xxxyyy", strict=True)
    )
    columns = (
        MetricColumn("PPL", "higher", "mean", ""),
        MetricColumn("STR", "lower", "mean", ""),
        MetricColumn("n", "neither", "mean", ""),
    )
    values = {
        "PPL": np.array([0.9, 0.8, 0.7, 0.3, 0.2, NAN]),
        "STR": np.array([0.5, 0.1, 0.1, 0.0, 0.9, 0.2]),
        "n": np.zeros(6),
        "success_label": np.array([1, 0, NAN, 1, 0, 1]),
        "success_judge": np.array([1, 1, 0, 1, 1, 1]),
    }
    return EpisodeMetrics(rows, columns, values, ())


def test_the_best_share_is_kept_whichever_direction_is_better(measures: EpisodeMetrics) -> None:
    assert select_episodes(measures, top=0.4, by="PPL").kept == ("a", "b")
    assert select_episodes(measures, top=0.5, by="STR").kept == ("b", "c", "d")


def test_an_episode_whose_metric_is_unknown_is_dropped_and_says_why(measures: EpisodeMetrics) -> None:
    chosen = select_episodes(measures, top=1.0, by="PPL")
    assert chosen.kept == ("a", "b", "c", "d", "e")
    assert chosen.dropped == {"f": "its PPL is unknown"}


def test_the_share_can_be_taken_of_every_task(measures: EpisodeMetrics) -> None:
    assert select_episodes(measures, top=0.5, by="PPL", per_task=True).kept == ("a", "b", "d")


def test_a_filter_by_an_uncalibrated_judge_warns(
    measures: EpisodeMetrics, recwarn: pytest.WarningsRecorder
) -> None:
    by_map = replace(measures, verdict_rules=("probability",) * 6)
    assert select_episodes(by_map, failures="drop", success_by="judge").kept == tuple("abdef")
    by_score = replace(measures, verdict_rules=("probability",) * 5 + ("score",))
    assert select_episodes(by_score, failures="drop").kept == ("a", "c", "d", "f")
    assert not recwarn
    with pytest.warns(UserWarning, match="partly uncalibrated.*stepscore calibrate"):
        assert select_episodes(by_score, failures="drop", success_by="judge").kept == tuple("abdef")


def test_failures_are_dropped_by_whoever_is_asked_and_the_unknown_stays(measures: EpisodeMetrics) -> None:
    assert select_episodes(measures, failures="drop").kept == ("a", "c", "d", "f")
    by_judge = select_episodes(measures, failures="drop", success_by="judge")
    assert by_judge.dropped == {"c": "failed, by the judge"}
    assert select_episodes(measures).kept == tuple("abcdef")


def test_the_share_is_of_those_that_did_not_fail(measures: EpisodeMetrics) -> None:
    assert select_episodes(measures, failures="drop", top=0.5, by="STR").kept == ("c", "d")


def test_wrong_options_say_what_is_right(measures: EpisodeMetrics) -> None:
    with pytest.raises(UnknownNameError, match="PPL"):
        select_episodes(measures, top=0.5, by="PLP")
    for wrong in (
        {"top": 0.5},
        {"top": 0.0, "by": "PPL"},
        {"top": 1.5, "by": "PPL"},
        {"top": 0.5, "by": "n"},
    ):
        with pytest.raises(OptionError):
            select_episodes(measures, **wrong)
    with pytest.raises(UnknownNameError, match="keep"):
        select_episodes(measures, failures="mark")  # type: ignore[arg-type]


class TestStalls:
    def test_a_stretch_without_progress_is_a_stall_from_its_first_frame_to_its_last(self) -> None:
        curve = [0.0, 0.1, 0.2, 0.2, 0.2, 0.2, 0.3, 0.4]
        found = stall_frames(frames_of(curve), seconds=0.3)
        assert np.flatnonzero(found).tolist() == [2, 3, 4, 5]
        assert not stall_frames(frames_of(curve), seconds=0.4).any()

    def test_the_end_of_a_finished_task_is_no_stall_and_that_of_a_failure_is(self) -> None:
        held = [0.0, 0.3, 0.6, 0.6, 0.6, 0.6]
        frames = frames_of(held, held, held, success=[True, False, None])
        found = stall_frames(frames, seconds=0.3).reshape(3, 6)
        assert not found[0].any()
        assert np.flatnonzero(found[1]).tolist() == [2, 3, 4, 5]
        assert np.array_equal(found[1], found[2])

    def test_what_is_not_known_is_no_known_stall(self) -> None:
        assert not stall_frames(frames_of([0.2, 0.2, NAN, 0.2, 0.2]), seconds=0.2).any()

    def test_slow_progress_within_the_range_is_a_stall(self) -> None:
        slow = np.linspace(0.1, 0.13, 31).tolist()
        assert stall_frames(frames_of(slow), seconds=1.0).all()
        assert not stall_frames(frames_of(slow), seconds=1.0, still=0.005).any()

    def test_a_stall_of_no_time_is_an_error(self) -> None:
        with pytest.raises(OptionError, match="0 s"):
            stall_frames(frames_of([0.0]), seconds=0)


def test_done_is_what_the_label_and_the_judge_say() -> None:
    rising = [0.0, 0.4, 0.7]
    frames = frames_of(rising, rising, rising, [NAN], success=[True, False, None, True])
    assert done_levels(frames, 0.95).tolist() == [0.7, math.inf, 0.95, 0.95]
    assert done_levels(frames, 0.5).tolist() == [0.5, math.inf, 0.5, 0.5]


def test_done_is_a_progress_above_0() -> None:
    with pytest.raises(OptionError, match="done"):
        done_levels(frames_of([0.0, 1.0]), 0.0)
