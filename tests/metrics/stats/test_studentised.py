"""The bootstrap-t tests a mean, not symmetry; the larger of two p-values is reported, with its measured level."""

from __future__ import annotations

import itertools
from math import isnan

import numpy as np
import pytest
from scipy import stats

from benchmarks.tables.false_alarms import paired
from benchmarks.tables.small_samples import shifted_to
from stepscore.metrics.stats import compare_paired, compare_unpaired, sign_flip_test
from stepscore.metrics.stats.sample import difference_of, draw_sample, mean_of
from stepscore.metrics.stats.significance import Significance
from stepscore.metrics.stats.studentised import (
    FALSE_ALARMS,
    T_DRAWS,
    bootstrap_t_test,
    decided,
    false_alarm_note,
    larger_p_value,
)


def statistic(values, **groups):
    return mean_of(draw_sample(np.asarray(values, dtype=float), **groups))


def enumerated_p(strata: list[np.ndarray], value: float) -> float:
    """All resamples of the centred strata with their own t: the obvious implementation, for a handful of values."""
    n = sum(len(x) for x in strata)

    def ratio(drawn, centre: float) -> float:
        mean = sum(np.sum(x) for x in drawn) / n - centre
        variance = sum(len(x) * np.var(x, ddof=1) for x in drawn) / n**2
        return mean / np.sqrt(variance) if variance > 1e-15 else np.copysign(np.inf, mean)

    observed = ratio(strata, 0.0)
    draws = itertools.product(*(itertools.product(x, repeat=len(x)) for x in strata))
    found = np.array([ratio([np.array(x) for x in drawn], value) for drawn in draws])
    return min(1.0, 2 * float(min(np.mean(found <= observed + 1e-9), np.mean(found >= observed - 1e-9))))


@pytest.mark.parametrize("shift", [0.2, 0.6, -0.4])
def test_drawn_resamples_come_near_all_of_them(shift):
    values = np.random.default_rng(1).lognormal(size=5) - 1.5 + shift
    p = bootstrap_t_test(statistic(values)).p_value
    assert p == pytest.approx(enumerated_p([values], float(np.mean(values))), abs=0.03)


def test_strata_are_resampled_within():
    rng = np.random.default_rng(2)
    tasks = [rng.normal(0.3, size=3), rng.normal(5.0, size=3)]
    values = np.concatenate(tasks) - 2.2
    p = bootstrap_t_test(statistic(values, strata=[0] * 3 + [1] * 3)).p_value
    assert p == pytest.approx(enumerated_p([values[:3], values[3:]], float(values.mean())), abs=0.03)


def test_pairs_of_scenes_in_many_tasks_can_show_a_large_difference():
    # Every second resample of two units has no spread; the demo has two scenes of each of four tasks.
    gains = 0.6 + 0.01 * np.sin(np.arange(8))
    found = compare_paired(gains, np.zeros(8), strata=[0, 1, 2, 3] * 2)
    assert found.p_value == sign_flip_test(gains).p_value < 0.01
    tasks = [0, 1, 2, 3] * 2
    assert compare_unpaired(gains, gains[::-1] - 0.6, strata=(tasks, tasks)).p_value < 0.05


def test_strata_of_two_keep_the_level_on_gaussian_values():
    rng = np.random.default_rng(7)
    rejected = [
        bootstrap_t_test(statistic(rng.normal(size=12), strata=[0, 1, 2, 3, 4, 5] * 2)).p_value <= 0.05
        for _ in range(300)
    ]
    assert np.mean(rejected) <= 0.05 + 3 * np.sqrt(0.05 * 0.95 / 300)


def test_many_gaussian_values_give_the_p_value_of_the_t_test():
    x = np.random.default_rng(3).normal(0.15, size=150)
    assert bootstrap_t_test(statistic(x)).p_value == pytest.approx(stats.ttest_1samp(x, 0).pvalue, abs=0.03)
    a, b = x + 0.1, np.random.default_rng(4).normal(0, 3, size=120)
    found = bootstrap_t_test(difference_of(statistic(a), statistic(b))).p_value
    assert found == pytest.approx(stats.ttest_ind(a, b, equal_var=False).pvalue, abs=0.03)


def test_without_spread_there_is_nothing_to_studentise():
    assert isnan(bootstrap_t_test(statistic([0.3] * 6)).p_value)
    assert isnan(bootstrap_t_test(statistic([0.3])).p_value)
    assert isnan(bootstrap_t_test(statistic([])).p_value)
    exact = Significance(0.03, "sign-flip (exact)")
    assert larger_p_value(exact, Significance(float("nan"), "bootstrap-t (no variation)"), 6) == exact


