"""On fixed scenes tests are exact, intervals agree with them, and both equal what brute force gives."""

from __future__ import annotations

import itertools
from math import isnan, nan

import numpy as np
import pytest
from scipy import stats

from stepscore.errors import OptionError
from stepscore.metrics.stats import compare_within_scenes, permutation_test
from stepscore.metrics.stats.comparisons.unpaired import comparable_arms
from stepscore.metrics.stats.comparisons.within_scenes_means import ShiftedPermutation
from stepscore.metrics.stats.comparisons.within_scenes_rates import RatesWithinScenes, _rates_that_differ_by
from stepscore.metrics.stats.sample import difference_of
from stepscore.metrics.stats.significance import Stratum
from stepscore.metrics.stats.studentised import bootstrap_t_interval, bootstrap_t_test

Design = tuple[tuple[int, int], ...]
"""Trials of A and of B in each scene."""

EQUAL: Design = ((3, 3),) * 4
UNEQUAL: Design = ((1, 2), (3, 2), (2, 4))


def rates(won_a, design: Design, won_b) -> RatesWithinScenes:
    n, m = (np.array(column) for column in zip(*design, strict=True))
    return RatesWithinScenes(np.array(won_a), n, np.array(won_b), m)


def trials(won, tried) -> tuple[list[float], list[int]]:
    """Outcomes and the scene of each."""
    outcomes = [float(i < k) for k, n in zip(won, tried, strict=True) for i in range(n)]
    return outcomes, [scene for scene, n in enumerate(tried) for _ in range(n)]


def compare_counts(won_a, tried_a, won_b, tried_b):
    (a, scenes_a), (b, scenes_b) = trials(won_a, tried_a), trials(won_b, tried_b)
    return compare_within_scenes(a, b, scenes=(scenes_a, scenes_b))


def brute_force(won_a, design: Design, won_b) -> float:
    """The share of all ways to deal out the names within scenes that reach the observed difference."""
    scenes = [
        [1] * k + [0] * (n - k) + [1] * j + [0] * (m - j)
        for k, (n, m), j in zip(won_a, design, won_b, strict=True)
    ]
    weights = [n * m / (n + m) for n, m in design]

    def difference(chosen) -> float:
        parts = []
        for outcomes, mine, weight in zip(scenes, chosen, weights, strict=True):
            first = [outcomes[i] for i in mine]
            rest = [outcome for i, outcome in enumerate(outcomes) if i not in mine]
            parts.append(weight * (np.mean(first) - np.mean(rest)))
        return abs(sum(parts))

    ways = [itertools.combinations(range(n + m), n) for n, m in design]
    every = np.array([difference(chosen) for chosen in itertools.product(*map(list, ways))])
    return float(np.mean(every >= difference([range(n) for n, _ in design]) - 1e-9))


@pytest.mark.parametrize(
    ("won_a", "design", "won_b"),
    [
        ((1, 2, 2), UNEQUAL, (0, 0, 1)),
        ((0, 3, 1), UNEQUAL, (2, 1, 0)),
        ((1, 1, 0), UNEQUAL, (1, 1, 2)),
        ((3, 2), ((3, 3), (2, 5)), (0, 1)),
    ],
)
def test_the_exact_test_is_the_enumeration_of_all_arrangements(won_a, design, won_b):
    assert rates(won_a, design, won_b).test().p_value == pytest.approx(brute_force(won_a, design, won_b))


def test_the_exact_test_is_the_permutation_test_of_single_trials_without_its_draws():
    won_a, won_b = (2, 3, 1), (0, 1, 1)
    strata = []
    for k, j in zip(won_a, won_b, strict=True):
        values = np.array([1.0] * k + [0.0] * (3 - k) + [1.0] * j + [0.0] * (3 - j))
        strata.append(Stratum(values, np.ones(6), 3, 1 / 3))
    theirs = permutation_test(strata, studentised=False)
    assert theirs.test == "permutation within strata (exact)"
    assert rates(won_a, ((3, 3),) * 3, won_b).test().p_value == pytest.approx(theirs.p_value)


@pytest.mark.parametrize(("k", "j", "n"), [(9, 3, 12), (12, 1, 12), (5, 5, 12), (40, 21, 60)])
def test_in_one_scene_of_equal_trials_it_is_fishers(k, j, n):
    theirs = stats.fisher_exact([[k, j], [n - k, n - j]]).pvalue
    assert rates([k], ((n, n),), [j]).test().p_value == pytest.approx(theirs)


