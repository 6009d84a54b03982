"""The bootstrap equals its naive form, agrees with scipy's on large samples, and holds its level on small."""

from __future__ import annotations

import itertools
import time
from math import isnan, nan

import numpy as np
import pytest
from scipy import stats

from stepscore.metrics import OF_COUNTS, balanced_accuracy, cohen_kappa, f1, mcc
from stepscore.metrics.stats import mean_estimate, statistic_estimate
from stepscore.metrics.stats.bootstrap import (
    bca_interval,
    linear_acceleration,
    linear_replicates,
    resample_units,
    rows_of,
    statistic_acceleration,
)
from stepscore.metrics.stats.sample import draw_sample, mean_of


def spearman(x, y):
    return float(np.corrcoef(x.argsort().argsort(), y.argsort().argsort())[0, 1])


def naive_bca(value, replicates, acceleration, df, level):
    below = sum((r < value) + 0.5 * (r == value) for r in replicates) / len(replicates)
    z0 = stats.norm.ppf(below)
    ends = []
    for tail in ((1 - level) / 2, (1 + level) / 2):
        q = z0 + stats.t.ppf(tail, df)
        ends.append(np.quantile(replicates, stats.norm.cdf(z0 + q / (1 - acceleration * q))))
    return tuple(ends)


def test_bca_ends_equal_the_formula_written_out():
    rng = np.random.default_rng(0)
    replicates = rng.gamma(3.0, size=500)
    got = bca_interval(2.7, replicates, acceleration=0.05, df=12, level=0.9)
    assert got == pytest.approx(naive_bca(2.7, replicates, 0.05, 12, 0.9))


def test_bca_equals_scipys_when_given_scipys_replicates():
    values = np.random.default_rng(1).exponential(size=400)
    theirs = stats.bootstrap((values,), np.mean, n_resamples=4000, method="BCa", rng=np.random.default_rng(2))
    linear = mean_of(draw_sample(values))
    ours = bca_interval(
        linear.value,
        theirs.bootstrap_distribution,
        acceleration=linear_acceleration(linear),
        df=1e9,
        level=0.95,
    )
    assert ours == pytest.approx(tuple(theirs.confidence_interval), abs=1e-6)


def test_a_large_samples_interval_is_near_scipys():
    values = np.random.default_rng(3).exponential(size=500)
    theirs = stats.bootstrap((values,), np.mean, n_resamples=9999, rng=np.random.default_rng(4))
    ours = mean_estimate(values, resamples=9999)
    width = theirs.confidence_interval.high - theirs.confidence_interval.low
    assert (ours.lo, ours.hi) == pytest.approx(tuple(theirs.confidence_interval), abs=0.04 * width)


def test_a_mean_as_a_statistic_has_the_same_replicates_as_a_mean():
    rng = np.random.default_rng(5)
    values, tasks = rng.random(40), np.arange(40) % 4
    fast = mean_estimate(values, strata=tasks, resamples=2000)
    slow = statistic_estimate(np.mean, values, strata=tasks)
    assert (fast.value, fast.lo, fast.hi) == pytest.approx((slow.value, slow.lo, slow.hi), abs=1e-12)
    assert fast.method == slow.method == "BCa bootstrap 95% (2000 resamples, seed 0)"


def test_bootknife_replicates_of_a_mean_have_its_unbiased_variance():
    values = np.array([0.0, 1.0, 5.0, 7.0])
    means = []
    for left_out in range(4):
        rest = np.delete(values, left_out)
        means += [np.mean(draw) for draw in itertools.product(rest, repeat=4)]
    assert np.mean(means) == pytest.approx(values.mean())
    assert np.var(means) == pytest.approx(values.var(ddof=1) / 4)
    drawn = linear_replicates(mean_of(draw_sample(values)), 200_000, seed=0)
    assert set(np.round(drawn, 9)) == set(np.round(means, 9))
    assert np.var(drawn) == pytest.approx(np.var(means), rel=0.02)


def test_two_episodes_a_task_still_show_their_full_variance():
    rng = np.random.default_rng(6)
    values, tasks = rng.normal(size=80), np.arange(80) // 2
    replicates = linear_replicates(mean_of(draw_sample(values, strata=tasks)), 20_000, seed=0)
    pairs = values.reshape(40, 2)
    assert np.var(replicates) == pytest.approx(pairs.var(axis=1, ddof=1).sum() / 2 / 40**2, rel=0.05)


def test_every_resample_keeps_each_strata_share_and_leaves_a_unit_of_it_out():
    stratum = np.array([0, 0, 0, 1, 1, 2, 2, 2, 2])
    draws = resample_units(stratum, 300, np.random.default_rng(0))
    assert draws.shape == (300, 9)
    for draw in draws:
        assert np.array_equal(np.bincount(stratum[draw]), np.bincount(stratum))
        assert all(len(set(draw[stratum[draw] == s])) < np.sum(stratum == s) for s in range(3))


def test_resampled_clusters_bring_all_their_episodes():
    sample = draw_sample(np.arange(7.0), clusters=list("aabbbcd"))
    assert rows_of(sample, np.array([1, 0, 1])).tolist() == [2, 3, 4, 0, 1, 2, 3, 4]


