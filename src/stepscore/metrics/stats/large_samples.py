"""The limits of resampling, for samples so large that drawing takes minutes and shows nothing more.

From 5,000 episodes in 1,000 independent units, unless a few units dominate the sum:

- The BCa interval of a mean comes from the cumulants of its bootstrap distribution by the expansion of
  Cornish and Fisher (1938), as in the "approximate bootstrap" of DiCiccio and Efron (Statistical Science 11,
  189-228, 1996). Its ends are within 1 % of a standard error of infinitely many resamples; 2,000 resamples
  have an error of 6 %.
- The p-values of flipped signs, permutations and the bootstrap-t are those of their limits, with the
  Edgeworth term that does not vanish for skewed or heavy-tailed data (Hall, "The Bootstrap and Edgeworth
  Expansion", 1992, 2.3, 3.3; Chung and Romano 2013 for the permutation). None is smaller than draws could
  show.
- Other statistics have ``value +- t SE``. If their empirical influence is known (AUC, balanced accuracy, F1,
  MCC, kappa), SE is that of its sum, the limit of resampling (Efron, "The Jackknife, the Bootstrap and Other
  Resampling Plans", 1982, 6.3). Otherwise it is that of 400 resamples, whose error moves an end by 7 % of a
  standard error. No jackknife: it grows with the square of the sample.

Smaller samples do not use this module.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from stepscore.metrics.stats.sample import LinearStatistic, Sample, pool_lonely
from stepscore.types import FloatArray, IntArray

Influence = Callable[..., FloatArray]
"""Takes the columns of a statistic; returns its change with the weight of each episode, at weight 1."""

MANY_EPISODES = 5_000
MANY_UNITS = 1_000
"""Known episodes and independent units from which a sample is large."""

LARGE_RESAMPLES = 400
"""Resamples of a large sample for the standard error of other statistics than means."""

_MOST_CONCENTRATED = 0.01
_FEWEST_IN_AN_ARM = 30


def is_large(episodes: float, units: int) -> bool:
    """Return whether a sample is large enough for the limits."""
    return episodes >= MANY_EPISODES and units >= MANY_UNITS


def is_spread_out(deviations: FloatArray) -> bool:
    """Return whether no few units dominate the sum: ``sum t^4 <= 0.01 (sum t^2)^2``, 3 / n for normal data."""
    squares = deviations**2
    return bool(np.sum(squares**2) <= _MOST_CONCENTRATED * np.sum(squares) ** 2)


def linear_is_large(statistic: LinearStatistic) -> bool:
    """Return whether the limits apply to a mean or a difference of means."""
    return is_large(float(np.sum(statistic.sizes)), len(statistic.sizes)) and is_spread_out(
        statistic.contributions
    )


def cornish_fisher_bca(statistic: LinearStatistic, level: float) -> tuple[float, float]:
    """Return the ends of the BCa interval of a mean or difference of means that varies, without resampling.

    The bootknife's replicates have the variance ``V = sum_s n_s / (n_s - 1) sum t^2`` and the skewness ``g =
    sum t^3 / (sum t^2)^1.5``, so ``z0 = a = g / 6``, and their quantile at ``Phi(w)`` is ``value + sqrt(V) (w
    + g (w^2 - 1) / 6)``.
    """
    from scipy.special import stdtrit

    t = statistic.contributions
    shift = skewness(t) / 6
    tail = float(stdtrit(statistic.degrees_of_freedom, (1.0 - level) / 2))
    ends = []
    for quantile in (tail, -tail):
        moved = shift + quantile
        w = shift + moved / (1.0 - shift * moved)
        ends.append(statistic.value + math.sqrt(_variance(t, statistic.stratum)) * (w + shift * (w * w - 1)))
    return ends[0], ends[1]


def influence_by_kind(func: Callable[..., float]) -> Influence:
    """Return the influence on a smooth statistic of columns with few distinct rows, like answers and labels.

    Equal episodes have equal influence: half the change from one of them less to one of them more.
    """

    def influence(*columns: FloatArray) -> FloatArray:
        code = np.zeros(len(columns[0]), dtype=np.int64)
        for column in columns:
            distinct, place = np.unique(column, return_inverse=True)
            code = code * len(distinct) + place
        _, first, kind = np.unique(code, return_index=True, return_inverse=True)
        more = [func(*(np.append(c, c[i]) for c in columns)) for i in first]
        less = [func(*(np.delete(c, i) for c in columns)) for i in first]
        return np.asarray((np.array(more) - np.array(less))[kind] / 2)

    return influence


def linearised_error(sample: Sample, value: float, influence: Influence) -> float | None:
    """Return the limit of the bootknife's standard error; ``None`` if there is none.

    ``V = sum_s n_s / (n_s - 1) sum_u (t_u - mean_s)^2`` over units u of stratum s, with ``t_u`` the summed
    influence of the unit's episodes. There is none if a few units dominate, or the statistic is undefined
    without one episode.
    """
    stratum = pool_lonely(sample.stratum)
    totals = sample.totals(influence(*sample.columns))
    deviations = totals - (np.bincount(stratum, weights=totals) / np.bincount(stratum))[stratum]
    if not np.all(np.isfinite(deviations)):
        return None
    # Without influence, what is left is only rounding.
    if np.max(np.abs(deviations)) * sample.units <= 1e-9 * max(abs(value), 1e-3):
        return 0.0
    return math.sqrt(_variance(deviations, stratum)) if is_spread_out(deviations) else None


def skewness(deviations: FloatArray) -> float:
    """Return ``sum t^3 / (sum t^2)^1.5``, the skewness of a sum of independent units."""
    t = deviations / np.max(np.abs(deviations))
    return float(np.sum(t**3) / np.sum(t**2) ** 1.5)


def _variance(deviations: FloatArray, stratum: IntArray) -> float:
    counts = np.bincount(stratum)
    return float(np.sum(counts / (counts - 1) * np.bincount(stratum, weights=deviations**2)))


def flipped_signs_p_value(totals: FloatArray, least: float) -> float:
    """Return the two-sided p-value of the sum under random signs, by its limit, at least ``least``.

    The sum of ``+-t`` has no odd cumulants and the fourth is ``-2 sum t^4``: ``P(|S| >= s) = 2 (1 - Phi(x) -
    k (x^3 - 3 x) phi(x) / 12)`` with ``k = sum t^4 / (sum t^2)^2``. No total is 0.
    """
    squares = totals**2
    x = abs(float(np.sum(totals))) / math.sqrt(float(np.sum(squares)))
    fourth = float(np.sum(squares**2) / np.sum(squares) ** 2)
    above = _upper_tail(x) - fourth * (x**3 - 3 * x) * _density(x) / 12
    return min(1.0, max(least, 2 * above))


def permutation_is_large(
    deviations: list[FloatArray], sizes: list[FloatArray], first: list[int], *, studentised: bool
) -> bool:
    """Return whether the limit applies to a studentised permutation within strata; each arm needs 30 units.

    ``deviations`` are from each stratum's mean; without studentising, the limit has no scale.
    """
    arms = [min(a, len(t) - a) for a, t in zip(first, deviations, strict=True)]
    n, units = sum(float(np.sum(s)) for s in sizes), sum(map(len, deviations))
    return (
        studentised
        and min(arms, default=0) >= _FEWEST_IN_AN_ARM
        and is_large(n, units)
        and is_spread_out(np.concatenate(deviations))
    )


def normal_p_value(statistic: float, least: float) -> float:
    """Return the two-sided p-value of a studentised statistic by the normal distribution, at least ``least``."""
    return min(1.0, max(least, 2 * _upper_tail(abs(statistic))))


def bootstrap_t_p_value(deviations: FloatArray, observed: float, least: float) -> float:
    """Return twice the smaller tail of the bootstrap-t beyond an observed t, by its limit.

    ``P(t* <= x) = Phi(x) + g (2 x^2 + 1) phi(x) / 6`` with ``g = sum t^3 / (sum t^2)^1.5`` of the units'
    contributions, centred within their strata.
    """
    term = skewness(deviations) * (2 * observed**2 + 1) * _density(observed) / 6
    below, above = _upper_tail(-observed) + term, _upper_tail(observed) - term
    return min(1.0, max(least, 2 * min(below, above)))


def _upper_tail(x: float) -> float:
    return 0.5 * math.erfc(x / math.sqrt(2))


def _density(x: float) -> float:
    return math.exp(-x * x / 2) / math.sqrt(2 * math.pi)
