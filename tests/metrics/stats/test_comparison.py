"""A comparison says by how much, how surely and what it could have seen; the same episodes are paired."""

from __future__ import annotations

import math
from math import isnan, nan

import numpy as np
import pytest
from scipy import stats

from stepscore.errors import OptionError
from stepscore.metrics.stats import compare_paired, compare_samples, compare_unpaired, mean_estimate
from stepscore.metrics.stats.comparison_result import bonett_price_interval, newcombe_interval


def rng(seed: int = 0) -> np.random.Generator:
    return np.random.default_rng(seed)


# --- which comparison is made


def test_shared_episodes_are_compared_as_pairs_in_any_order():
    scenes = [("stack", i) for i in range(12)]
    a, b = rng().random((2, 12))
    shuffle = rng(1).permutation(12)
    paired = compare_samples(a, b[shuffle], keys=(scenes, [scenes[i] for i in shuffle]))
    assert paired.paired
    assert paired == compare_paired(a, b)
    assert paired.difference.value == pytest.approx(np.mean(a - b))


def test_pairs_need_half_of_the_smaller_arms_keys_to_be_shared_unless_asked_for():
    a, b = rng().random((2, 10))
    half, fewer = range(5, 15), range(6, 16)
    assert compare_samples(a, b, keys=(range(10), half)).paired
    assert not compare_samples(a, b, keys=(range(10), fewer)).paired
    assert compare_samples(a, b, keys=(range(10), fewer), paired=True).n_a == 4
    assert not compare_samples(a, b, keys=(range(10), range(10)), paired=False).paired
    assert not compare_samples(a, b).paired
    assert not compare_samples(a, b, keys=([None] * 10, [None] * 10)).paired


def test_what_is_in_no_pair_counts_against_coverage():
    a, b = [0.1, 0.2, 0.3, nan, 0.5], [0.2, 0.2, 0.2, 0.2]
    result = compare_samples(a, b, keys=(["v", "w", "x", "y", None], ["v", "w", "x", "y"]))
    assert (result.n_a, result.n_b, result.difference.n) == (3, 3, 3)
    assert result.difference.coverage == pytest.approx(3 / 5)
    assert result.difference.value == pytest.approx(0.0)


def test_several_tries_at_one_scene_are_averaged_to_one_pair():
    result = compare_samples([1, 0, 1, 1], [0, 0, 1], keys=(["s", "s", "t", "t"], ["s", "t", "t"]))
    assert (result.n_a, result.n_b) == (2, 2)
    assert result.difference.value == pytest.approx(((0.5 - 0.0) + (1.0 - 0.5)) / 2)


