"""Every reading of TOPReward's weights is its formula; the dense reward is at its cap wherever nothing falls."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stepscore.curation import topreward_awr
from stepscore.curation.awr import chunk_gains, topreward_weights
from stepscore.errors import OptionError, UnknownNameError
from stepscore.metrics.token_rewards import dense_reward, minmax
from tests.curation.made import frames_of

PUBLISHED = [-18.75, -17.125, -11.0, -12.0, -11.625, -12.125, -10.75, -11.25, -9.5, -9.0, -9.25, -8.75, -8.0]
PUBLISHED += [-7.625, -6.375]
"""log P(True) of 15 prefixes, as published with TOPReward's prefix cache."""

NAN = math.nan
progress_values = st.floats(0, 1) | st.just(NAN)
curves = st.lists(st.lists(progress_values, min_size=1, max_size=20), min_size=0, max_size=5)


DENSE = {"tau_role": "prefactor", "subtract_mean": False}
"""The dense reward of the paper's equation."""


def naive_weight(advantage: float, tau: float, delta_max: float, tau_role: str) -> float:
    weight = tau * math.exp(advantage) if tau_role == "prefactor" else math.exp(tau * advantage)
    return min(max(weight, 0.0), delta_max)


@pytest.mark.parametrize("tau_role", ["inverse-temperature", "prefactor"])
@pytest.mark.parametrize("subtract_mean", [True, False])
def test_every_reading_is_its_formula(tau_role: str, subtract_mean: bool) -> None:
    values = np.array([0.0, 0.3, -0.5, 0.9, math.nan])
    baseline = 0.175 if subtract_mean else 0.0
    found = topreward_weights(values, tau=1.5, delta_max=3.0, tau_role=tau_role, subtract_mean=subtract_mean)  # type: ignore[arg-type]
    expected = [naive_weight(value - baseline, 1.5, 3.0, tau_role) for value in values[:4]]
    np.testing.assert_allclose(found.weights, [*expected, math.nan])
    assert found.mean == pytest.approx(0.175)


def test_by_default_progress_above_the_datasets_mean_weighs_more_than_one_and_below_less() -> None:
    progress = np.array([0.0, 0.25, 0.5, 0.75, 1.0])
    found = topreward_weights(progress)
    np.testing.assert_allclose(found.weights, np.minimum(np.exp(2 * (progress - 0.5)), 2))
    assert found.at_cap == pytest.approx(1 / 5)


def test_in_the_dense_reward_a_step_without_change_weighs_tau_and_a_fall_less() -> None:
    found = topreward_weights(np.array([0.0, 0.3, -0.5, -1.0, math.nan]), **DENSE)  # type: ignore[arg-type]
    np.testing.assert_allclose(found.weights, [2, 2, 2 * math.exp(-0.5), 2 * math.exp(-1), math.nan])
    assert found.at_cap == 0.5


def test_the_dense_weights_are_the_dense_reward_of_the_paper() -> None:
    scaled = minmax(PUBLISHED)
    found = topreward_weights(np.diff(scaled), **DENSE)  # type: ignore[arg-type]
    np.testing.assert_allclose(found.weights, dense_reward(scaled)[1:])
    # 10 of the 14 steps rise; every one of them is at the cap.
    assert found.at_cap == pytest.approx(10 / 14)


def test_tau_exp_of_any_change_spans_what_the_formula_says() -> None:
    found = topreward_weights(np.array([-1.0, 1.0]), delta_max=10.0, **DENSE).weights  # type: ignore[arg-type]
    np.testing.assert_allclose(found, [0.7358, 5.4366], atol=1e-4)


def test_what_becomes_the_advantage_is_chosen_by_name() -> None:
    frames = frames_of([0.0, 0.1, 0.5, 0.6], [0.2, 0.2, 0.3, 0.3])
    step = frames.changes
    for advantage, values, mean in (
        ("progress", frames.progress, np.nanmean(frames.progress)),
        ("change", step, np.nanmean(step)),
        ("plain-change", step, 0.0),
    ):
        found = topreward_awr(frames, advantage=advantage)  # type: ignore[arg-type]
        np.testing.assert_allclose(found.weights, np.clip(np.exp(2 * (values - mean)), 0, 2))
        assert found.options["advantage"] == advantage
    assert topreward_awr(frames).options["advantage"] == "change"  # agrees with all that the paper says of A
    with pytest.raises(UnknownNameError, match="plain-change"):
        topreward_awr(frames, advantage="value")  # type: ignore[arg-type]
    with pytest.raises(OptionError, match="-W advantage=change"):
        topreward_awr(frames, advantage="progress", chunk_size=8)


@settings(max_examples=60, deadline=None)
@given(curves, st.integers(1, 30))
def test_gains_are_those_of_a_whole_chunk_inside_the_episode(many: list[list[float]], chunk: int) -> None:
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


def test_wrong_options_are_refused() -> None:
    for wrong in ({"tau": 0.0}, {"delta_max": -1.0}, {"tau_role": "factor"}):
        with pytest.raises(OptionError):
            topreward_weights(np.zeros(2), **wrong)
