"""Estimates of rates, means and any other statistic over episodes, each with its interval.

| statistic | episodes independent | episodes in clusters |
|---|---|---|
| rate | Wilson score, or Clopper-Pearson | Wilson score with the cluster-robust variance and t |
| mean | stratified BCa bootstrap | cluster-robust t |
| other | stratified BCa bootstrap | clustered BCa bootstrap |

Of 5,000 episodes or more, the BCa interval of a mean is computed without resampling, and so is the error of another
statistic whose influence is given; that of any other is of fewer resamples
(:mod:`stepscore.metrics.stats.large_samples`).
Where a sample is too small, or shows no variation, the ends are NaN and ``method`` states why.
How often each interval covers the truth is measured in docs/methods/intervals.md.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike

from stepscore.errors import OptionError
from stepscore.metrics.stats import bootstrap
from stepscore.metrics.stats.large_samples import (
    LARGE_RESAMPLES,
    Influence,
    cornish_fisher_bca,
    is_large,
    linear_is_large,
    linearised_error,
)
from stepscore.metrics.stats.rate_intervals import (
    NO_INTERVAL,
    check_level,
    clopper_pearson_interval,
    percent_of,
    score_interval,
    wilson_interval,
)
from stepscore.metrics.stats.sample import (
    GroupLabels,
    LinearStatistic,
    Sample,
    draw_sample,
    mean_of,
    pool_lonely,
)
from stepscore.metrics.success import CountStatistic
from stepscore.types import Estimate, FloatArray

MIN_CLUSTERS = 10
"""Fewest clusters whose spread gives an interval."""

MIN_EPISODES = 5
"""Fewest episodes for a bootstrap interval."""

MAX_UNDEFINED = 0.05
"""Largest share of resamples on which a statistic may be undefined."""


def rate_estimate(
    outcomes: ArrayLike,
    *,
    clusters: GroupLabels | None = None,
    strata: GroupLabels | None = None,
    method: Literal["wilson", "clopper-pearson"] = "wilson",
    level: float = 0.95,
) -> Estimate:
    """Estimate the share of episodes with outcome 1; NaN ends below 10 clusters.

    Args:
        outcomes: 0, 1, NaN (unknown) or booleans. Unknown ones count against coverage.
        clusters: A label per episode, e.g. its scene; episodes with the same stratum and label are not
            independent. With
        clusters of more than one episode the interval is cluster-robust, whatever the ``method``.
        strata: A label per episode, e.g. its task. Only used with clusters; without, the interval is
            conservative, since
        a mixture of rates varies less than one rate.
        method: For independent episodes: ``"wilson"`` covers ``level`` on average over rates,
            ``"clopper-pearson"`` at
        every rate.

    >>> rate_estimate([1, 1, 0, 1, float("nan")]).coverage
    0.8
    """
    if method not in ("wilson", "clopper-pearson"):
        raise OptionError(f"Unknown interval {method!r} for a rate. Valid: wilson, clopper-pearson.")
    percent = percent_of(level)
    sample = draw_sample(outcomes, clusters=clusters, strata=strata)
    values = sample.columns[0]
    if not np.all(np.isin(values, (0.0, 1.0))):
        raise OptionError("Outcomes must be 0, 1 or NaN; for other values use mean_estimate.")
    value = float(np.mean(values)) if sample.n else math.nan
    if sample.n and sample.clustered:
        note = too_small(sample)
        ends = NO_INTERVAL if note else robust_score_interval(mean_of(sample), sample.units, level)
        return _estimate(sample, value, ends, note or f"cluster-robust t {percent} (wilson score)")
    successes = int(np.sum(values))
    ends = (wilson_interval if method == "wilson" else clopper_pearson_interval)(successes, sample.n, level)
    return _estimate(sample, value, ends, f"{method} {percent}" if sample.n else "no known values")


def mean_estimate(
    values: ArrayLike,
    *,
    clusters: GroupLabels | None = None,
    strata: GroupLabels | None = None,
    level: float = 0.95,
    resamples: int | None = None,
    seed: int = 0,
) -> Estimate:
    """Estimate the mean over episodes.

    The ends are NaN below 10 clusters, below 5 independent episodes, and if all values are equal (which does
    not show how much others would differ).

    Args:
        values: A number or NaN (unknown) per episode. Values that are all 0 or 1 get a rate's interval.
        clusters: See :func:`rate_estimate`.
        strata: A label per episode, e.g. its task; differences between strata do not count as error.
        resamples: For independent episodes; 9,999 by default, fewer for more than 100 units.
        seed: The same values in any order and the same seed give the same interval.

    >>> mean_estimate([0.2, 0.4, 0.5]).method
    'too few episodes (3 < 5)'
    """
    check_level(level)
    sample = draw_sample(values, clusters=clusters, strata=strata)
    if sample.n == 0:
        return _estimate(sample, math.nan, NO_INTERVAL, "no known values")
    if np.all(np.isin(sample.columns[0], (0.0, 1.0))):
        return rate_estimate(values, clusters=clusters, strata=strata, level=level)
    mean = mean_of(sample)
    note = too_small(sample) or ("no variation" if mean.standard_error == 0 else "")
    if note:
        return _estimate(sample, mean.value, NO_INTERVAL, note)
    if sample.clustered:
        ends = robust_t_interval(mean, level)
        return _estimate(sample, mean.value, ends, f"cluster-robust t {percent_of(level)}")
    return _estimate(sample, mean.value, *linear_bca_interval(mean, level, resamples, seed))


def statistic_estimate(
    func: Callable[..., float],
    values: ArrayLike | tuple[ArrayLike, ...],
    *,
    clusters: GroupLabels | None = None,
    strata: GroupLabels | None = None,
    influence: Influence | None = None,
    of_counts: CountStatistic | None = None,
    level: float = 0.95,
    resamples: int = bootstrap.RESAMPLES,
    seed: int = 0,
) -> Estimate:
    """Estimate any statistic over episodes, by a BCa bootstrap that resamples episodes or their clusters.

    The ends are NaN below 10 clusters, below 5 independent episodes, without variation, and if the statistic
    is undefined on more than 5 % of the resamples (fewer are left out and counted in ``method``).

    Args:
        func: Takes one array per column and returns a number, NaN if undefined, independent of the order of
            episodes.
        values: One array, a tuple of arrays, or a 2-D array with a row per episode. Episodes with NaN in any
            column are
        left out and count against coverage.
        clusters: See :func:`rate_estimate`.
        influence: Takes the same columns and returns how much a smooth ``func`` changes with the weight of
            each episode,
        at weight 1: large samples use it instead of resampling.
        of_counts: For columns of answers and labels, 1 or 0: the same statistic from counts, for the same
            result sooner.

    >>> statistic_estimate(np.median, np.arange(20.0)).value
    9.5
    """
    check_level(level)
    sample = draw_sample(*_columns(values), clusters=clusters, strata=strata)
    if sample.n == 0:
        return _estimate(sample, math.nan, NO_INTERVAL, "no known values")
    value = float(func(*sample.columns))
    note = "undefined on this sample" if math.isnan(value) else too_small(sample)
    if note:
        return _estimate(sample, value, NO_INTERVAL, note)
    large = is_large(sample.n, sample.units)
    error = linearised_error(sample, value, influence) if large and influence is not None else None
    if error is not None:
        return _linearised_estimate(sample, value, error, level)
    resamples = min(resamples, LARGE_RESAMPLES) if large else resamples
    without = None
    if of_counts is not None:
        drawn, without = bootstrap.count_replicates(of_counts, sample, resamples, seed)
    else:
        drawn = bootstrap.statistic_replicates(func, sample, resamples, seed)
    replicates = drawn[np.isfinite(drawn)]
    undefined = resamples - len(replicates)
    if undefined > MAX_UNDEFINED * resamples:
        return _estimate(sample, value, NO_INTERVAL, f"undefined on {undefined} of {resamples} resamples")
    if np.ptp(replicates) <= 1e-12 * np.max(np.abs(replicates)):
        return _estimate(sample, value, NO_INTERVAL, "no variation")
    df = _degrees_of_freedom(sample)
    if large:
        return _estimate(sample, value, *_large_interval(value, replicates, df, level, seed, undefined))
    if without is None:
        acceleration = bootstrap.statistic_acceleration(func, sample)
    else:
        acceleration = bootstrap.acceleration_of(without, sample)
    ends = bootstrap.bca_interval(value, replicates, acceleration=acceleration, df=df, level=level)
    return _estimate(sample, value, *_bca_note(ends, level, resamples, seed, undefined))


def _degrees_of_freedom(sample: Sample) -> int:
    return sample.units - len(np.unique(pool_lonely(sample.stratum)))


def _linearised_estimate(sample: Sample, value: float, error: float, level: float) -> Estimate:
    """Return ``value +- t SE`` of a large sample with a standard error from its influence."""
    from scipy.special import stdtrit

    if not error:
        return _estimate(sample, value, NO_INTERVAL, "no variation")
    half = float(stdtrit(_degrees_of_freedom(sample), (1 + level) / 2)) * error
    method = f"linearised t {percent_of(level)} (no resampling)"
    return _estimate(sample, value, (value - half, value + half), method)


def _large_interval(
    value: float, replicates: FloatArray, df: int, level: float, seed: int, undefined: int
) -> tuple[tuple[float, float], str]:
    """Return ``value +- t SE`` with the standard error of a large sample's replicates, and its method."""
    from scipy.special import stdtrit

    half = float(stdtrit(df, (1 + level) / 2)) * float(np.std(replicates, ddof=1))
    # An end is t SE away, and the error of SE from B resamples is SE / sqrt(2 B).
    error = float(stdtrit(df, (1 + level) / 2)) / math.sqrt(2 * len(replicates))
    drawn = f"{len(replicates) + undefined} resamples{f', {undefined} undefined' if undefined else ''}, seed {seed}"
    return (value - half, value + half), (
        f"bootstrap t {percent_of(level)} ({drawn}; Monte Carlo error of an end {100 * error:.0f} % of SE)"
    )


