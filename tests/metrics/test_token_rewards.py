from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stepscore.errors import OptionError
from stepscore.metrics.order import ccc, voc
from stepscore.metrics.token_rewards import dense_reward, minmax, trailing_mean
from tests.paths import DOCS

# Rewards of one episode, published with TOPReward's code: scored prefix by prefix, and with its prefix cache.
UNCACHED_TEXT = "-18.75 -17.125 -11 -12 -11.625 -12.125 -10.75 -11.25 -9.5 -9 -9.25 -8.75 -8 -7.625 -6.375"
CACHED_TEXT = (
    "-18.75 -17.125 -12.125 -12.875 -12.25 -12.5 -11.5 -12.125 -9.625 -9.75 -9.75 -9.875 -9 -8.625 -6.25"
)
UNCACHED, CACHED = ([float(value) for value in text.split()] for text in (UNCACHED_TEXT, CACHED_TEXT))

rewards = st.lists(st.floats(-30, 0), min_size=1, max_size=30)


@pytest.mark.parametrize(("published", "expected"), [(UNCACHED, 0.942857), (CACHED, 0.930234)])
def test_the_order_of_the_published_rewards_is_the_published_one_before_and_after_scaling(
    published: list[float], expected: float
) -> None:
    assert voc(published) == pytest.approx(expected, abs=5e-7)
    assert voc(minmax(published)) == pytest.approx(expected, abs=5e-7)


@given(rewards)
def test_equation_2_by_hand(values: list[float]) -> None:
    low, high = min(values), max(values)
    by_hand = [(r - low) / (high - low + 1e-8) for r in values]
    np.testing.assert_allclose(minmax(values), by_hand, rtol=0, atol=1e-12)


@given(st.lists(st.floats(0, 1), min_size=1, max_size=30))
def test_equation_3_by_hand(scaled: list[float]) -> None:
    found = dense_reward(scaled)
    assert math.isnan(found[0])
    for k in range(1, len(scaled)):
        assert found[k] == pytest.approx(min(max(2 * math.exp(scaled[k] - scaled[k - 1]), 0), 2), abs=1e-12)


@given(rewards)
def test_the_success_score_is_the_mean_of_the_last_three(values: list[float]) -> None:
    last = values[-3:]
    assert trailing_mean(values)[-1] == pytest.approx(sum(last) / len(last))


def test_a_constant_series_scales_to_0_as_the_formula_says() -> None:
    np.testing.assert_array_equal(minmax([-3.0, -3.0, -3.0]), 0.0)


def test_unknown_stays_unknown_and_scales_nobody() -> None:
    nan = math.nan
    np.testing.assert_allclose(minmax([-4.0, nan, -2.0]), [0.0, nan, 1.0], atol=1e-8)
    assert np.all(np.isnan(minmax([nan, nan])))
    np.testing.assert_array_equal(np.isnan(trailing_mean([1.0, nan, 3.0, 4.0, 5.0])), [0, 1, 1, 1, 0])
    np.testing.assert_array_equal(np.isnan(dense_reward([0.1, nan, 0.3, 0.4])), [1, 1, 1, 0])


def test_curves_that_stop_halfway_keep_a_high_order_and_a_full_scale() -> None:
    """The paper's own counter-example to its measure: plateaus at 0.8, 0.5 and 0.3 are no successes."""
    time = np.linspace(0, 1, 21)
    concordances = []
    page = (DOCS / "judges/topreward.md").read_text(encoding="utf-8")
    assert "stops at 0.8, 0.5 or 0.3 has a VOC of 0.99, 0.93 or 0.80" in page
    for plateau, order in ((0.8, 0.99), (0.5, 0.93), (0.3, 0.80)):
        curve = np.minimum(time, plateau)
        assert voc(curve) == pytest.approx(order, abs=0.005)
        assert voc(plateau * time) == 1.0
        assert minmax(curve)[-1] == pytest.approx(1.0)
        assert trailing_mean(curve)[-1] == pytest.approx(plateau)
        concordances.append(ccc(curve, time))
    assert concordances == sorted(concordances, reverse=True)
    assert concordances[-1] < 0.4


@pytest.mark.parametrize(
    "wrong",
    [
        lambda: minmax([1.0], epsilon=0),
        lambda: dense_reward([1.0], tau=0),
        lambda: trailing_mean([1.0], last=0),
    ],
)
def test_a_wrong_option_is_refused(wrong) -> None:
    with pytest.raises(OptionError):
        wrong()
