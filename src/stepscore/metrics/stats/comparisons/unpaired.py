"""Comparison of two arms with different episodes, within the strata that both have."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
from numpy.typing import ArrayLike

from stepscore.metrics.stats.comparison_result import (
    Comparison,
    build_comparison,
    detectable_difference,
    detectable_rate_difference,
    difference_interval,
    newcombe_interval,
)
from stepscore.metrics.stats.intervals import too_small
from stepscore.metrics.stats.rate_intervals import check_level
from stepscore.metrics.stats.sample import (
    GroupLabels,
    LinearStatistic,
    Sample,
    difference_of,
    draw_sample,
    label_codes,
    stands_first,
    weighted_sum,
)
from stepscore.metrics.stats.significance import N_DRAWS, Significance, Stratum, permutation_test, rates_test
from stepscore.metrics.stats.studentised import T_DRAWS, bootstrap_t_test, decided, larger_p_value
from stepscore.types import FloatArray

FEW_EPISODES = 20
"""Below this many episodes of both arms, the most extreme outcomes may not be significant."""


@dataclass(frozen=True)
class Arms:
    """Known episodes of two arms in the strata that both have, with shared stratum codes.

    Attributes:
        weights: Of each stratum, ``n_a n_b / (n_a + n_b)``, summing to 1 (Mantel and Haenszel 1959).
    """

    a: Sample
    b: Sample
    weights: FloatArray

    @property
    def clustered(self) -> bool:
        """Whether some unit of either arm holds more than one episode."""
        return self.a.clustered or self.b.clustered

    @property
    def binary(self) -> bool:
        """Whether every value is 0 or 1."""
        return bool(np.all(np.isin(np.concatenate([self.a.columns[0], self.b.columns[0]]), (0.0, 1.0))))

    def adjusted(self, arm: Sample, values: FloatArray) -> LinearStatistic:
        """Return the weighted mean of an arm's stratum means."""
        return weighted_sum(arm, values, (self.weights / episodes_by_stratum(arm))[arm.stratum])

    def effective_size(self, arm: Sample) -> float:
        """Return the size of a plain sample whose mean varies as much as the arm's adjusted mean."""
        return 1.0 / float(np.sum(self.weights**2 / episodes_by_stratum(arm)))


def episodes_by_stratum(sample: Sample) -> FloatArray:
    """Count the episodes in each stratum of a sample."""
    return np.bincount(sample.stratum, weights=sample.sizes).astype(np.float64)


def compare_unpaired(
    a: ArrayLike,
    b: ArrayLike,
    *,
    strata: tuple[GroupLabels, GroupLabels] | None = None,
    clusters: tuple[GroupLabels, GroupLabels] | None = None,
    level: float = 0.95,
    seed: int = 0,
) -> Comparison:
    """Compare A with B when their episodes differ; strata that only one arm has are left out.

    Differences within strata are averaged with weights ``n_a n_b / (n_a + n_b)``, so that easier tasks give
    no advantage. The interval is a BCa bootstrap, cluster-robust t with clusters, or Newcombe's for 0/1
    outcomes. The p-value is the larger of a studentised permutation of units within strata and the
    bootstrap-t; for 0/1 outcomes it is a permutation, in one stratum Boschloo's test. B against A gives the
    same with the signs reversed. The smallest detectable difference is ``(t_(1 - alpha/2) + t_0.8) SE``; for
    rates ``SE^2 = p (1 - p) (1/n_a + 1/n_b)`` with one success and one failure added to the pooled rate
    ``p``.

    Args:
        a: A number or NaN (unknown) per episode of A; ``b`` likewise.
        strata: A label per episode of each arm, e.g. its task.
        clusters: A label per episode of each arm. Arms are taken as independent: for shared scenes, give
        :func:`stepscore.metrics.stats.compare_samples` keys instead.

    >>> compare_unpaired([1, 1, 1, 0], [0, 0, 0]).test
    'Boschloo exact'
    """
    check_level(level)
    arms = comparable_arms(a, b, strata, clusters)
    if stands_first(arms.a, arms.b):
        return _compare(arms, level, seed)
    return _compare(replace(arms, a=arms.b, b=arms.a), level, seed).swapped()


def _compare(arms: Arms, level: float, seed: int) -> Comparison:
    """Compare the first arm with the second."""
    mean_a, mean_b = arms.adjusted(arms.a, arms.a.columns[0]), arms.adjusted(arms.b, arms.b.columns[0])
    difference = difference_of(mean_a, mean_b)
    withheld = too_small(arms.a) or too_small(arms.b)
    if len(arms.weights) and arms.binary and not arms.clustered:
        n_a, n_b = arms.effective_size(arms.a), arms.effective_size(arms.b)
        interval = newcombe_interval(mean_a.value, n_a, mean_b.value, n_b, level)
        error = _pooled_rate_deviation(arms) * math.sqrt(1 / n_a + 1 / n_b)
        detectable = detectable_rate_difference(error, level)
    else:
        interval = difference_interval(difference, withheld, clustered=arms.clustered, level=level, seed=seed)
        detectable = detectable_difference(difference.standard_error, difference.degrees_of_freedom, level)
    return build_comparison(
        (arms.a, arms.b),
        difference.value,
        interval,
        significance=_test(arms, difference, seed),
        improvement=improvement_of(arms),
        detectable=detectable,
        withheld=withheld,
        level=level,
        least_p_value=_least_p_value(arms),
    )


