"""Bias-corrected and accelerated (BCa) bootstrap, stratified and clustered, seeded.

Three choices keep its level on the small samples of robot evaluation:

- *Bootknife* resampling: in every stratum a random unit is left out, and the original number is drawn with
  replacement from the rest. Replicates of a mean then have its unbiased variance; the plain bootstrap is too
  narrow by (n - 1) / n per stratum, a half for two episodes a task (Hesterberg, "Unbiasing the Bootstrap",
  2004).
- The end points of BCa (Efron 1987) use quantiles of Student's t instead of the normal's, because the spread
  is itself estimated (Hesterberg, The American Statistician 69, 371-386, 2015).
- The acceleration is that of a stratified sample (Davison and Hinkley, "Bootstrap Methods", 1997, 5.3.2).

docs/methods/intervals.md has the coverage of this and of a plain BCa bootstrap.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from stepscore.metrics.stats.sample import LinearStatistic, Sample, pool_lonely
from stepscore.metrics.success import CountStatistic
from stepscore.types import FloatArray, IntArray

RESAMPLES = 2000
"""Resamples of a statistic: the Monte Carlo error of an interval's end is 6 % of a standard error."""

_MORE_RESAMPLES, _MORE_DRAWS = 9_999, 1_000_000
_MAX_DRAWS_PER_BATCH = 1_000_000  # drawn units, so that memory does not grow with the sample


def resample_units(stratum: IntArray, resamples: int, rng: np.random.Generator) -> IntArray:
    """Draw unit indices by the bootknife, shape (resamples, units); strata have two or more units each."""
    parts = []
    for code in range(int(stratum.max(initial=-1)) + 1):
        members = np.flatnonzero(stratum == code)
        left_out = rng.integers(0, len(members), size=(resamples, 1))
        drawn = rng.integers(0, len(members) - 1, size=(resamples, len(members)))
        parts.append(members[drawn + (drawn >= left_out)])
    return np.concatenate(parts, axis=1)