def test_two_judges_on_scenes_flip_whole_scenes():
    a, b = rng(2).random((2, 40))
    ids, scenes = list(range(40)), [i // 4 for i in range(40)]
    result = compare_samples(a, b, keys=(ids, ids), clusters=(scenes, scenes))
    assert result.difference.clusters == 10
    assert result.difference.method == "cluster-robust t 95%"
    totals = (a - b).reshape(10, 4).sum(axis=1)
    signs = 1 - 2 * ((np.arange(1024)[:, None] >> np.arange(10)) & 1)
    assert result.p_value == pytest.approx(np.mean(np.abs(signs @ totals) >= abs(totals.sum()) - 1e-12))


# --- pairs


def test_a_paired_difference_is_the_mean_difference_with_its_interval():
    a, b = rng(3).random((2, 30))
    tasks = np.arange(30) % 3
    result = compare_paired(a, b, strata=tasks)
    assert result.difference.value == pytest.approx(np.mean(a - b))
    of_differences = mean_estimate(a - b, strata=tasks)
    width = of_differences.hi - of_differences.lo
    assert result.difference.lo == pytest.approx(of_differences.lo, abs=0.05 * width)
    assert result.difference.hi == pytest.approx(of_differences.hi, abs=0.05 * width)


def test_paired_outcomes_get_mcnemar_and_bonett_price():
    a, b = np.array([1] * 12 + [0] * 8), np.array([1] * 6 + [0] * 6 + [1] * 2 + [0] * 6)
    result = compare_paired(a, b)
    assert result.test == "McNemar exact"
    assert result.p_value == pytest.approx(stats.binomtest(6, 8).pvalue)
    assert result.difference.value == pytest.approx(0.2)
    assert (result.difference.lo, result.difference.hi) == bonett_price_interval(6, 2, 20, 0.95)[0]
    assert result.probability_of_improvement.value == pytest.approx(0.6)


@pytest.mark.parametrize(("won", "lost"), [(0.05, 0.05), (0.3, 0.1), (0.2, 0.2), (0.5, 0.05)])
@pytest.mark.parametrize("pairs", [10, 20, 50])
def test_bonett_price_covers_its_level_and_errs_to_the_wide_side_by_enumeration(won, lost, pairs):
    coverage = 0.0
    for k in range(pairs + 1):
        for m in range(pairs + 1 - k):
            (lo, hi), _ = bonett_price_interval(k, m, pairs, 0.95)
            ways = math.comb(pairs, k) * math.comb(pairs - k, m)
            p = ways * won**k * lost**m * (1 - won - lost) ** (pairs - k - m)
            coverage += p * (lo <= won - lost <= hi)
    assert coverage >= 0.94
    if pairs * min(won, lost) >= 4:
        assert coverage <= 0.975


def test_paired_probability_of_improvement_is_the_share_of_pairs_won_ties_half():
    result = compare_paired([3, 2, 1, 5, 0.5], [1, 2, 2, 4, 0])
    estimate = result.probability_of_improvement
    assert estimate.value == pytest.approx((3 + 0.5) / 5)
    assert 0 <= estimate.lo < estimate.value < estimate.hi <= 1


# --- arms


def test_unpaired_outcomes_get_boschloo_and_newcombe():
    result = compare_unpaired([1] * 56 + [0] * 14, [1] * 48 + [0] * 32)
    assert result.test == "Boschloo exact"
    assert result.p_value == pytest.approx(stats.boschloo_exact([[56, 48], [14, 32]]).pvalue)
    # The worked example of Newcombe (1998), table II (a), method 10.
    assert result.difference.lo == pytest.approx(0.0524, abs=5e-5)
    assert result.difference.hi == pytest.approx(0.3339, abs=5e-5)
    assert (result.n_a, result.n_b, result.difference.n) == (70, 80, 150)


def test_an_arm_gains_nothing_by_having_met_easier_tasks():
    easy, hard = np.full(40, 0.9), np.full(40, 0.1)
    noise = 0.01 * np.sin(np.arange(50))
    a, b = np.concatenate([easy, hard[:10]]) + noise, np.concatenate([easy[:10], hard]) + noise
    tasks = (["easy"] * 40 + ["hard"] * 10, ["easy"] * 10 + ["hard"] * 40)
    assert compare_unpaired(a, b).difference.value > 0.4
    result = compare_unpaired(a, b, strata=tasks)
    assert result.difference.value == pytest.approx(0.0, abs=0.01)
    assert result.difference.lo < 0 < result.difference.hi
    assert result.test.startswith("the larger of studentised permutation within strata")


def test_strata_are_weighted_as_mantel_and_haenszel_do():
    a, b = rng(4).random(12), rng(5).random(15)
    tasks_a, tasks_b = [i % 2 for i in range(12)], [i % 3 > 0 for i in range(15)]
    differences, weights = [], []
    for task in (0, 1):
        in_a, in_b = a[np.array(tasks_a) == task], b[np.array(tasks_b) == task]
        differences.append(in_a.mean() - in_b.mean())
        weights.append(len(in_a) * len(in_b) / (len(in_a) + len(in_b)))
    result = compare_unpaired(a, b, strata=(tasks_a, tasks_b))
    assert result.difference.value == pytest.approx(np.average(differences, weights=weights))


def test_a_task_only_one_arm_met_is_left_out_and_counted():
    result = compare_unpaired([0.1, 0.2, 0.9, nan], [0.1, 0.3, 0.5], strata=("ttuv", "tvv"))
    assert (result.n_a, result.n_b) == (2, 1)
    assert result.difference.value == pytest.approx(0.05)
    assert result.difference.coverage == pytest.approx(3 / 7)
    nothing = compare_unpaired([0.1], [0.2], strata=("x", "y"))
    assert isnan(nothing.difference.value)
    assert isnan(nothing.p_value)
    assert nothing.difference.coverage == 0.0


def test_unpaired_probability_of_improvement_is_mann_whitneys():
    a, b = np.round(rng(6).normal(0.5, 1, 30), 1), np.round(rng(7).normal(0, 1, 25), 1)
    result = compare_unpaired(a, b)
    u = stats.mannwhitneyu(a, b).statistic
    assert result.probability_of_improvement.value == pytest.approx(u / (30 * 25))
    back = compare_unpaired(b, a).probability_of_improvement
    assert back.value == pytest.approx(1 - result.probability_of_improvement.value)
    assert back.lo == pytest.approx(1 - result.probability_of_improvement.hi)


@pytest.mark.parametrize("shift", [0.0, 1.0, 2.0])
def test_the_probability_of_improvement_is_covered_about_95_percent_of_the_time(shift):
    generator = rng(8)
    truth = stats.norm.cdf(shift / math.sqrt(2))
    hits = 0
    for _ in range(250):
        a, b = generator.normal(shift, 1, 12), generator.normal(0, 1, 18)
        estimate = compare_unpaired(a, b, strata=([0, 1] * 6, [0, 1] * 9)).probability_of_improvement
        hits += estimate.lo <= truth <= estimate.hi
    assert 0.92 <= hits / 250 <= 0.995


def test_complete_separation_still_leaves_doubt():
    estimate = compare_unpaired(np.arange(10) + 100.0, np.arange(8.0)).probability_of_improvement
    assert estimate.value == estimate.hi == 1.0
    assert 0.4 < estimate.lo < 0.9


def test_unpaired_differences_of_unequal_arms_are_covered_about_95_percent_of_the_time():
    generator = rng(9)
    hits = 0
    for _ in range(300):
        a, b = generator.normal(0, 3, 10), generator.normal(0, 1, 40)
        estimate = compare_unpaired(a, b).difference
        hits += estimate.lo <= 0 <= estimate.hi
    assert 0.9 <= hits / 300 <= 0.98


def test_clusters_within_arms_widen_the_interval_and_are_permuted_whole():
    scenes = np.arange(60) // 5
    a, b = rng(10).random(12)[scenes], rng(11).random(12)[scenes] + 0.001 * rng(12).random(60)
    loose, tight = compare_unpaired(a, b, clusters=(scenes, scenes)), compare_unpaired(a, b)
    assert loose.difference.clusters == 24
    assert loose.difference.hi - loose.difference.lo > 1.8 * (tight.difference.hi - tight.difference.lo)
    few = compare_unpaired(a[:40], b, clusters=(scenes[:40], scenes))
    assert few.difference.method == "too few clusters (8 < 10)"
    assert isnan(few.difference.lo)


# --- what the sample could have shown


def test_a_paired_sample_shows_its_smallest_detectable_difference_four_times_in_five():
    generator = rng(13)
    differences = generator.normal(size=25)
    size = compare_paired(differences, np.zeros(25)).smallest_detectable_difference
    size /= differences.std(ddof=1)
    shown = np.mean([stats.ttest_1samp(generator.normal(size, 1, 25), 0).pvalue <= 0.05 for _ in range(1500)])
    assert shown == pytest.approx(0.8, abs=0.04)


def test_rates_show_their_smallest_detectable_difference_about_four_times_in_five():
    a, b = np.arange(100) < 55, np.arange(120) < 54
    size = compare_unpaired(a, b).smallest_detectable_difference
    pooled = (55 + 54 + 1) / 222
    expected = (stats.norm.ppf(0.975) + stats.norm.ppf(0.8)) * math.sqrt(
        pooled * (1 - pooled) * (1 / 100 + 1 / 120)
    )
    assert size == pytest.approx(expected)
    generator = rng(14)
    p_a, p_b = pooled + size / 2, pooled - size / 2
    tables = zip(generator.binomial(100, p_a, 2000), generator.binomial(120, p_b, 2000), strict=True)
    shown = []
    for k, m in tables:
        (lo, hi), _ = newcombe_interval(k / 100, 100, m / 120, 120, 0.95)
        shown.append(not lo <= 0 <= hi)
    assert np.mean(shown) == pytest.approx(0.8, abs=0.04)


def test_a_sample_without_spread_does_not_say_what_it_could_show():
    same = compare_paired([0.3] * 8, [0.3] * 8)
    assert isnan(same.smallest_detectable_difference)
    assert isnan(same.difference.lo)
    assert same.difference.method == "no variation"
    assert same.p_value == 1.0
    # Rates that never vary are still counts, and counts say how little they could show.
    never = compare_unpaired([0] * 10, [0] * 10)
    assert 0.2 < never.smallest_detectable_difference < 0.35
    assert isnan(compare_unpaired([0], [0]).smallest_detectable_difference)
    assert isnan(compare_unpaired([0.1, 0.2], []).smallest_detectable_difference)


# --- order and bad input


def test_no_comparison_depends_on_the_order_of_episodes():
    a, b = rng(15).random((2, 30))
    tasks, scenes = rng(16).integers(0, 4, 30), rng(17).integers(0, 12, 30)
    mix = rng(18).permutation(30)
    pairs = [(a, b, tasks, scenes), (a[mix], b[mix], tasks[mix], scenes[mix])]
    assert len({repr(compare_paired(x, y, strata=t, clusters=s)) for x, y, t, s in pairs}) == 1
    assert len({repr(compare_paired(x, y, strata=t)) for x, y, t, _ in pairs}) == 1
    assert len({repr(compare_unpaired(x, b, strata=(t, tasks))) for x, _, t, _ in pairs}) == 1


def test_wrong_input_is_refused_with_what_would_be_right():
    with pytest.raises(OptionError, match="keys="):
        compare_samples([1], [0], paired=True)
    with pytest.raises(OptionError, match="2 keys for 1 episodes of b"):
        compare_samples([1, 0], [1], keys=("ab", "ab"))
    with pytest.raises(OptionError, match="shapes"):
        compare_paired([1, 0], [1])
    with pytest.raises(OptionError, match="1 strata labels for 2 episodes"):
        compare_unpaired([1, 0], [1, 0], strata=("a", "abc"))
    with pytest.raises(OptionError, match="level"):
        compare_samples([1, 0], [1, 0], level=0)