def _least_p_value(arms: Arms) -> float:
    """Return the p-value of the most extreme arrangement: each unit of one arm above each of the other."""
    if not len(arms.weights):
        return math.nan
    if arms.binary and not arms.clustered and len(arms.weights) == 1:
        return (
            rates_test(arms.a.n, arms.a.n, 0, arms.b.n).p_value if arms.a.n + arms.b.n < FEW_EPISODES else 0.0
        )
    n, m = (np.bincount(arm.stratum).tolist() for arm in (arms.a, arms.b))
    return (2 if n == m else 1) / math.prod(math.comb(i + j, i) for i, j in zip(n, m, strict=True))


def comparable_arms(
    a: ArrayLike,
    b: ArrayLike,
    strata: tuple[GroupLabels, GroupLabels] | None = None,
    clusters: tuple[GroupLabels, GroupLabels] | None = None,
) -> Arms:
    """Return the known episodes of two arms in the strata that both have."""
    values = [np.array(arm, dtype=np.float64) for arm in (a, b)]
    codes = [np.zeros(len(arm), dtype=np.int64) for arm in values]
    if strata is not None:
        # Checked separately, coded together: a label has one code in both arms.
        for labels, arm in zip(strata, values, strict=True):
            label_codes(labels, len(arm), "strata")
        together = label_codes([*strata[0], *strata[1]], len(values[0]) + len(values[1]), "strata")
        codes = [together[: len(values[0])], together[len(values[0]) :]]
    known_codes = [code[~np.isnan(arm)] for code, arm in zip(codes, values, strict=True)]
    samples = []
    for arm, code, cluster in zip(values, codes, clusters or (None, None), strict=True):
        # A stratum that the other arm lacks cannot be compared: unknown, and counted against coverage.
        comparable = np.where(np.isin(code, np.intersect1d(known_codes[0], known_codes[1])), arm, math.nan)
        samples.append(draw_sample(comparable, clusters=cluster, strata=code))
    n_a, n_b = (episodes_by_stratum(sample) for sample in samples)
    weights = n_a * n_b / (n_a + n_b)
    return Arms(samples[0], samples[1], weights / np.sum(weights))


def _test(arms: Arms, difference: LinearStatistic, seed: int) -> Significance:
    if arms.binary and not arms.clustered and len(arms.weights) == 1:
        wins_a, wins_b = (int(np.sum(arm.columns[0])) for arm in (arms.a, arms.b))
        return rates_test(wins_a, arms.a.n, wins_b, arms.b.n)
    strata = []
    for code, weight in enumerate(arms.weights):
        totals, sizes = [], []
        for arm in (arms.a, arms.b):
            totals.append(arm.totals(arm.columns[0])[arm.stratum == code])
            sizes.append(arm.sizes[arm.stratum == code].astype(np.float64))
        strata.append(Stratum(np.concatenate(totals), np.concatenate(sizes), len(totals[0]), float(weight)))
    return decided(partial(_drawn_test, arms, strata, difference, seed), arms.a.units + arms.b.units)


def _drawn_test(
    arms: Arms, strata: list[Stratum], difference: LinearStatistic, seed: int, times: int
) -> Significance:
    """Return the test of arms that are compared by draws, of ``times`` the usual draws."""
    draws = (N_DRAWS + 1) * times - 1
    if arms.binary and not arms.clustered:
        return permutation_test(strata, studentised=False, seed=seed, draws=draws)
    permuted = permutation_test(strata, seed=seed, draws=draws)
    resampled = bootstrap_t_test(difference, seed=seed, draws=(T_DRAWS + 1) * times - 1)
    return larger_p_value(permuted, resampled, min(arms.a.units, arms.b.units))


def improvement_of(arms: Arms) -> LinearStatistic:
    """Return P(A > B) + P(A = B) / 2 within strata, as a sum of contributions of each arm's episodes.

    An episode's placement is the share of the other arm it beats (DeLong, DeLong and Clarke-Pearson 1988).
    """
    beats = [np.zeros(arms.a.n), np.zeros(arms.b.n)]
    strata = [arm.stratum[arm.unit] for arm in (arms.a, arms.b)]
    for code in range(len(arms.weights)):
        in_a, in_b = strata[0] == code, strata[1] == code
        values_a, values_b = arms.a.columns[0][in_a], arms.b.columns[0][in_b]
        beats[0][in_a] = _placements(values_a, values_b)
        beats[1][in_b] = _placements(values_b, values_a)
    of_a, of_b = arms.adjusted(arms.a, beats[0]), arms.adjusted(arms.b, beats[1])
    return replace(difference_of(of_a, of_b), value=of_a.value)


def _placements(values: FloatArray, others: FloatArray) -> FloatArray:
    """Return the share of ``others`` below each value, ties half."""
    ordered = np.sort(others)
    below = np.searchsorted(ordered, values, side="left") + np.searchsorted(ordered, values, side="right")
    shares: FloatArray = below / (2.0 * len(others))
    return shares


def _pooled_rate_deviation(arms: Arms) -> float:
    """Return ``sqrt(p (1 - p))`` of both arms with one success and one failure added, so that it is never 0."""
    successes = float(np.sum(arms.a.columns[0]) + np.sum(arms.b.columns[0]))
    rate = (successes + 1) / (arms.a.n + arms.b.n + 2)
    return math.sqrt(rate * (1 - rate))
