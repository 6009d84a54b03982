"""RA-BC equals LeRobot's, frame by frame; and the corrected form mends what that form does not do."""

from __future__ import annotations

import math
import time

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from stepscore.curation.rabc_corrected import (
    chunk_gains,
    corrected_rabc_weights,
    done_levels,
    expected_ramp,
    task_lengths,
)
from stepscore.curation.rabc_lerobot import lerobot_rabc_weights
from stepscore.errors import OptionError, UnknownNameError
from tests.curation.made import frames_of
from tests.curation.oracle import rabc_of_rows

NAN = math.nan
progress_values = st.floats(0, 1) | st.just(NAN) | st.sampled_from([0.0, 0.01, 0.5, 1.0])
curves = st.lists(st.lists(progress_values, min_size=1, max_size=20), min_size=0, max_size=5)


def rows_of(given_curves: list[list[float]]) -> list[tuple[int, int, float]]:
    rows = [(episode, p) for episode, curve in enumerate(given_curves) for p in curve]
    return [(index, episode, float(np.float32(p))) for index, (episode, p) in enumerate(rows)]


class TestAsLeRobot:
    @settings(max_examples=150, deadline=None)
    @example([[0.0, 0.0078125, NAN]], 1, 0.01)  # one gain: the deviation is epsilon, and float32 shows
    @given(curves, st.integers(1, 30), st.sampled_from([0.01, 0.0, 0.1, 0.5]))
    def test_every_weight_equals_the_naive_formula(
        self, many: list[list[float]], chunk: int, kappa: float
    ) -> None:
        frames = frames_of(*many)
        flat = np.array([p for curve in many for p in curve])
        found = lerobot_rabc_weights(flat, frames.starts, chunk_size=chunk, kappa=kappa).weights
        naive = rabc_of_rows(rows_of(many), chunk, kappa)
        expected = [naive[i] for i in range(len(flat))]
        np.testing.assert_allclose(found, expected, atol=1e-6)

    @pytest.mark.parametrize(
        ("length", "noise", "full", "zero"),
        [
            (300, 0.0, 0.990, 0.010),
            (600, 0.05, 0.826, 0.128),
            (1500, 0.02, 0.788, 0.119),
            (5000, 0.0, 0.990, 0.009),
            (5000, 0.02, 0.499, 0.358),
        ],
    )
    def test_the_shares_measured_with_lerobots_own_code_on_steady_progress(
        self, length: int, noise: float, full: float, zero: float
    ) -> None:
        rng = np.random.default_rng(0)
        steady = np.linspace(0, 1, length)
        many = np.concatenate([steady + rng.normal(0, noise, length) for _ in range(10)])
        starts = np.arange(11) * length
        weights = lerobot_rabc_weights(np.clip(many, 0, 1), starts, chunk_size=50).weights
        assert np.mean(weights == 1) == pytest.approx(full, abs=0.02)
        assert np.mean(weights == 0) == pytest.approx(zero, abs=0.02)

    def test_a_short_clean_episode_keeps_all_but_its_end_so_that_nothing_is_weighted(self) -> None:
        weights = lerobot_rabc_weights(np.linspace(0, 1, 300), np.array([0, 300]), chunk_size=50).weights
        assert np.all(weights[:290] == 1)
        assert weights[-1] == 0

    def test_nothing_known_and_nothing_there(self) -> None:
        made = lerobot_rabc_weights(np.full(3, NAN), np.array([0, 3]), chunk_size=2)
        assert np.all(np.isnan(made.weights))
        assert (made.mean, made.deviation) == (0.0, 1e-6)
        assert len(lerobot_rabc_weights(np.empty(0), np.array([0]), chunk_size=2).weights) == 0

    def test_an_episode_does_not_look_into_the_next(self) -> None:
        weights = lerobot_rabc_weights(
            np.array([0.5, 0.4, 0.0, 0.9]), np.array([0, 2, 4]), chunk_size=1
        ).weights
        assert weights[0] == 0
        assert weights[2] == 1

    def test_a_chunk_of_no_actions_is_an_error(self) -> None:
        with pytest.raises(OptionError, match="chunk_size is 0"):
            lerobot_rabc_weights(np.zeros(2), np.array([0, 2]), chunk_size=0)

    def test_a_million_rows_take_less_than_two_seconds_of_this_process(self) -> None:
        rng = np.random.default_rng(0)
        progress, starts = rng.uniform(size=1_000_000), np.arange(2001) * 500
        began = time.process_time()
        lerobot_rabc_weights(progress, starts, chunk_size=50)
        assert time.process_time() - began < 2


