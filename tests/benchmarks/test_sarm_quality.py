"""Videos and predictions of SARM's figures, on made-up ones whose right figure is known."""

from __future__ import annotations

import math

import numpy as np
import pytest

from benchmarks.sarm.judgements import Prediction, linear_time_prediction
from benchmarks.sarm.videos import Video, duration_distance, linear_time, stage_names
from stepscore.types import FloatArray

TASK = "push"
K = len(stage_names(TASK))


def video(truth: FloatArray, *, name: str = "one", success: bool = True) -> Video:
    """Return a video at 10 frames a second with this potential; its features are the frames' indices."""
    n = len(truth)
    return Video(
        name,
        TASK,
        f"scene of {name}",
        "push it",
        success,
        np.arange(n) / 10,
        np.arange(n, dtype=np.float16).reshape(n, 1, 1),
        truth,
        np.minimum((truth * K + 1e-9).astype(np.int64), K - 1),
    )


RISING = np.linspace(0, 1, 21)


def test_twice_as_fast_every_other_frame_is_left_out() -> None:
    fast = video(RISING).resampled(2.0)
    assert fast.features[:, 0, 0].tolist() == list(range(0, 21, 2))
    assert fast.times == pytest.approx(np.arange(11) / 10)
    assert fast.truth == pytest.approx(RISING[::2])


def test_at_half_the_speed_every_frame_is_shown_twice() -> None:
    slow = video(RISING).resampled(0.5)
    assert slow.features[:, 0, 0].tolist() == [number // 2 for number in range(41)]
    assert slow.times[-1] == pytest.approx(4.0)


@pytest.mark.parametrize("speed", [0.5, 0.75, 1.5, 2.0])
def test_truth_stays_with_its_frame_at_any_speed(speed: float) -> None:
    changed = video(RISING).resampled(speed)
    frames = changed.features[:, 0, 0].astype(int)
    assert changed.truth == pytest.approx(RISING[frames])
    assert np.abs(changed.times * speed - frames / 10).max() < 0.1
    assert np.all(np.diff(changed.times) > 0)


def test_a_cut_video_ends_early_and_linear_time_runs_to_its_end() -> None:
    cut = video(RISING).first_frames(11)
    assert len(cut.times) == 11
    assert linear_time(cut)[-1] == 1.0
    assert linear_time_prediction(cut).error(cut) == pytest.approx(0.25)


def test_linear_time_is_right_where_progress_is_even() -> None:
    even = video(RISING)
    assert linear_time_prediction(even).error(even) == pytest.approx(0.0)
    assert linear_time_prediction(even).voc() == pytest.approx(1.0)


def test_progress_without_stages_is_in_the_stage_it_lies_in() -> None:
    even = video(RISING)
    assert linear_time_prediction(even).stage_accuracy(even) == 1.0
    late = Prediction(even.times, np.clip(RISING + 1 / K, 0, 1), 1.0)
    assert late.stage_accuracy(even) == pytest.approx(np.mean(RISING * K + 1e-9 >= K - 1))


def test_predicted_stages_count_before_progress() -> None:
    even = video(RISING)
    predicted = Prediction(even.times, np.zeros(len(RISING)), 0.0, stages=even.stages)
    assert predicted.stage_accuracy(even) == 1.0


def test_points_between_frames_are_held_against_the_frame_shown() -> None:
    even = video(RISING)
    predicted = Prediction(np.array([0.04, 1.06]), np.array([0.02, 0.53]), 0.5)
    assert predicted.error(even) == pytest.approx(0.0)
    assert even.at(predicted.times).tolist() == [0, 10]


def test_a_judge_without_points_has_no_figure() -> None:
    even = video(RISING)
    silent = Prediction(np.array([0.5]), np.array([np.nan]), math.nan)
    assert math.isnan(silent.error(even))
    assert math.isnan(silent.stage_accuracy(even))


def test_equal_durations_have_no_distance_and_a_lingering_one_has() -> None:
    even, same = video(RISING), video(RISING, name="two")
    assert duration_distance([even, same]) == pytest.approx([0.0, 0.0])
    lingers = video(np.concatenate([np.zeros(40), RISING]), name="three")
    failed = video(RISING[:9], name="four", success=False)
    first, second, none = duration_distance([even, lingers, failed])
    assert first == pytest.approx(second)  # two videos lie equally far from their mean
    assert first > 0.2
    assert math.isnan(none)