def test_the_exact_law_holds_in_scenes_of_hundreds_of_trials():
    found = rates([480, 300], ((500, 400), (350, 700)), [330, 610])
    _, law = found.null
    assert law.sum() == pytest.approx(1.0)
    x = np.arange(0, 811)
    one, other = stats.hypergeom.pmf(x, 900, 810, 500), stats.hypergeom.pmf(x, 1050, 910, 350)
    sums = np.convolve(one, other)
    expected = 810 * 500 / 900 + 910 * 350 / 1050
    far = np.abs(np.arange(len(sums)) - expected) >= abs(780 - expected) - 1e-9
    assert found.test().p_value == pytest.approx(sums[far].sum())


@pytest.mark.parametrize("d", [-0.9, -0.4, 0.0, 0.1, 0.55, 1.0])
def test_restricted_rates_are_the_most_likely_ones_that_differ_by_d(d):
    for k, n, j, m in [(0, 3, 3, 3), (3, 3, 0, 2), (2, 5, 1, 1), (7, 20, 9, 12), (3, 3, 3, 3)]:
        p, q = _rates_that_differ_by(
            np.array([[d]]), np.array([k / n]), np.array([j / m]), np.array([float(n)]), np.array([float(m)])
        )
        assert p.item() - q.item() == pytest.approx(d, abs=1e-9)

        def log_likelihood(p, q, k=k, n=n, j=j, m=m):
            return stats.binom.logpmf(k, n, np.clip(p, 0, 1)) + stats.binom.logpmf(j, m, np.clip(q, 0, 1))

        grid = np.linspace(max(0.0, d), min(1.0, 1.0 + d), 2001)
        assert log_likelihood(p.item(), q.item()) >= np.max(log_likelihood(grid, grid - d)) - 1e-6


@pytest.mark.parametrize(
    ("k", "n", "j", "m", "lo", "hi"),
    [
        # Newcombe, Statistics in Medicine 17, 873-890 (1998), table II: Miettinen and Nurminen.
        (56, 70, 48, 80, 0.0528, 0.3382),
        (9, 10, 3, 10, 0.1700, 0.8406),
        (5, 56, 0, 29, -0.0326, 0.1933),
        (0, 10, 0, 20, -0.1658, 0.2844),
    ],
)
def test_the_score_interval_of_one_scene_is_the_published_one(k, n, j, m, lo, hi):
    found = rates([k], ((n, m),), [j])
    z = float(stats.norm.ppf(0.975))
    ends = [found._end(found.difference, far, z) for far in (-1.0, 1.0)]
    assert ends == pytest.approx([lo, hi], abs=2e-4)


@pytest.mark.parametrize(
    "design", [((2, 2), (2, 3)), ((1, 1), (1, 2), (2, 1)), ((4, 4),), ((5, 3),), ((3, 3), (2, 2))]
)
def test_the_interval_excludes_0_exactly_where_the_test_rejects_whatever_the_outcomes(design):
    n, m = zip(*design, strict=True)
    every = itertools.product(*(range(k + 1) for k in (*n, *m)))
    rejected = 0
    for outcome in every:
        found = rates(outcome[: len(n)], design, outcome[len(n) :])
        lo, hi = found.interval(0.95)
        assert -1 <= lo <= found.difference + 1e-9
        assert found.difference - 1e-9 <= hi <= 1
        assert (lo > 0 or hi < 0) == (found.test().p_value < 0.05), outcome
        rejected += found.test().p_value < 0.05
    assert (rejected > 0) == (rates([0] * len(n), design, [0] * len(n)).least_p_value() < 0.05)


def test_twelve_of_twelve_against_one_of_twelve_on_four_scenes_is_decided():
    found = compare_counts([3] * 4, [3] * 4, [1, 0, 0, 0], [3] * 4)
    assert found.difference.value == pytest.approx(11 / 12)
    # Of 20^4 arrangements 4 give A 12 of the 13 successes, and 4 give it 1.
    assert found.p_value == pytest.approx(8 / 20**4)
    assert found.difference.lo == pytest.approx(0.569, abs=0.001)
    assert found.difference.hi == pytest.approx(0.987, abs=0.001)
    assert found.difference.method == "stratified score 95% on these 4 scenes"
    assert found.test == "exact permutation within scenes"
    assert (found.scenes, found.n_a, found.n_b, found.paired) == (4, 12, 12, False)
    assert found.probability_of_improvement.lo == pytest.approx((1 + found.difference.lo) / 2)


