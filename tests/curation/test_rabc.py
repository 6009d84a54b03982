"""RA-BC equals LeRobot's, frame by frame."""

from __future__ import annotations

import math
import time

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from stepscore.curation.rabc_lerobot import lerobot_rabc_weights
from stepscore.errors import OptionError
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
        with pytest.raises(OptionError, match="chunk_size must be at least 1, got 0"):
            lerobot_rabc_weights(np.zeros(2), np.array([0, 2]), chunk_size=0)

    def test_a_million_rows_take_less_than_two_seconds_of_this_process(self) -> None:
        rng = np.random.default_rng(0)
        progress, starts = rng.uniform(size=1_000_000), np.arange(2001) * 500
        began = time.process_time()
        lerobot_rabc_weights(progress, starts, chunk_size=50)
        assert time.process_time() - began < 2
