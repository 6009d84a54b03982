"""Intervals cover what they claim, say how they were made, and are withheld where they cannot be known."""

from __future__ import annotations

import itertools
import math
from math import comb, isnan, nan

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import linalg, stats

from stepscore.errors import OptionError
from stepscore.metrics.stats import (
    clopper_pearson_interval,
    mean_estimate,
    rate_estimate,
    statistic_estimate,
    wilson_interval,
)
from stepscore.metrics.stats.sample import draw_sample, mean_of, pool_lonely, weighted_sum

RATES = np.arange(5, 96) / 100


def covered(intervals: list[tuple[float, float]], rate: float) -> np.ndarray:
    ends = np.array(intervals)
    return (ends[:, 0] <= rate) & (rate <= ends[:, 1])


def exact_coverage(interval, n: int) -> np.ndarray:
    """Coverage at each of RATES, summed over all n + 1 outcomes."""
    ends = np.array([interval(k, n) for k in range(n + 1)])
    inside = (ends[:, :1] <= RATES) & (ends[:, 1:] >= RATES)
    return (stats.binom.pmf(np.arange(n + 1)[:, None], n, RATES) * inside).sum(axis=0)


# --- rates of independent episodes


@pytest.mark.parametrize("n", [1, 2, 7, 10, 53, 200])
@pytest.mark.parametrize("level", [0.9, 0.95, 0.99])
def test_wilson_and_clopper_pearson_equal_scipys(n, level):
    for k in range(n + 1):
        test = stats.binomtest(k, n)
        assert wilson_interval(k, n, level) == pytest.approx(test.proportion_ci(level, "wilson"), abs=1e-12)
        assert clopper_pearson_interval(k, n, level) == pytest.approx(
            test.proportion_ci(level, "exact"), abs=1e-9
        )


def test_wilson_covers_94_to_97_percent_on_average_for_every_n_from_10_to_200():
    average = [exact_coverage(wilson_interval, n).mean() for n in range(10, 201)]
    assert min(average) >= 0.94
    assert max(average) <= 0.97


def test_clopper_pearson_covers_95_percent_at_every_rate_and_every_n_from_10_to_200():
    assert min(exact_coverage(clopper_pearson_interval, n).min() for n in range(10, 201)) >= 0.95


def test_a_rate_counts_unknown_outcomes_against_coverage_and_nothing_else():
    estimate = rate_estimate([1, 1, 0, nan, 1, nan])
    assert (estimate.value, estimate.n, estimate.clusters) == (0.75, 4, 4)
    assert estimate.coverage == pytest.approx(4 / 6)
    assert (estimate.lo, estimate.hi) == wilson_interval(3, 4)
    assert estimate.method == "wilson 95%"


def test_a_rate_may_ask_for_the_exact_interval_at_another_level():
    estimate = rate_estimate(np.array([True, False, True]), method="clopper-pearson", level=0.9)
    assert (estimate.lo, estimate.hi) == clopper_pearson_interval(2, 3, 0.9)
    assert estimate.method == "clopper-pearson 90%"


def test_no_episodes_give_nan_and_never_zero():
    for estimate in (rate_estimate([]), rate_estimate([nan]), mean_estimate([nan, nan]), mean_estimate([])):
        assert isnan(estimate.value)
        assert isnan(estimate.lo)
        assert isnan(estimate.hi)
        assert (estimate.n, estimate.method) == (0, "no known values")
    assert rate_estimate([nan]).coverage == 0.0
    assert isnan(rate_estimate([]).coverage)


def test_clusters_of_one_episode_each_are_no_clusters():
    outcomes = [1, 0, 1, 1, 0]
    assert rate_estimate(outcomes, clusters="abcde") == rate_estimate(outcomes)
    assert rate_estimate(outcomes, clusters=[None, None, "", nan, "a"]) == rate_estimate(outcomes)


# --- clustered rates


