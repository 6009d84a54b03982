"""Tests of a difference equal brute force and scipy; corrections equal scipy's and the textbook's."""

from __future__ import annotations

import itertools
from math import isnan, nan

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from stepscore.errors import OptionError
from stepscore.metrics.stats import significance
from stepscore.metrics.stats.significance import (
    Stratum,
    adjust_p_values,
    mcnemar_test,
    permutation_test,
    rates_test,
    sign_flip_test,
)


def stratum(a, b, weight=1.0):
    values = np.concatenate([a, b]).astype(float)
    return Stratum(values, np.ones(len(values)), len(a), weight)


def brute_force_flips(differences) -> float:
    observed = abs(sum(differences))
    flips = [abs(np.dot(signs, differences)) for signs in itertools.product((-1, 1), repeat=len(differences))]
    return float(np.mean([flip >= observed - 1e-9 for flip in flips]))


@pytest.mark.parametrize("n", [1, 2, 5, 9])
def test_sign_flips_of_few_pairs_are_enumerated(n):
    differences = np.random.default_rng(n).normal(0.5, size=n)
    differences[: n // 3] = 0.0
    result = sign_flip_test(differences)
    assert result.p_value == pytest.approx(brute_force_flips(differences))
    assert result.test == "sign-flip (exact)"


def test_exact_sign_flips_equal_scipys():
    a, b = np.random.default_rng(0).random((2, 12))
    theirs = stats.permutation_test(
        (a, b), lambda x, y: abs(np.mean(x - y)), permutation_type="samples", alternative="greater"
    )
    assert sign_flip_test(a - b).p_value == pytest.approx(theirs.pvalue)


def test_drawn_sign_flips_come_near_the_normal_limit_and_are_never_zero():
    differences = np.random.default_rng(1).normal(0.1, size=200)
    z = abs(differences.sum()) / np.sqrt(np.sum(differences**2))
    result = sign_flip_test(differences, seed=3)
    assert result.p_value == pytest.approx(2 * stats.norm.sf(z), abs=0.02)
    assert result.test == "sign-flip (9999 draws, seed 3)"
    assert sign_flip_test(np.ones(200)).p_value == 1 / 10_000
    assert sign_flip_test(differences[::-1], seed=3) == result


def test_no_pairs_give_no_p_value_and_equal_pairs_give_one():
    assert isnan(sign_flip_test(np.array([])).p_value)
    assert sign_flip_test(np.zeros(7)).p_value == 1.0
    assert mcnemar_test(0, 0).p_value == 1.0


@pytest.mark.parametrize(("won", "lost"), [(0, 1), (5, 0), (7, 2), (3, 3), (40, 25)])
def test_mcnemar_is_the_binomial_test_of_discordant_pairs_and_the_sign_flip_of_zero_one_outcomes(won, lost):
    p = mcnemar_test(won, lost).p_value
    assert p == pytest.approx(stats.binomtest(won, won + lost).pvalue)
    if won + lost <= 9:
        assert p == pytest.approx(brute_force_flips([1] * won + [-1] * lost))


def welch(a, b) -> float:
    return float(
        abs(np.mean(a) - np.mean(b)) / np.sqrt(np.var(a, ddof=1) / len(a) + np.var(b, ddof=1) / len(b))
    )


@pytest.mark.parametrize(
    ("studentised", "statistic"), [(False, lambda x, y: abs(x.mean() - y.mean())), (True, welch)]
)
def test_permutations_of_few_episodes_equal_scipys(studentised, statistic):
    a, b = np.array([0.9, 0.7, 0.8, 0.4]), np.array([0.1, 0.5, 0.3, 0.7, 0.2])
    theirs = stats.permutation_test(
        (a, b), statistic, alternative="greater", n_resamples=np.inf, vectorized=False
    )
    result = permutation_test([stratum(a, b)], studentised=studentised)
    assert result.p_value == pytest.approx(theirs.pvalue)
    assert result.test == ("studentised permutation (exact)" if studentised else "permutation (exact)")


def naive_arms(s: Stratum, chosen) -> tuple[float, float]:
    """The weighted difference of means when the first arm holds ``chosen``, and its cluster-robust variance."""
    others = [i for i in range(len(s.totals)) if i not in chosen]
    means, variance = [], 0.0
    for units in (list(chosen), others):
        mean = s.totals[units].sum() / s.sizes[units].sum()
        deviations = [s.totals[i] - s.sizes[i] * mean for i in units]
        if len(units) == 1:
            deviations = [s.totals[i] - s.sizes[i] * s.totals.sum() / s.sizes.sum() for i in units]
        factor = len(units) / (len(units) - 1) if len(units) > 1 else 1.0
        means.append(mean)
        variance += factor * sum(d**2 for d in deviations) / s.sizes[units].sum() ** 2
    return s.weight * (means[0] - means[1]), s.weight**2 * variance


@pytest.mark.parametrize("studentised", [False, True])
def test_permutations_stay_within_strata_and_move_whole_clusters(studentised):
    rng = np.random.default_rng(2)
    strata = [
        Stratum(rng.random(4) * 3, np.array([1.0, 2.0, 3.0, 1.0]), 2, 0.4),
        Stratum(rng.random(5), np.ones(5), 2, 0.5),
        Stratum(rng.random(3), np.ones(3), 1, 0.1),
    ]
    deals = [itertools.combinations(range(len(s.totals)), s.first) for s in strata]
    found = []
    for deal in itertools.product(*deals):
        arms = [naive_arms(s, chosen) for s, chosen in zip(strata, deal, strict=True)]
        difference, variance = (sum(parts) for parts in zip(*arms, strict=True))
        found.append(abs(difference) / (np.sqrt(variance) if studentised else 1.0))
    result = permutation_test(strata, studentised=studentised)
    assert result.p_value == pytest.approx(np.mean([value >= found[0] - 1e-12 for value in found]))
    assert result.test.endswith("permutation within strata (exact)")


@pytest.mark.parametrize("studentised", [False, True])
def test_drawn_permutations_come_near_the_t_test_and_reject_at_their_level(studentised):
    rng = np.random.default_rng(4)
    a, b = rng.normal(0.3, size=60), rng.normal(size=80)
    drawn = permutation_test([stratum(a, b)], studentised=studentised)
    assert drawn.p_value == pytest.approx(stats.ttest_ind(a, b, equal_var=not studentised).pvalue, abs=0.02)
    arms = [rng.exponential(size=(2, 4)) for _ in range(800)]
    rejected = [permutation_test([stratum(*arm)], studentised=studentised).p_value <= 0.1 for arm in arms]
    assert 0.07 <= np.mean(rejected) <= 0.12


def test_outcomes_of_many_episodes_are_drawn_as_counts_and_mean_the_same(monkeypatch):
    rng = np.random.default_rng(6)
    strata = [
        Stratum((rng.random(n) < rate).astype(float), np.ones(n), first, weight)
        for n, rate, first, weight in ((500, 0.4, 240, 0.4), (700, 0.9, 300, 0.5), (100, 0.1, 50, 0.1))
    ]
    # Tilt one arm a little, so that the p-value is neither 0 nor 1.
    strata[0].totals[:8] = 1.0
    counted = permutation_test(strata, studentised=False)
    monkeypatch.setattr(significance, "_MANY_UNITS", 10_000)
    dealt = permutation_test(strata, studentised=False)
    assert 0.02 < dealt.p_value < 0.98
    assert counted.p_value == pytest.approx(dealt.p_value, abs=0.02)
    assert counted.test == dealt.test


def test_arms_of_equal_mean_and_unequal_spread_need_the_studentised_form():
    rng = np.random.default_rng(5)
    arms = [stratum(rng.normal(0, 5, size=6), rng.normal(size=24)) for _ in range(100)]
    plain, studentised = (
        np.mean([permutation_test([arm], studentised=form).p_value <= 0.05 for arm in arms])
        for form in (False, True)
    )
    assert plain > 0.2
    assert studentised < 0.15


def test_arms_without_any_spread_are_told_apart_or_not():
    assert permutation_test([stratum([0.1] * 4, [0.1] * 4)]).p_value == 1.0
    assert permutation_test([stratum([0.9] * 4, [0.1] * 4)]).p_value == pytest.approx(2 / 70)


def test_an_arm_without_units_has_no_p_value():
    assert isnan(permutation_test([]).p_value)
    assert isnan(permutation_test([stratum([], [1, 2])]).p_value)
    assert isnan(rates_test(0, 0, 1, 2).p_value)


def test_rates_are_tested_by_boschloo_and_above_300_episodes_by_fisher():
    small, large = rates_test(7, 12, 1, 11), rates_test(120, 200, 90, 200)
    assert small.p_value == pytest.approx(stats.boschloo_exact([[7, 1], [5, 10]]).pvalue)
    assert small.p_value < stats.fisher_exact([[7, 1], [5, 10]]).pvalue
    assert small.test == "Boschloo exact"
    assert large.p_value == pytest.approx(stats.fisher_exact([[120, 90], [80, 110]]).pvalue)
    assert large.test == "Fisher exact"
    assert rates_test(0, 9, 0, 9).p_value == 1.0


@given(st.lists(st.floats(0, 1), min_size=1, max_size=30), st.sampled_from(["bh", "by"]))
def test_false_discovery_corrections_equal_scipys(p_values, method):
    assert adjust_p_values(p_values, method=method) == pytest.approx(
        stats.false_discovery_control(p_values, method=method)
    )


def test_holm_equals_the_textbook():
    assert adjust_p_values([0.01, 0.04, 0.03, 0.005], method="holm") == pytest.approx(
        [0.03, 0.06, 0.06, 0.02]
    )


def test_an_unknown_p_value_stays_unknown_and_is_not_counted():
    with_unknown = adjust_p_values([0.01, nan, 0.04, nan])
    assert np.isnan(with_unknown).tolist() == [False, True, False, True]
    assert with_unknown[[0, 2]] == pytest.approx(adjust_p_values([0.01, 0.04]))
    assert adjust_p_values([]).tolist() == []
    assert np.isnan(adjust_p_values([nan])).all()


def test_wrong_corrections_and_p_values_are_refused():
    with pytest.raises(OptionError, match="bh, by, holm"):
        adjust_p_values([0.1], method="bonferroni")  # type: ignore[arg-type]
    with pytest.raises(OptionError, match=r"0\.\.1"):
        adjust_p_values([1.2])
