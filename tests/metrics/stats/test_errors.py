"""The interval of a judge's error contains 0 until errors show otherwise, and a difference agrees with its test."""

from __future__ import annotations

from itertools import pairwise
from math import isnan, nan

import numpy as np
import pytest

from benchmarks.tables.judge_errors import RATES, SIDES, clustered, difference, independent
from stepscore.metrics.stats import compare_errors, error_estimate, wilson_interval
from stepscore.metrics.stats.comparison_result import bonett_price_interval
from stepscore.types import Estimate


def errors(wrong: int, n: int) -> list[float]:
    return [1.0] * wrong + [0.0] * (n - wrong)


def compare(a, b, scenes_a=None, scenes_b=None, *, of_answers: bool = True):
    scenes_a = range(len(a)) if scenes_a is None else scenes_a
    scenes_b = scenes_a if scenes_b is None else scenes_b
    keys = [("t", s) for s in scenes_a], [("t", s) for s in scenes_b]
    strata = ["t"] * len(a), ["t"] * len(b)
    clusters = (list(scenes_a), list(scenes_b))
    return compare_errors(a, b, keys=keys, strata=strata, clusters=clusters, of_answers=of_answers)


# --- the error of one policy


def test_one_wrong_verdict_of_25_does_not_show_that_a_judge_errs_to_one_side():
    assert wilson_interval(1, 25)[0] > 0
    for sign in (1, -1):
        found = error_estimate(sign * np.array(errors(1, 25)))
        assert found.value == pytest.approx(sign / 25)
        assert found.lo < 0 < found.hi
    assert error_estimate(errors(9, 25)).lo > 0


def test_independent_episodes_have_the_interval_of_bonett_and_price():
    found = error_estimate([1, 1, -1, 0, 0, 0, 0, 0, 0, nan])
    assert (found.lo, found.hi) == pytest.approx(bonett_price_interval(2, 1, 9, 0.95)[0])
    assert (found.n, found.coverage, found.method) == (9, 0.9, "Bonett-Price 95%")


def test_without_errors_the_interval_is_as_wide_to_both_sides():
    for scenes in (None, np.arange(40) // 2):
        found = error_estimate(np.zeros(40), clusters=scenes)
        assert found.value == 0.0
        assert found.hi == -found.lo > 0


def test_scenes_count_as_one_unit_won_and_one_lost_would():
    scenes = np.repeat(np.arange(12), 3)
    gaps = np.where(scenes < 2, 1.0, 0.0)
    gaps[10] = -1.0
    found = error_estimate(gaps, clusters=scenes)
    means = gaps.reshape(12, 3).mean(axis=1)
    centre, variance = 12 * means.mean() / 14, (144 * means.var(ddof=1) / 12 + 2) / 14**2
    half = 2.200985 * np.sqrt(variance)  # t of 11 degrees of freedom
    assert (found.lo, found.hi) == pytest.approx((centre - half, centre + half), abs=1e-6)
    assert found.method == "clustered Bonett-Price 95%"


def test_fewer_than_ten_repeated_scenes_have_no_interval():
    found = error_estimate(np.zeros(27), clusters=np.arange(27) // 3)
    assert isnan(found.lo)
    assert found.method == "too few clusters (9 < 10)"


@pytest.mark.parametrize("scenes", [None, np.repeat(np.arange(20), 5)], ids=["independent", "scenes"])
def test_one_more_false_alarm_never_lowers_how_wrong_a_judge_may_be(scenes: np.ndarray | None):
    gaps, ends = np.zeros(100), []
    for i in np.random.default_rng(0).permutation(100)[:40]:
        ends.append(error_estimate(gaps, clusters=scenes).hi)
        gaps[i] = 1.0
    assert all(after >= before for before, after in pairwise(ends))


@pytest.mark.parametrize("n", [25, 100])
@pytest.mark.parametrize("side", SIDES)
def test_the_interval_covers_the_error_of_independent_episodes(side: str, n: int):
    assert min(independent(n, rate, side)[1] for rate in RATES) >= 0.93


def test_errors_as_a_rate_were_covered_half_the_time():
    assert independent(25, 0.05, "two-sided")[0] < 0.5


@pytest.mark.parametrize("side", SIDES)
def test_the_interval_covers_the_error_of_episodes_in_scenes(side: str):
    for rate in RATES:
        assert clustered("100 in 50 scenes of 2", rate, 0.5, side, 150) >= 0.93


# --- the difference of two policies


def both_agree(found: Estimate, p: float) -> bool:
    return (p <= 0.05) == (not found.lo <= 0 <= found.hi)


@pytest.mark.parametrize("of_answers", [True, False], ids=["answers", "progress"])
@pytest.mark.parametrize("shared", [True, False], ids=["pairs", "arms"])
def test_the_interval_of_a_difference_agrees_with_its_p_value(shared: bool, of_answers: bool):
    rng, decided = np.random.default_rng(3), 0
    for _ in range(60):
        a, b = (rng.random((2, 24)) < rng.choice([0.05, 0.2, 0.4], (2, 1))).astype(float)
        if not of_answers:
            a, b = a * rng.random(24), b * rng.random(24)
        found, test = compare(a, b, scenes_b=range(24) if shared else range(24, 48), of_answers=of_answers)
        assert both_agree(found, test.p_value)
        decided += test.p_value <= 0.05
    assert 5 < decided < 55


def test_four_errors_of_twenty_against_none_decide_nothing():
    found, test = compare(errors(4, 20), [0.0] * 20)
    assert found.value == pytest.approx(0.2)
    assert found.lo < 0
    assert test.p_value > 0.05
    found, test = compare(errors(10, 20), [0.0] * 20)
    assert found.lo > 0
    assert test.p_value < 0.01


def test_b_against_a_is_a_against_b_with_the_signs_reversed():
    a, b = errors(6, 30), errors(1, 30)
    for other in (range(30), range(30, 60)):
        (forth, test), (back, same) = compare(a, b, range(30), other), compare(b, a, other, range(30))
        assert (forth.lo, forth.hi) == pytest.approx((-back.hi, -back.lo))
        assert test.p_value == pytest.approx(same.p_value)


def test_under_ten_repeated_scenes_the_test_over_scenes_remains():
    scenes = np.arange(24) // 3
    found, test = compare(np.ones(24), np.zeros(24), scenes)
    assert isnan(found.lo)
    assert found.method == "too few clusters (8 < 10)"
    assert test.p_value == 2 / 2**8


def test_progress_that_is_always_off_by_as_much_does_not_vary():
    found, test = compare([0.3] * 12, [0.0] * 12, of_answers=False)
    assert (isnan(found.lo), found.method) == (True, "no variation")
    assert test.p_value < 0.001
    assert compare([0.0] * 12, [0.0] * 12, of_answers=False)[1].p_value == 1.0


@pytest.mark.parametrize("shared", [True, False], ids=["pairs", "arms"])
def test_the_interval_covers_the_difference_and_raises_few_false_alarms(shared: bool):
    covered, alarms = difference(100, 1, (0.1, 0.1), "two-sided", shared=shared, draws=60)
    assert covered >= 0.93
    assert alarms <= 0.06
