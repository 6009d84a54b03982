"""The forms of a reward, each against numbers that are computed by hand."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stepscore.errors import OptionError
from stepscore.metrics import dense_reward
from stepscore.rewards import potential_reward, relative_reward, terminal_reward

NAN = math.nan


def test_the_potential_difference() -> None:
    rewards = potential_reward([0.0, 0.5, 0.25], gamma=0.9, terminated=True)
    np.testing.assert_allclose(rewards, [0.45, 0.9 * 0.25 - 0.5, -0.25])
    assert np.isnan(potential_reward([0.0, 0.5], terminated=False)[-1])
    assert np.isnan(potential_reward([0.0, 0.5])[-1])
    np.testing.assert_array_equal(
        np.isnan(potential_reward([0.1, NAN, 0.3, 0.4], terminated=True)), [True, True, False, False]
    )
    assert len(potential_reward([])) == 0


@given(st.lists(st.floats(0, 1), min_size=1, max_size=30), st.floats(0.1, 1))
def test_the_discounted_sum_telescopes(progress: list[float], gamma: float) -> None:
    rewards = potential_reward(progress, gamma=gamma, terminated=True)
    discounts = gamma ** np.arange(len(progress))
    assert discounts @ rewards == pytest.approx(-progress[0], abs=1e-9)


def test_the_relative_form_of_procvlm() -> None:
    progress = [0.0, 0.1, 0.1, 0.1, 0.5, 0.9, 0.9, 0.6, 0.6, 0.6]
    expected = [0, 0, 0.1, 0, 0, 0.2, 0, 0, -0.2, 0]
    np.testing.assert_allclose(relative_reward(progress), expected, atol=1e-12)
    progress[3] = NAN
    np.testing.assert_array_equal(np.flatnonzero(np.isnan(relative_reward(progress))), [2, 5])
    assert np.isnan(relative_reward([0.0, 0.1, 0.2])[-1])  # the look after the last action was not recorded
    np.testing.assert_allclose(relative_reward([0.0, 0.1, 0.4], every=1)[:2], [0.1, 0.2])


def test_terminal_success() -> None:
    np.testing.assert_array_equal(terminal_reward(3, success=True), [0, 0, 1])
    np.testing.assert_array_equal(terminal_reward(3, success=False), [0, 0, 0])
    np.testing.assert_array_equal(terminal_reward(2, success=None), [0, NAN])
    assert len(terminal_reward(0, success=True)) == 0


def test_equation_3_by_hand() -> None:
    """clip(tau exp(s_k - s_{k-1}), 0, delta_max), tau = delta_max = 2: only a fall is below the cap."""
    np.testing.assert_allclose(
        dense_reward([0.0, 0.3, 0.2, 1.0]), [NAN, 2.0, 2 * 0.904837418035959, 2.0], atol=1e-12
    )
    np.testing.assert_allclose(
        dense_reward([0.0, 0.3, 0.2, 1.0], tau=1.0, delta_max=1.5),
        [NAN, 1.349858807576003, 0.904837418035959, 1.5],
    )


@pytest.mark.parametrize(
    "wrong",
    [
        lambda: potential_reward([0.1], gamma=1.1),
        lambda: potential_reward([[0.1]]),
        lambda: relative_reward([0.1], clip=0),
        lambda: relative_reward([0.1], every=0),
    ],
)
def test_wrong_options(wrong) -> None:
    with pytest.raises(OptionError, match="must be"):
        wrong()