def cluster_law(size: int, rate: float, icc: float) -> np.ndarray:
    """Law of the successes in one cluster: beta-binomial with intra-cluster correlation ``icc``."""
    if icc == 0:
        return stats.binom.pmf(np.arange(size + 1), size, rate)
    scale = (1 - icc) / icc
    return stats.betabinom.pmf(np.arange(size + 1), size, rate * scale, (1 - rate) * scale)


def clustered_outcomes(clusters: int, size: int) -> list[tuple[int, ...]]:
    """Every way ``clusters`` can have 0..size successes each, up to order."""
    bars = itertools.combinations(range(clusters + size), size)
    return [tuple(np.diff([-1, *b, clusters + size]) - 1) for b in bars]


@pytest.mark.parametrize(("clusters", "size"), [(20, 2), (27, 2), (20, 3)])
def test_clustered_rates_of_20_to_80_percent_are_covered_92_to_97_percent_of_the_time(clusters, size):
    outcomes = clustered_outcomes(clusters, size)
    labels = np.repeat(np.arange(clusters), size)
    intervals = []
    for counts in outcomes:
        successes = np.repeat(np.arange(size + 1), counts)
        values = (np.arange(size)[None, :] < successes[:, None]).astype(float).ravel()
        estimate = rate_estimate(values, clusters=labels)
        intervals.append((estimate.lo, estimate.hi))
    log_ways = [math.lgamma(clusters + 1) - sum(math.lgamma(c + 1) for c in counts) for counts in outcomes]
    for rate in (0.2, 0.35, 0.5, 0.8):
        for icc in (0.0, 0.2, 0.5, 0.8):
            law = cluster_law(size, rate, icc)
            probability = np.exp(np.array(log_ways) + np.array(outcomes) @ np.log(law))
            assert probability.sum() == pytest.approx(1)
            assert 0.92 <= probability @ covered(intervals, rate) <= 0.97, (rate, icc)


def test_mean_estimate_gives_zero_one_values_the_interval_of_a_rate():
    values, clusters = [1, 0, 0, 1, nan, 1] * 5, np.arange(30) // 2
    assert mean_estimate(values) == rate_estimate(values)
    assert mean_estimate(values, clusters=clusters) == rate_estimate(values, clusters=clusters)