def test_stratified_acceleration_of_a_mean_equals_the_sum_over_influences():
    values, tasks = np.random.default_rng(8).exponential(size=30), np.arange(30) % 3
    sample = draw_sample(values, strata=tasks)
    assert statistic_acceleration(np.mean, sample) == pytest.approx(linear_acceleration(mean_of(sample)))
    flat = draw_sample(values)
    centred = values - values.mean()
    expected = np.sum(centred**3) / 6 / np.sum(centred**2) ** 1.5
    assert linear_acceleration(mean_of(flat)) == pytest.approx(expected)


def test_the_seed_decides_and_nothing_else_does():
    values = np.random.default_rng(9).random(30)
    assert mean_estimate(values, seed=1) == mean_estimate(values[::-1], seed=1)
    assert mean_estimate(values, seed=1).lo != mean_estimate(values, seed=2).lo
    pairs = (values, values**2 + 0.1 * np.sin(99 * values))
    backwards = tuple(column[::-1] for column in pairs)
    assert statistic_estimate(spearman, pairs) == statistic_estimate(spearman, backwards)


@pytest.mark.parametrize(
    ("draw", "truth"),
    [
        (lambda rng: rng.normal(size=20), 0.0),
        (lambda rng: rng.beta(5, 1, size=20), 5 / 6),
        (lambda rng: rng.beta(0.5, 0.5, size=20), 0.5),
    ],
    ids=["gaussian", "near the top", "at both ends"],
)
def test_means_of_20_episodes_are_covered_about_95_percent_of_the_time(draw, truth):
    rng = np.random.default_rng(10)
    hits = 0
    for _ in range(500):
        estimate = mean_estimate(draw(rng), resamples=500)
        hits += estimate.lo <= truth <= estimate.hi
    assert 0.92 <= hits / 500 <= 0.98


def test_an_episode_with_any_unknown_column_is_left_out():
    x, y = np.arange(30.0), np.arange(30.0) ** 2 * (1 + 0.5 * np.sin(np.arange(30.0)))
    x[3], y[7] = nan, nan
    estimate = statistic_estimate(spearman, (x, y))
    known = ~np.isnan(x) & ~np.isnan(y)
    assert estimate.value == pytest.approx(spearman(x[known], y[known]))
    assert (estimate.n, estimate.coverage) == (28, pytest.approx(28 / 30))
    assert statistic_estimate(spearman, np.column_stack([x, y])) == estimate


def test_clustered_statistics_resample_clusters_and_want_ten_of_them():
    rng = np.random.default_rng(11)
    values = np.repeat(rng.random(12), 5) + 0.001 * rng.random(60)
    clusters = np.arange(60) // 5
    alone, together = (
        statistic_estimate(np.median, values),
        statistic_estimate(np.median, values, clusters=clusters),
    )
    assert together.clusters == 12
    assert together.hi - together.lo > 1.3 * (alone.hi - alone.lo)
    few = statistic_estimate(np.median, values[:45], clusters=clusters[:45])
    assert isnan(few.lo)
    assert few.method == "too few clusters (9 < 10)"


def test_a_statistic_undefined_on_some_resamples_says_on_how_many():
    def slope(x):
        return nan if np.all(x > 0.05) else float(np.mean(x))

    values = np.linspace(0, 1, 60)
    estimate = statistic_estimate(slope, values)
    assert "undefined" in estimate.method
    assert estimate.lo < estimate.value < estimate.hi
    withheld = statistic_estimate(lambda x: nan if np.min(x) > 0 else float(np.mean(x)), values)
    assert isnan(withheld.lo)
    assert withheld.method.startswith("undefined on ")


def test_no_interval_where_the_bootstrap_cannot_make_one():
    varied = np.arange(20.0)
    for func, note in [
        (lambda x: nan, "undefined on this sample"),
        (lambda x: 1.0, "no variation"),
        (lambda x: float(len(np.unique(x))), "the estimate lies outside its own resamples"),
    ]:
        estimate = statistic_estimate(func, varied)
        assert isnan(estimate.lo)
        assert isnan(estimate.hi)
        assert estimate.method == note


def test_a_mean_of_200_episodes_takes_milliseconds():
    values = np.random.default_rng(0).random(200)
    mean_estimate(values)
    took = []
    for _ in range(5):
        start = time.perf_counter()
        mean_estimate(values)
        took.append(time.perf_counter() - start)
    assert min(took) < 0.05


@pytest.mark.parametrize("func", [balanced_accuracy, mcc, f1, cohen_kappa])
@pytest.mark.parametrize("n", [12, 60, 400])
def test_a_statistic_of_counts_has_the_very_interval_of_its_columns(func, n):
    for seed in range(6):
        rng = np.random.default_rng(seed)
        labels = (rng.random(n) < rng.choice([0.1, 0.5, 0.9])).astype(np.float64)
        answers = np.where(rng.random(n) < 0.8, labels, 1 - labels)
        answers[rng.random(n) < 0.1] = np.nan
        if seed == 5:
            answers = np.ones(n)
        clusters = None if seed % 2 else (np.arange(n) // 3).tolist()
        strata = [f"t{i % 2}" for i in range(n)]
        slow, fast = (
            statistic_estimate(
                func, (answers, labels), clusters=clusters, strata=strata, resamples=300, of_counts=of_counts
            )
            for of_counts in (None, OF_COUNTS[func])
        )
        assert repr(fast) == repr(slow)  # NaN equals NaN