def test_fifty_six_of_sixty_against_six_of_sixty_on_three_scenes_is_decided():
    found = compare_counts([20, 18, 18], [20] * 3, [2, 2, 2], [20] * 3)
    assert found.p_value < 1e-20
    assert found.difference.value == pytest.approx(50 / 60)
    assert (found.difference.lo, found.difference.hi) == pytest.approx((0.709, 0.908), abs=0.001)


def test_six_scenes_of_three_trials_have_an_interval_and_a_p_value_that_agree():
    found = compare_counts([1, 1, 1, 0, 0, 0], [3] * 6, [3, 3, 3, 2, 2, 2], [3] * 6)
    assert found.difference.hi < 0
    assert found.p_value < 0.05


def test_a_null_with_strong_scene_effects_stays_undecided():
    # Scenes are all or nothing, alike for both: scenes as a sample or not, nothing tells the policies apart.
    found = compare_counts([3, 3, 0, 0], [3] * 4, [3, 3, 0, 0], [3] * 4)
    assert (found.p_value, found.difference.value) == (1.0, 0.0)
    assert found.difference.lo < 0 < found.difference.hi
    # A ran mostly in the easy scene, B in the hard one: 11 of 12 against 3 of 12 is the scenes' doing.
    found = compare_counts([10, 1], [10, 2], [2, 1], [2, 10])
    assert stats.fisher_exact([[11, 3], [1, 9]]).pvalue < 0.01
    assert found.p_value > 0.2
    assert found.difference.lo < 0 < found.difference.hi


def test_a_difference_within_scenes_is_weighted_by_trials_and_equals_the_pooled_one_in_equal_trials():
    found = compare_counts([4, 1, 0], [4, 2, 6], [2, 0, 1], [4, 2, 6])
    assert found.difference.value == pytest.approx(5 / 12 - 3 / 12)
    values = rates([2, 3], ((4, 1), (3, 6)), [1, 2])
    weights = np.array([4 / 5, 18 / 9])
    assert values.difference == pytest.approx(np.sum(weights * [2 / 4 - 1, 1 - 2 / 6]) / weights.sum())


def test_what_is_in_no_shared_scene_counts_against_coverage():
    a, b = [1, 1, 0, nan, 1, 1], [0, 1, 0, 0, 0]
    found = compare_within_scenes(a, b, scenes=(["x", "x", "y", "y", None, "z"], ["x", "y", "y", "w", ""]))
    assert (found.n_a, found.n_b, found.scenes) == (3, 3, 2)
    assert found.difference.coverage == pytest.approx(6 / 11)
    nothing = compare_within_scenes([1, 0], [0, 1], scenes=(["x", "x"], ["y", "y"]))
    assert isnan(nothing.difference.value)
    assert isnan(nothing.p_value)
    assert nothing.difference.method == "no scene that both met"
    with pytest.raises(OptionError, match="strata labels for 2 episodes"):
        compare_within_scenes([1, 0], [0, 1], scenes=(["x"], ["y", "y"]))


def test_the_other_way_round_is_the_same_with_the_signs_reversed():
    rng = np.random.default_rng(1)
    for values in (rng.integers(0, 2, 24).astype(float), rng.beta(2, 1, 24)):
        scenes = np.repeat(range(4), [1, 2, 4, 5]).tolist()
        there = compare_within_scenes(values[:12], values[12:], scenes=(scenes, scenes))
        back = compare_within_scenes(values[12:], values[:12], scenes=(scenes, scenes))
        assert back == there.swapped() or there == back.swapped()


@pytest.mark.parametrize(("tried", "exact"), [((2, 3, 1), True), ((3, 3, 3, 3), False)])
def test_the_shifted_permutation_is_the_permutation_test_of_shifted_values(tried, exact):
    rng = np.random.default_rng(sum(tried))
    scenes = [(rng.normal(0.5, size=n), rng.normal(size=n + 1)) for n in tried]
    made = ShiftedPermutation.of(scenes, seed=3)
    assert made.exact == exact
    for shift in (0.0, 0.7, -1.3):
        strata = [
            Stratum(
                np.concatenate([a - shift, b]),
                np.ones(len(a) + len(b)),
                len(a),
                len(a) * len(b) / (len(a) + len(b)),
            )
            for a, b in scenes
        ]
        assert made.p_value(shift) == pytest.approx(permutation_test(strata, seed=3).p_value, abs=1e-12)