def test_clusters_that_never_fail_still_leave_doubt():
    estimate = rate_estimate(np.ones(60), clusters=np.arange(60) // 3)
    assert (estimate.value, estimate.hi, estimate.n, estimate.clusters) == (1.0, 1.0, 60, 20)
    # As many independent trials as there are clusters, with a t quantile.
    assert estimate.lo == pytest.approx(20 / (20 + stats.t.ppf(0.975, 19) ** 2))


@pytest.mark.parametrize("estimate", [rate_estimate, mean_estimate])
def test_under_ten_clusters_the_interval_is_withheld_and_says_why(estimate):
    values = [0, 1, 1, 0, 1, 0] * 3
    nine, ten = np.arange(18) // 2, np.minimum(np.arange(18), 9)
    withheld = estimate(values, clusters=nine)
    assert isnan(withheld.lo)
    assert isnan(withheld.hi)
    assert withheld.value == 0.5
    assert withheld.method == "too few clusters (9 < 10)"
    assert estimate(values, clusters=ten).lo > 0


# --- clustered means


def naive_cr2(values: np.ndarray, clusters: np.ndarray, strata: np.ndarray) -> tuple[float, float]:
    """Error and degrees of freedom of a mean by the matrices of Bell and McCaffrey, nothing simplified."""
    design = (strata[:, None] == np.unique(strata)[None, :]).astype(float)
    contrast = design.mean(axis=0)
    bread = np.linalg.inv(design.T @ design)
    hat = design @ bread @ design.T
    residual = values - hat @ values
    variance, columns = 0.0, []
    for label in np.unique(clusters):
        rows = np.flatnonzero(clusters == label)
        adjust = linalg.sqrtm(np.linalg.inv(np.eye(len(rows)) - hat[np.ix_(rows, rows)])).real
        weight = contrast @ bread @ design[rows].T @ adjust
        variance += float(weight @ residual[rows]) ** 2
        columns.append((np.eye(len(values)) - hat)[:, rows] @ weight)
    g = np.array(columns)
    eigenvalues = np.linalg.eigvalsh(g @ g.T)
    return math.sqrt(variance), float(eigenvalues.sum() ** 2 / (eigenvalues**2).sum())


@pytest.mark.parametrize("strata_count", [1, 3])
def test_a_clustered_mean_has_the_cr2_error_and_bell_mccaffrey_degrees_of_freedom(strata_count):
    rng = np.random.default_rng(7)
    sizes = rng.integers(1, 9, size=18)
    clusters = np.repeat(np.arange(18), sizes)
    strata = clusters % strata_count
    values = rng.normal(size=len(clusters)) + rng.normal(size=18)[clusters] + strata
    error, df = naive_cr2(values, clusters, strata)
    estimate = mean_estimate(values, clusters=clusters, strata=strata)
    half = stats.t.ppf(0.975, df) * error
    assert estimate.value == pytest.approx(values.mean())
    assert (estimate.lo, estimate.hi) == pytest.approx((values.mean() - half, values.mean() + half))
    assert estimate.method == "cluster-robust t 95%"
    assert estimate.clusters == 18


def test_equal_clusters_give_the_t_interval_of_their_means_which_is_exact_for_gaussian_data():
    values = np.random.default_rng(1).normal(size=(20, 4))
    means = values.mean(axis=1)
    expected = stats.t.interval(0.95, 19, means.mean(), stats.sem(means))
    estimate = mean_estimate(values.ravel(), clusters=np.repeat(np.arange(20), 4))
    assert (estimate.lo, estimate.hi) == pytest.approx(expected)


@pytest.mark.parametrize("unequal", [False, True])
def test_gaussian_clustered_means_within_tasks_are_covered_92_to_97_percent_of_the_time(unequal):
    rng = np.random.default_rng(3)
    sizes = np.array([1, 1, 2, 3, 8] * 5) if unequal else np.full(25, 3)
    clusters, hits, draws = np.repeat(np.arange(25), sizes), 0, 1000
    tasks = clusters % 5 if not unequal else clusters // 5
    levels = np.array([0.0, 1.0, 2.0, 3.0, 4.0])
    truth = levels[tasks].mean()
    for _ in range(draws):
        values = levels[tasks] + rng.normal(size=25)[clusters] + rng.normal(size=len(clusters))
        estimate = mean_estimate(values, clusters=clusters, strata=tasks)
        hits += estimate.lo <= truth <= estimate.hi
    assert 0.92 <= hits / draws <= 0.97


def test_clusters_belong_to_their_stratum():
    values = np.random.default_rng(0).random(40)
    seeds, tasks = np.arange(40) % 10, np.arange(40) // 20
    assert mean_estimate(values, clusters=seeds, strata=tasks).clusters == 20
    assert mean_estimate(values, clusters=seeds).clusters == 10


def test_differences_between_tasks_are_no_part_of_the_error():
    rng = np.random.default_rng(5)
    tasks = np.repeat(np.arange(6), 10)
    values = tasks + rng.normal(scale=0.1, size=60)
    clusters = np.arange(60) // 2
    apart = mean_estimate(values, clusters=clusters, strata=tasks)
    together = mean_estimate(values, clusters=clusters)
    assert apart.hi - apart.lo < 0.1 * (together.hi - together.lo)


def test_a_task_with_a_single_episode_is_pooled_with_others_not_taken_as_certain():
    assert pool_lonely(np.array([0, 1, 2])).tolist() == [0, 0, 0]
    assert pool_lonely(np.array([0, 0, 1, 2])).tolist() == [0, 0, 1, 1]
    assert pool_lonely(np.array([0, 0, 0, 1, 1, 2])).tolist() == [0, 0, 0, 1, 1, 1]
    values = np.random.default_rng(2).random(30)
    alone, pooled = mean_estimate(values, strata=np.arange(30)), mean_estimate(values)
    assert alone.hi - alone.lo == pytest.approx(pooled.hi - pooled.lo, rel=0.05)


# --- what does not vary, and bad input


def test_equal_values_say_nothing_of_how_much_others_would_differ():
    for values, clusters in [
        ([0.3] * 20, None),
        ([0.1 + 0.2] * 9 + [0.3] * 9, None),
        ([0.3] * 24, "abcdefghijkl" * 2),
    ]:
        estimate = mean_estimate(values, clusters=clusters)
        assert estimate.value == pytest.approx(0.3)
        assert isnan(estimate.lo)
        assert estimate.method == "no variation"


def test_under_five_episodes_a_mean_has_no_interval():
    estimate = mean_estimate([0.1, 0.2, 0.3, 0.4])
    assert estimate.value == pytest.approx(0.25)
    assert isnan(estimate.lo)
    assert estimate.method == "too few episodes (4 < 5)"
    assert mean_estimate([0.1, 0.2, 0.3, 0.4, 0.5]).lo > 0


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: rate_estimate([0.5, 1]), "mean_estimate"),
        (lambda: rate_estimate([1], method="wald"), "clopper-pearson"),  # type: ignore[arg-type]
        (lambda: mean_estimate([0.1, 0.2], level=95), "0.95"),
        (lambda: mean_estimate([0.1, 0.2], clusters=["a"]), "1 clusters labels for 2 episodes"),
        (lambda: mean_estimate([0.1, math.inf]), "finite"),
        (lambda: mean_estimate([[0.1], [0.2]]), "one number per episode"),
        (lambda: statistic_estimate(np.corrcoef, ([1, 2], [1])), "shapes"),
        (lambda: wilson_interval(3, 2), "3 of 2"),
    ],
)
def test_wrong_input_is_refused_with_what_would_be_right(call, message):
    with pytest.raises(OptionError, match=message):
        call()