def robust_t_interval(statistic: LinearStatistic, level: float) -> tuple[float, float]:
    """Return ``value +- t SE`` with the cluster-robust error and its degrees of freedom; NaN without an error."""
    from scipy.special import stdtrit

    error = statistic.standard_error
    if not error > 0:
        return NO_INTERVAL
    half = float(stdtrit(statistic.degrees_of_freedom, (1 + level) / 2)) * error
    return statistic.value - half, statistic.value + half


def robust_score_interval(statistic: LinearStatistic, least: float, level: float) -> tuple[float, float]:
    """Return Wilson's interval of a rate for ``p (1 - p) / SE^2`` episodes and a t quantile.

    The plain ``p +- t SE`` covers 91 % at a rate of 0.2 and 71 % at 0.05 in 20 correlated clusters; Wilson's
    form keeps the level much further out. ``least`` is the sample size for units without any difference:
    their number.
    """
    from scipy.special import stdtrit

    error, rate = statistic.standard_error, min(max(statistic.value, 0.0), 1.0)
    if math.isnan(error):
        return NO_INTERVAL
    effective = rate * (1 - rate) / error**2 if error > 0 else least
    return score_interval(rate, effective, float(stdtrit(statistic.degrees_of_freedom, (1 + level) / 2)))


def linear_bca_interval(
    statistic: LinearStatistic, level: float, resamples: int | None, seed: int
) -> tuple[tuple[float, float], str]:
    """Return the BCa interval of a mean or difference of means that varies, and its method."""
    resamples = resamples or bootstrap.resamples_of_mean(len(statistic.contributions))
    if linear_is_large(statistic):
        return cornish_fisher_bca(
            statistic, level
        ), f"BCa by Cornish-Fisher {percent_of(level)} (no resampling)"
    ends = bootstrap.bca_interval(
        statistic.value,
        bootstrap.linear_replicates(statistic, resamples, seed),
        acceleration=bootstrap.linear_acceleration(statistic),
        df=statistic.degrees_of_freedom,
        level=level,
    )
    return _bca_note(ends, level, resamples, seed)


