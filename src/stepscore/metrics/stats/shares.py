"""Means of values that cannot leave 0..1, as progress and the OPD metrics: often 0 or 1, else skewed.

On ten episodes, or ten scenes, a BCa bootstrap and ``mean +- t SE`` are too narrow on the side of the tail. The
bootstrap-t takes the skewness of t from the data (:mod:`stepscore.metrics.stats.studentised`), but on few units has
resamples without spread, and ends without bound. What is known of the values puts both right: nothing in 0..1 varies
more than a rate of the same mean, so the interval ends where Wilson's for that rate does. Strata of two units show no
skewness, so it is never narrower than Wilson's form for the observed error, which leans as values in 0..1 do.
docs/methods/intervals.md has the coverage (``python -m benchmarks.tables.small_samples``).
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
    """Estimate the mean over episodes of values that cannot leave 0..1.

    From 1,000 independent units on, skewness no longer shows, and the interval is that of :func:`mean_estimate`; so
    it is where a value lies outside 0..1 after all, as on an uncalibrated channel.

    Args:
        values: A number in 0..1 or NaN (unknown) per episode.
        clusters: A label per episode; see :func:`rate_estimate`.
        seed: Seed of the bootstrap; the same values in any order and the same seed give the same interval.

    Returns:
        The estimate; NaN ends where :func:`mean_estimate` has none.

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
    """Return the bootstrap-t interval, no wider than a rate's of that mean and no narrower than Wilson's form.

    Args:
        mean: A mean of values in 0..1 that vary.
    """
    from scipy.special import stdtrit

    units = 1.0 / float(np.sum((mean.coefficients * mean.sizes) ** 2))
    quantile = float(stdtrit(mean.degrees_of_freedom, (1 + level) / 2))
    widest = score_interval(mean.value, units, quantile)
    least = robust_score_interval(mean, units, level)
    lo, hi = bootstrap_t_interval(mean, level, seed=seed, draws=draws)
    return min(least[0], max(lo, widest[0])), max(least[1], min(hi, widest[1]))