@settings(max_examples=25, deadline=None)
@given(
    st.lists(st.tuples(st.floats(0, 1), st.integers(0, 3), st.sampled_from(["a", "b", None])), min_size=1),
    st.randoms(use_true_random=False),
)
def test_no_estimate_depends_on_the_order_in_which_episodes_finished(rows, random):
    shuffled = random.sample(rows, len(rows))
    for clustered in (False, True):
        estimates = []
        for order in (rows, shuffled):
            values, tasks, scenes = zip(*order, strict=True)
            clusters = scenes if clustered else None
            estimates.append(mean_estimate(values, clusters=clusters, strata=tasks, resamples=50))
        assert repr(estimates[0]) == repr(estimates[1])


@settings(max_examples=50, deadline=None)
@given(st.lists(st.sampled_from([0.0, 1.0, nan]), min_size=1, max_size=60), st.integers(1, 4))
def test_a_rates_interval_holds_the_rate_and_stays_in_0_1(outcomes, size):
    estimate = rate_estimate(outcomes, clusters=np.arange(len(outcomes)) // size)
    if not isnan(estimate.lo):
        assert 0 <= estimate.lo <= estimate.value <= estimate.hi <= 1
    assert estimate.coverage == pytest.approx(np.mean(~np.isnan(outcomes)))


def test_a_weighted_sum_of_pooled_lonely_strata_is_centred():
    sample = draw_sample([0.1, 0.5, 0.9, 0.4], strata="abcd")
    linear = weighted_sum(sample, sample.columns[0], np.array([0.1, 0.2, 0.3, 0.4]))
    assert linear.value == pytest.approx(0.01 + 0.1 + 0.27 + 0.16)
    assert linear.contributions.sum() == pytest.approx(0)
    assert mean_of(sample).value == pytest.approx(0.475)


def test_the_number_of_enumerated_outcomes_is_the_number_there_are():
    assert len(clustered_outcomes(20, 3)) == comb(23, 3)