def too_small(sample: Sample) -> str:
    """Return why a sample is too small for a bootstrap interval; else empty."""
    if sample.clustered and sample.units < MIN_CLUSTERS:
        return f"too few clusters ({sample.units} < {MIN_CLUSTERS})"
    if sample.n < MIN_EPISODES:
        return f"too few episodes ({sample.n} < {MIN_EPISODES})"
    return ""


def _bca_note(
    ends: tuple[float, float], level: float, resamples: int, seed: int, undefined: int = 0
) -> tuple[tuple[float, float], str]:
    if math.isnan(ends[0]):
        return ends, "the estimate lies outside its own resamples"  # stored name
    left_out = f", {undefined} undefined" if undefined else ""
    return ends, f"BCa bootstrap {percent_of(level)} ({resamples} resamples{left_out}, seed {seed})"


def _columns(values: ArrayLike | tuple[ArrayLike, ...]) -> tuple[ArrayLike, ...]:
    if isinstance(values, tuple):
        return values
    array = np.asarray(values, dtype=np.float64)
    return tuple(array.T) if array.ndim == 2 else (array,)


def _estimate(sample: Sample, value: float, ends: tuple[float, float], method: str) -> Estimate:
    return Estimate(value, *ends, n=sample.n, clusters=sample.units, coverage=sample.coverage, method=method)