def test_the_larger_p_value_is_reported_under_both_names():
    x = np.random.default_rng(5).lognormal(size=12) - 0.4
    result = compare_paired(x, np.zeros(12))
    flips, t = sign_flip_test(x), bootstrap_t_test(statistic(x))
    assert result.p_value == max(flips.p_value, t.p_value)
    assert result.test == f"the larger of sign-flip (exact) and bootstrap-t ({T_DRAWS} draws, seed 0)"
    assert result.caution == false_alarm_note(12)


def test_few_units_say_how_often_a_skewed_sample_is_a_false_alarm_and_thirty_do_not():
    assert f"{100 * FALSE_ALARMS[10]:.0f} %" in false_alarm_note(14)
    assert "under 30 units" in false_alarm_note(3)
    assert false_alarm_note(30) == ""
    few, many = np.random.default_rng(6).random((2, 9)), np.random.default_rng(7).random((2, 40))
    assert compare_unpaired(*few).caution == false_alarm_note(9)
    assert compare_unpaired(*many).caution == compare_unpaired([1, 0, 1], [0, 0, 1]).caution == ""


def test_skewed_differences_of_mean_zero_are_rejected_far_less_often_than_by_sign_flips():
    rng = np.random.default_rng(8)
    samples = [rng.lognormal(size=30) - np.exp(0.5) for _ in range(600)]
    flips = np.mean([sign_flip_test(x).p_value <= 0.05 for x in samples])
    assert flips > 0.095
    # 7.5 % is what is promised; 2.2 points are two standard errors of 600 samples.
    assert np.mean([paired(x) for x in samples]) <= 0.075 + 0.022


def naive_swap(result):
    return (-result.difference.hi, -result.difference.lo, -result.difference.value, result.p_value)


@pytest.mark.parametrize("clustered", [False, True])
@pytest.mark.parametrize("rates", [False, True])
def test_no_comparison_depends_on_which_arm_is_named_first(clustered, rates):
    rng = np.random.default_rng(9)
    a, b = rng.lognormal(size=24), rng.lognormal(0.2, size=36)
    if rates:
        a, b = (a > 1).astype(float), (b > 1).astype(float)
    tasks = (np.arange(24) % 3, np.arange(36) % 3)
    scenes = (np.arange(24) // 2, np.arange(36) // 2) if clustered else None
    forward = compare_unpaired(a, b, strata=tasks, clusters=scenes)
    back = compare_unpaired(b, a, strata=tasks[::-1], clusters=scenes[::-1] if scenes else None)
    assert naive_swap(back) == (
        forward.difference.lo,
        forward.difference.hi,
        forward.difference.value,
        forward.p_value,
    )
    assert (back.n_a, back.n_b, back.test) == (forward.n_b, forward.n_a, forward.test)
    assert back.probability_of_improvement.lo == pytest.approx(1 - forward.probability_of_improvement.hi)
    one, other = a, b[:24]
    clusters = scenes[0] if scenes else None
    forward = compare_paired(one, other, strata=tasks[0], clusters=clusters)
    back = compare_paired(other, one, strata=tasks[0], clusters=clusters)
    assert naive_swap(back) == (
        forward.difference.lo,
        forward.difference.hi,
        forward.difference.value,
        forward.p_value,
    )


# --- draws near 0.05


def test_a_p_value_near_5_percent_is_drawn_again_until_chance_no_longer_decides_it():
    values = shifted_to(0.047, 24)
    found = [compare_paired(values, np.zeros(24), seed=seed) for seed in range(6)]
    assert all("199999 draws" in one.test and "99999 draws" in one.test for one in found)
    assert all(one.p_value <= 0.05 for one in found)
    assert np.ptp([one.p_value for one in found]) < 0.004


def test_a_p_value_far_from_5_percent_and_a_large_sample_keep_their_draws():
    values = np.random.default_rng(0).gamma(4, size=24)
    assert "(4999 draws" in compare_paired(values, np.full(24, 4.0)).test
    calls: list[int] = []

    def test(times: int) -> Significance:
        calls.append(times)
        return Significance(0.051, "drawn")

    decided(test, 100)
    decided(test, 1_000)
    decided(test, 100_000)
    assert calls == [1, 20, 1, 4, 1]