def batches(resamples: int, units: int) -> list[int]:
    """Split ``resamples`` into parts of about a million drawn units."""
    size = max(1, _MAX_DRAWS_PER_BATCH // max(units, 1))
    return [min(size, resamples - start) for start in range(0, resamples, size)]


def resamples_of_mean(units: int) -> int:
    """Return how often to resample a mean: up to 9,999 times, in at most the time of 2,000 times 500 units.

    >>> [resamples_of_mean(units) for units in (20, 200, 5000)]
    [9999, 5000, 2000]
    """
    return min(_MORE_RESAMPLES, max(RESAMPLES, _MORE_DRAWS // units))


def linear_replicates(statistic: LinearStatistic, resamples: int, seed: int) -> FloatArray:
    """Draw bootstrap replicates of a mean or a difference of means."""
    rng = np.random.default_rng(seed)
    return np.concatenate(
        [
            statistic.value
            + statistic.contributions[resample_units(statistic.stratum, size, rng)].sum(axis=1)
            for size in batches(resamples, len(statistic.contributions))
        ]
    )


def linear_acceleration(statistic: LinearStatistic) -> float:
    """Return the acceleration of a linear statistic, ``sum t^3 / (6 (sum t^2)^1.5)`` over unit contributions."""
    t = statistic.contributions / np.max(np.abs(statistic.contributions))
    return float(np.sum(t**3) / (6.0 * np.sum(t**2) ** 1.5))


def statistic_replicates(func: Callable[..., float], sample: Sample, resamples: int, seed: int) -> FloatArray:
    """Draw bootstrap replicates of ``func(*columns)``; NaN if it is undefined on a resample."""
    rng = np.random.default_rng(seed)
    stratum = pool_lonely(sample.stratum)
    replicates = []
    for size in batches(resamples, sample.units):
        for units in resample_units(stratum, size, rng):
            rows = rows_of(sample, units)
            replicates.append(float(func(*(column[rows] for column in sample.columns))))
    return np.array(replicates)


def count_replicates(
    statistic: CountStatistic, sample: Sample, resamples: int, seed: int
) -> tuple[FloatArray, FloatArray]:
    """Return the replicates of :func:`statistic_replicates` for answers, and the value without each unit.

    Every unit is counted once, and the counts of drawn units are added up, which is faster.
    """
    answers, labels = (column.astype(np.int64) for column in sample.columns)
    kind = 2 * (1 - answers) + (1 - labels)  # in the order of counts: tp, fp, fn, tn
    counts = np.bincount(4 * sample.unit + kind, minlength=4 * sample.units).reshape(-1, 4).astype(np.float64)
    rng, stratum = np.random.default_rng(seed), pool_lonely(sample.stratum)
    drawn = [
        counts[resample_units(stratum, size, rng)].sum(axis=1) for size in batches(resamples, sample.units)
    ]
    without = counts.sum(axis=0) - counts
    return statistic(*np.concatenate(drawn).T), statistic(*without.T)


def rows_of(sample: Sample, units: IntArray) -> IntArray:
    """Return the row indices of the episodes in ``units``, which may repeat."""
    if not sample.clustered:
        return units
    sizes = sample.sizes
    first = np.cumsum(sizes) - sizes
    lengths = sizes[units]
    ends = np.cumsum(lengths)
    return np.repeat(first[units] - (ends - lengths), lengths) + np.arange(ends[-1])


def statistic_acceleration(func: Callable[..., float], sample: Sample) -> float:
    """Return the acceleration from leaving each unit out in turn; see :func:`acceleration_of`."""
    everyone = np.arange(sample.units)
    without = [
        float(func(*(column[rows_of(sample, np.delete(everyone, unit))] for column in sample.columns)))
        for unit in everyone
    ]
    return acceleration_of(np.array(without), sample)


def acceleration_of(without: FloatArray, sample: Sample) -> float:
    """Return the acceleration of a statistic from its values without each unit; 0 if undefined.

    ``a = sum_s n_s^-3 sum_j l_sj^3 / (6 (sum_s n_s^-2 sum_j l_sj^2)^1.5)`` with ``l_sj = (n_s - 1)(mean_s -
    theta_(-sj))``. With 0, the interval is only bias-corrected.
    """
    stratum = pool_lonely(sample.stratum)
    counts = np.bincount(stratum)
    means = np.bincount(stratum, weights=without) / counts
    weight = (counts[stratum] - 1) / counts[stratum]
    influence = weight * (means[stratum] - without)
    spread = float(np.sum(influence**2))
    if not spread > 0:
        return 0.0
    return float(np.sum(influence**3) / (6.0 * spread**1.5))


def bca_interval(
    value: float, replicates: FloatArray, *, acceleration: float, df: float, level: float
) -> tuple[float, float]:
    """Return the ends of the BCa interval; NaN if the estimate is outside all of its replicates.

    ``z0 = Phi^-1(share of replicates below the estimate, ties half)``, and each end is the quantile at
    ``Phi(z0 + (z0 + q) / (1 - a (z0 + q)))`` with ``a`` the acceleration and ``q`` the level's t quantile for
    ``df`` degrees of freedom, usually units minus strata.
    """
    from scipy.special import ndtr, ndtri, stdtrit

    # Replicates of a linear statistic reach the estimate by another order of additions.
    tolerance = 1e-12 * max(abs(value), float(np.max(np.abs(replicates))))
    below = float(np.mean(replicates < value - tolerance))
    ties = float(np.mean(np.abs(replicates - value) <= tolerance))
    z0 = float(ndtri(below + ties / 2))
    if not math.isfinite(z0):
        return math.nan, math.nan
    tail = (1.0 - level) / 2
    shifted = z0 + np.array([stdtrit(df, tail), -stdtrit(df, tail)])
    room = 1.0 - acceleration * shifted
    # Past room = 0 the correction has left the sample: that end is the last replicate.
    ends = np.where(room > 0, z0 + shifted / np.where(room > 0, room, 1.0), np.copysign(np.inf, shifted))
    lo, hi = np.quantile(replicates, ndtr(ends))
    return float(lo), float(hi)