class TestCorrected:
    def test_steady_progress_weighs_1_at_every_frame_the_last_included(self) -> None:
        for length in (20, 300, 5000):
            made = corrected_rabc_weights(frames_of(np.linspace(0, 1, length).tolist()), chunk_size=50)
            np.testing.assert_allclose(made.weights, 1.0)

    def test_kappa_is_a_share_of_the_episodes_own_pace(self) -> None:
        frames = frames_of(np.linspace(0, 1, 101).tolist(), np.linspace(0, 1, 501).tolist())
        made = corrected_rabc_weights(frames, chunk_size=10, share=0.5)
        np.testing.assert_allclose(made.kappa, [0.05, 0.01])
        short = corrected_rabc_weights(frames_of([0.0, 0.5, 1.0]), chunk_size=10)
        np.testing.assert_allclose(short.kappa, [0.5])

    def test_by_the_tasks_pace_a_slow_episode_weighs_less(self) -> None:
        quick, slow = np.linspace(0, 1, 51).tolist(), np.linspace(0, 1, 201).tolist()
        frames = frames_of(quick, quick, slow)
        by_task = corrected_rabc_weights(frames, chunk_size=10, pace="task", noise=0.0).weights
        np.testing.assert_allclose(by_task[:102], 1.0)
        # A quarter of the task's pace against a threshold of half of it; the finished end counts in full.
        np.testing.assert_allclose(by_task[102:292], 0.5)
        own = corrected_rabc_weights(frames, chunk_size=10, noise=0.0).weights
        np.testing.assert_allclose(own, 1.0)

    def test_failed_episodes_do_not_set_the_tasks_pace(self) -> None:
        frames = frames_of(
            [0.0] * 10, [0.0] * 90, [0.0] * 7, success=[True, False, False], tasks=["a", "a", "b"]
        )
        assert task_lengths(frames).tolist() == [10, 10, 7]

    def test_the_end_of_a_success_is_kept_and_that_of_a_failure_is_not(self) -> None:
        held = [*np.linspace(0, 0.6, 20), *[0.6] * 30]
        weights = corrected_rabc_weights(frames_of(held, held, success=[True, False]), chunk_size=5).weights
        assert np.all(weights[20:50] == 1)
        assert np.all(weights[70:] == 0)

    def test_a_finished_task_that_is_undone_loses_its_weight(self) -> None:
        undone = [*np.linspace(0, 1, 11), *np.linspace(1, 0, 11)]
        weights = corrected_rabc_weights(frames_of(undone, success=[True]), chunk_size=4, noise=0.0).weights
        assert weights[5] == 1
        assert np.all(weights[10:] == 0)

    def test_noise_draws_weights_together_and_leaves_their_order(self) -> None:
        rng = np.random.default_rng(0)
        curve = np.clip(np.linspace(0, 0.9, 200) + rng.normal(0, 0.01, 200), 0, 1).tolist()
        ranges = []
        for noise in (0.0, 0.02, 0.2, 5.0):
            made = corrected_rabc_weights(frames_of(curve), chunk_size=10, noise=noise)
            ranges.append(float(np.ptp(made.weights)))
            order = np.argsort(made.gains, kind="stable")
            assert np.all(np.diff(made.weights[order]) >= -1e-12)
        assert ranges == sorted(ranges, reverse=True)
        assert ranges[-1] < 0.05
        np.testing.assert_allclose(made.weights, 0.5, atol=0.02)

    def test_the_noise_is_estimated_from_the_curves_where_it_is_not_given(self) -> None:
        rng = np.random.default_rng(1)
        curve = np.clip(np.linspace(0.1, 0.9, 3000) + rng.normal(0, 0.02, 3000), 0, 1).tolist()
        made = corrected_rabc_weights(frames_of(curve), chunk_size=50)
        assert made.noise == pytest.approx(0.02, rel=0.1)

    def test_unknown_stays_unknown(self) -> None:
        made = corrected_rabc_weights(frames_of([0.0, NAN, 0.4, 0.6], [0.3]), chunk_size=2, noise=0.0)
        # Frame 1 is unknown, and so is the last whole chunk, which begins there, for frames 2 and 3 at its end.
        assert np.isnan(made.weights).tolist() == [False, True, True, True, True]

    @given(st.floats(-3, 3), st.floats(1e-3, 5))
    @settings(max_examples=40, deadline=None)
    def test_the_expected_weight_equals_the_average_over_the_normal_distribution(
        self, ratio: float, deviation: float
    ) -> None:
        z = np.linspace(-9, 9, 40_001)
        density = np.exp(-(z**2) / 2)
        average = np.sum(np.clip(ratio + deviation * z, 0, 1) * density) / np.sum(density)
        found = expected_ramp(np.array([ratio]), np.array([deviation]))
        assert found[0] == pytest.approx(average, abs=1e-4)

    @settings(max_examples=60, deadline=None)
    @given(curves, st.integers(1, 30))
    def test_weights_lie_in_0_to_1_and_are_unknown_just_where_the_gain_is(
        self, many: list[list[float]], chunk: int
    ) -> None:
        made = corrected_rabc_weights(frames_of(*many), chunk_size=chunk)
        known = ~np.isnan(made.gains)
        assert np.array_equal(known, ~np.isnan(made.weights))
        assert np.all((made.weights[known] >= 0) & (made.weights[known] <= 1))

    @settings(max_examples=60, deadline=None)
    @given(curves, st.integers(1, 30))
    def test_gains_are_those_of_a_whole_chunk_inside_the_episode(
        self, many: list[list[float]], chunk: int
    ) -> None:
        flat = np.array([p for curve in many for p in curve])
        found = chunk_gains(flat, frames_of(*many).starts, chunk)
        expected = []
        for curve in many:
            last = len(curve) - 1
            reach = min(chunk, last)
            for i in range(len(curve)):
                j = min(i, last - reach)
                expected.append(curve[j + reach] - curve[j] if reach else NAN)
        np.testing.assert_allclose(found, expected)

    def test_done_is_what_the_label_and_the_judge_say(self) -> None:
        rising = [0.0, 0.4, 0.7]
        frames = frames_of(rising, rising, rising, [NAN], success=[True, False, None, True])
        assert done_levels(frames, 0.95).tolist() == [0.7, math.inf, 0.95, 0.95]
        assert done_levels(frames, 0.5).tolist() == [0.5, math.inf, 0.5, 0.5]

    def test_wrong_options_say_what_is_right(self) -> None:
        frames = frames_of([0.0, 1.0])
        with pytest.raises(UnknownNameError, match="episode, task"):
            corrected_rabc_weights(frames, chunk_size=2, pace="robot")  # type: ignore[arg-type]
        for wrong in ({"share": 0.0}, {"noise": -1.0}, {"done": 0.0}):
            with pytest.raises(OptionError, match=next(iter(wrong))):
                corrected_rabc_weights(frames, chunk_size=2, **wrong)  # type: ignore[arg-type]