def test_the_interval_of_the_bootstrap_t_holds_what_its_test_does_not_reject():
    rng = np.random.default_rng(5)
    labels = np.repeat(range(3), 4).tolist()
    a, b = rng.lognormal(size=12), rng.lognormal(size=12)
    arms = comparable_arms(a, b, strata=(labels, labels))
    difference = difference_of(*(arms.adjusted(arm, arm.columns[0]) for arm in (arms.a, arms.b)))
    lo, hi = bootstrap_t_interval(difference, 0.95)
    for end, inward in ((lo, 1), (hi, -1)):
        for step, rejects in ((1e-6 * inward, False), (-1e-6 * inward, True)):
            moved = comparable_arms(a - end - step, b, strata=(labels, labels))
            shifted = difference_of(*(moved.adjusted(arm, arm.columns[0]) for arm in (moved.a, moved.b)))
            assert (bootstrap_t_test(shifted).p_value < 0.05) == rejects


@pytest.mark.parametrize("tried", [(3, 3, 3, 3), (1, 2, 3, 6), (20, 20)])
def test_of_other_values_too_interval_and_p_value_agree(tried):
    rng = np.random.default_rng(sum(tried))
    labels = np.repeat(range(len(tried)), tried).tolist()
    decided = []
    for shift in np.linspace(0, 1.5, 10):
        a, b = rng.normal(shift, size=len(labels)), rng.exponential(size=len(labels)) - 1
        found = compare_within_scenes(a, b, scenes=(labels, labels))
        d = found.difference
        assert d.lo < d.value < d.hi
        assert (d.lo > 0 or d.hi < 0) == (found.p_value < 0.05)
        assert d.method == f"permutation and bootstrap-t 95% on these {len(tried)} scenes"
        decided.append(found.p_value < 0.05)
    assert len(set(decided)) == 2


def test_a_sample_that_no_arrangement_could_decide_has_no_interval_and_says_the_least_p_value():
    found = compare_within_scenes([0.9, 0.8, 0.7, 0.9], [0.1, 0.2, 0.3, 0.3], scenes=("xxyy", "xxyy"))
    assert found.least_p_value == pytest.approx(2 / 36)
    assert found.p_value >= 2 / 36
    assert isnan(found.difference.lo)
    assert compare_counts([2, 2], [2, 2], [0, 0], [2, 2]).least_p_value == pytest.approx(2 / 36)
    assert compare_counts([3] * 4, [3] * 4, [0] * 4, [3] * 4).least_p_value == pytest.approx(2 / 20**4)


def test_trials_that_do_not_vary_have_no_interval_of_a_mean():
    found = compare_within_scenes([0.4] * 6, [0.2] * 6, scenes=("xxxyyy", "xxxyyy"))
    assert isnan(found.difference.lo)
    assert found.difference.method == "no variation on these 2 scenes"


def test_thousands_of_trials_on_a_few_scenes_take_the_limit_with_an_interval_that_agrees():
    rng = np.random.default_rng(0)
    labels = rng.integers(0, 4, 3000).tolist()
    a, b = rng.beta(2, 2, 3000) + 0.005, rng.beta(2, 2, 3000)
    found = compare_within_scenes(a, b, scenes=(labels, labels))
    assert found.test == "z within scenes (limit)"
    assert (found.difference.lo > 0) == (found.p_value < 0.05)


@pytest.mark.parametrize(
    ("design", "rate"), [(EQUAL, 0.5), (((20, 20),) * 3, 0.4), (((2, 6), (5, 5), (9, 3)), 0.3)]
)
def test_what_could_show_shows_about_four_times_in_five(design, rate):
    n, m = (np.array(column) for column in zip(*design, strict=True))
    total = n + m
    successes = np.round(rate * total).astype(int)
    split = np.minimum(successes // 2, n)
    planned = RatesWithinScenes(split, n, successes - split, m)
    d = planned.smallest_detectable(0.95, 0.8)
    q = float(np.clip(rate - d / 2, 0, 1 - d))
    rng = np.random.default_rng(2)
    hits = [
        RatesWithinScenes(rng.binomial(n, q + d), n, rng.binomial(m, q), m).test().p_value < 0.05
        for _ in range(400)
    ]
    assert np.mean(hits) == pytest.approx(0.8, abs=0.09)
