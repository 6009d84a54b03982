"""Means of values limited to 0..1, like progress and the OPD metrics: often 0 or 1, else skewed.

On ten episodes or scenes, a BCa bootstrap and ``mean +- t SE`` are too narrow on the side of the tail. The
bootstrap-t takes the skewness from the data (:mod:`stepscore.metrics.stats.studentised`), but on few units
has resamples without spread, and unbounded ends. Two bounds fix both: nothing in 0..1 varies more than a rate
of the same mean, so the interval is no wider than Wilson's for that rate; strata of two units show no
skewness, so it is no narrower than Wilson's form for the observed error. docs/methods/intervals.md has the
coverage (``python -m benchmarks.tables.small_samples``).
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from stepscore.metrics.stats.bootstrap import resamples_of_mean
from stepscore.metrics.stats.intervals import mean_estimate, robust_score_interval, too_small
from stepscore.metrics.stats.large_samples import MANY_UNITS
from stepscore.metrics.stats.rate_intervals import percent_of, score_interval
from stepscore.metrics.stats.sample import GroupLabels, LinearStatistic, draw_sample, mean_of
from stepscore.metrics.stats.studentised import bootstrap_t_interval
from stepscore.types import Estimate


def share_estimate(
    values: ArrayLike,
    *,
    clusters: GroupLabels | None = None,
    strata: GroupLabels | None = None,
    level: float = 0.95,
    seed: int = 0,
) -> Estimate:
    """Estimate the mean over episodes of values limited to 0..1.

    From 1,000 independent units, where skewness no longer matters, and for values outside 0..1 (an
    uncalibrated channel), it is :func:`mean_estimate`, which also decides when the ends are NaN.

    >>> drops = share_estimate([0, 0, 0.02, 0, 0.31, 0, 0.05, 0, 0.12, 0])
    >>> f"{drops.value:.2f} [{drops.lo:.2f}, {drops.hi:.2f}]"
    '0.05 [0.00, 0.40]'
    """
    sample = draw_sample(values, clusters=clusters, strata=strata)
    known, mean = sample.columns[0], mean_of(sample)
    plain = too_small(sample) or sample.units >= MANY_UNITS or not mean.standard_error > 0
    if plain or np.any((known < 0) | (known > 1)) or np.all(np.isin(known, (0.0, 1.0))):
        return mean_estimate(values, clusters=clusters, strata=strata, level=level, seed=seed)
    draws = resamples_of_mean(sample.units)
    lo, hi = share_interval(mean, level, seed, draws)
    method = f"bootstrap-t {percent_of(level)} ({draws} draws, seed {seed}) in 0..1"
    return Estimate(mean.value, lo, hi, sample.n, sample.units, sample.coverage, method)


def share_interval(mean: LinearStatistic, level: float, seed: int, draws: int) -> tuple[float, float]:
    """Return the bootstrap-t interval, no wider than a rate's of that mean and no narrower than Wilson's form."""
    from scipy.special import stdtrit

    units = 1.0 / float(np.sum((mean.coefficients * mean.sizes) ** 2))
    quantile = float(stdtrit(mean.degrees_of_freedom, (1 + level) / 2))
    widest = score_interval(mean.value, units, quantile)
    least = robust_score_interval(mean, units, level)
    lo, hi = bootstrap_t_interval(mean, level, seed=seed, draws=draws)
    return min(least[0], max(lo, widest[0])), max(least[1], min(hi, widest[1]))
