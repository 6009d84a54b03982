"""What resampling converges to, for samples so large that drawing would take minutes and show nothing more.

From 5,000 episodes in 1,000 independent units on, unless a few units carry the sum:

- The BCa interval of a mean is computed from the cumulants of its bootstrap distribution by the expansion of Cornish
  and Fisher (1938), as in the "approximate bootstrap" of DiCiccio and Efron (Statistical Science 11, 189-228, 1996):
  no draws. Its ends lie within 1 % of a standard error of those of infinitely many resamples; 2,000 resamples
  have a Monte Carlo error of 6 %.
- The p-values of flipped signs, permutations and the bootstrap-t are those of their limits, with the Edgeworth
  term that does not vanish for skewed or heavy-tailed data (Hall, "The Bootstrap and Edgeworth Expansion", 1992, 2.3,
  3.3; Chung and Romano 2013 for the permutation). As with draws, none is smaller than draws could show.
- Any other statistic has ``value +- t SE``. Where it is known how it changes with an episode's weight (its empirical
  influence; AUC, balanced accuracy, F1, MCC, kappa), SE is that of the sum of these, to which the error of resampling
  converges (Efron, "The Jackknife, the Bootstrap and Other Resampling Plans", 1982, 6.3): no draws. Else it is the
  standard error of 400 resamples, whose Monte Carlo error moves an end by 7 % of a standard error. No unit is left
  out in turn: that grows with the square of the sample.

Smaller samples are resampled as ever: no number of theirs depends on this module.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from stepscore.metrics.stats.sample import LinearStatistic, Sample, pool_lonely
from stepscore.types import FloatArray, IntArray

Influence = Callable[..., FloatArray]
"""Takes the columns of a statistic, and returns how much it changes with the weight of each episode, at weight 1."""

MANY_EPISODES = 5_000
MANY_UNITS = 1_000
"""Known episodes and independent units from which on a sample is large."""

LARGE_RESAMPLES = 400
"""Resamples of a large sample for the standard error of a statistic that is no mean."""

_MOST_CONCENTRATED = 0.01
_FEWEST_IN_AN_ARM = 30


def is_large(episodes: float, units: int) -> bool:
    """Return whether a sample is large enough for the limits of resampling."""
    return episodes >= MANY_EPISODES and units >= MANY_UNITS


def is_spread_out(deviations: FloatArray) -> bool:
    """Return whether no few units carry the sum: ``sum t^4 <= 0.01 (sum t^2)^2``, 3 / n for normal data."""
    squares = deviations**2
    return bool(np.sum(squares**2) <= _MOST_CONCENTRATED * np.sum(squares) ** 2)


def linear_is_large(statistic: LinearStatistic) -> bool:
    """Return whether the limits hold for a mean or a difference of means."""
    return is_large(float(np.sum(statistic.sizes)), len(statistic.sizes)) and is_spread_out(
        statistic.contributions
    )


def cornish_fisher_bca(statistic: LinearStatistic, level: float) -> tuple[float, float]:
    """Return the ends of the BCa interval of a mean without resampling.

    The bootknife's replicates have the variance ``V = sum_s n_s / (n_s - 1) sum t^2`` and the skewness
    ``g = sum t^3 / (sum t^2)^1.5``, so that ``z0 = a = g / 6``; the quantile of the replicates at ``Phi(w)`` is
    ``value + sqrt(V) (w + g (w^2 - 1) / 6)``.
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
    """Return the influence on a smooth statistic of columns with few distinct rows, as answers and labels have.

    Episodes of one kind have one influence: half the change from one of them less to one of them more.

    Args:
        func: Takes one array per column and returns a number.
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
    """Return the standard error to which that of the bootknife converges; ``None`` where the limit does not hold.

    ``V = sum_s n_s / (n_s - 1) sum_u (t_u - mean_s)^2`` over units u of stratum s, with ``t_u`` the summed influence
    of the unit's episodes. It does not hold where few units carry the sum, or where the statistic is undefined
    without one episode.
    """
    stratum = pool_lonely(sample.stratum)
    totals = sample.totals(influence(*sample.columns))
    deviations = totals - (np.bincount(stratum, weights=totals) / np.bincount(stratum))[stratum]
    if not np.all(np.isfinite(deviations)):
        return None
    # What rounding leaves of no influence at all is no spread.
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
    """Return the two-sided p-value of the sum under random signs, by its limit.

    The sum of ``+-t`` has no odd cumulants and the fourth is ``-2 sum t^4``:
    ``P(|S| >= s) = 2 (1 - Phi(x) - k (x^3 - 3 x) phi(x) / 12)`` with ``k = sum t^4 / (sum t^2)^2``.

    Args:
        totals: The differences, none of them 0.
    """
    squares = totals**2
    x = abs(float(np.sum(totals))) / math.sqrt(float(np.sum(squares)))
    fourth = float(np.sum(squares**2) / np.sum(squares) ** 2)
    above = _upper_tail(x) - fourth * (x**3 - 3 * x) * _density(x) / 12
    return min(1.0, max(least, 2 * above))


def permutation_is_large(
    deviations: list[FloatArray], sizes: list[FloatArray], first: list[int], *, studentised: bool
) -> bool:
    """Return whether the limit holds for a studentised permutation within strata.

    Args:
        deviations: Of each stratum, its units' deviations from the stratum's mean.
        first: Units of the first arm in each stratum; either arm needs 30.
        studentised: Whether the statistic is divided by its standard error, without which the limit has no scale.
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

    ``P(t* <= x) = Phi(x) + g (2 x^2 + 1) phi(x) / 6`` with ``g = sum t^3 / (sum t^2)^1.5``.

    Args:
        deviations: The units' contributions, centred within their strata.
    """
    term = skewness(deviations) * (2 * observed**2 + 1) * _density(observed) / 6
    below, above = _upper_tail(-observed) + term, _upper_tail(observed) - term
    return min(1.0, max(least, 2 * min(below, above)))


def _upper_tail(x: float) -> float:
    return 0.5 * math.erfc(x / math.sqrt(2))


def _density(x: float) -> float:
    return math.exp(-x * x / 2) / math.sqrt(2 * math.pi)
