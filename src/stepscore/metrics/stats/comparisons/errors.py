"""Errors of a judge, and the difference of two policies' errors: means of -1, 0 and 1, of which most are 0.

An error is a difference of paired rates, by judge and by label over the same episodes. Few of the pairs differ, often
all the same way, so that a bootstrap, or the interval of a rate, excludes 0 after a single wrong answer. Bonett and
Price (2012) add one pair won and one pair lost to the sample. Here the same is done with clusters: one cluster
of mean size all +1, and one all -1. With ``G`` clusters, an error ``d`` and its cluster-robust variance ``V``,

    d~ = G d / (G + 2)    SE^2 = (G^2 V + 2) / (G + 2)^2    d~ +- t SE

with the degrees of freedom of ``V``. For clusters of unequal weight, ``G = 1 / sum_u share_u^2``. A difference of two
policies tests ``t = d~ / SE``, so that its interval excludes 0 exactly where ``p <= 1 - level``.
docs/methods/intervals.md has the coverage (``python -m benchmarks.tables.judge_errors``).
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike

from stepscore.metrics.stats.comparison_result import bonett_price_interval
from stepscore.metrics.stats.comparisons.comparison import compare_samples, in_pairs
from stepscore.metrics.stats.comparisons.unpaired import comparable_arms
from stepscore.metrics.stats.intervals import MIN_CLUSTERS, too_small
from stepscore.metrics.stats.rate_intervals import NO_INTERVAL, percent_of
from stepscore.metrics.stats.sample import (
    GroupLabels,
    LinearStatistic,
    Sample,
    difference_of,
    draw_sample,
    mean_of,
)
from stepscore.metrics.stats.significance import Significance
from stepscore.types import Estimate


def error_estimate(
    errors: ArrayLike,
    *,
    clusters: GroupLabels | None = None,
    strata: GroupLabels | None = None,
    level: float = 0.95,
) -> Estimate:
    """Estimate a judge's mean error over episodes, answer minus label; NaN ends below 10 clusters.

    Args:
        errors: -1 (missed), 0 (right), 1 (false alarm) or NaN (unknown) per episode.
        clusters: A label per episode, e.g. its scene; see :func:`stepscore.metrics.stats.rate_estimate`.
        strata: A label per episode, e.g. its task; only used with clusters.

    >>> error = error_estimate([1] + [0] * 24)
    >>> round(error.lo, 2), round(error.hi, 2)
    (-0.09, 0.16)
    """
    sample = draw_sample(errors, clusters=clusters, strata=strata)
    gaps = sample.columns[0]
    mean = mean_of(sample)
    ends, method = NO_INTERVAL, "no known values"
    if sample.n and not sample.clustered:
        ends, method = bonett_price_interval(int(np.sum(gaps > 0)), int(np.sum(gaps < 0)), sample.n, level)
    elif sample.n:
        method = too_small(sample) or f"clustered Bonett-Price {percent_of(level)}"
        if not too_small(sample):
            lo, hi = _ends(*_with_pseudo_units(mean), mean, level)
            ends = max(-1.0, lo), min(1.0, hi)
    return Estimate(mean.value, *ends, sample.n, sample.units, sample.coverage, method)


def compare_errors(
    a: ArrayLike,
    b: ArrayLike,
    *,
    keys: tuple[GroupLabels, GroupLabels],
    strata: tuple[GroupLabels, GroupLabels],
    clusters: tuple[GroupLabels, GroupLabels],
    of_answers: bool = True,
    level: float = 0.95,
) -> tuple[Estimate, Significance]:
    """Compare the errors of A with those of B: the difference, and a test that agrees with its interval.

    Pairs, strata and the difference are those of :func:`compare_samples`; so is the p-value if there is no
    interval (fewer than ten scenes that repeat, fewer than five episodes, or no variation).

    Args:
        a: A judge's error on each episode of A, NaN where unknown; ``b`` likewise.
        of_answers: Whether errors are of yes/no answers, -1, 0 or 1. Errors of a level, e.g. of progress,
            vary between
        episodes and get ``d +- t SE`` without units won and lost.
    """
    from scipy.special import stdtr

    percent = percent_of(level)
    pairs = in_pairs(a, b, keys=keys, strata=strata, clusters=clusters)
    if pairs is not None:
        sample = draw_sample(pairs.a, pairs.b, strata=pairs.strata, clusters=pairs.clusters)
        samples: tuple[Sample, ...] = (sample,)
        few = f"too few clusters ({sample.units} < {MIN_CLUSTERS})"
        note = few if pairs.repeated and sample.units < MIN_CLUSTERS else too_small(sample)
        parts = [mean_of(sample, sample.columns[0] - sample.columns[1])]
        whole = parts[0]
    else:
        arms = comparable_arms(a, b, strata, clusters)
        samples = (arms.a, arms.b)
        note = too_small(arms.a) or too_small(arms.b)
        parts = [arms.adjusted(arm, arm.columns[0]) for arm in samples]
        whole = difference_of(*parts)
    found = [_with_pseudo_units(p) if of_answers else (p.value, p.standard_error**2) for p in parts]
    value = found[0][0] - sum(other for other, _ in found[1:])
    variance = sum(part for _, part in found)
    if note or not variance > 0:
        ends, method = NO_INTERVAL, note or "no variation"
        compared = compare_samples(a, b, keys=keys, strata=strata, clusters=clusters)
        test = Significance(compared.p_value, compared.test, compared.caution)
    else:
        name = "clustered Bonett-Price" if of_answers else "robust t"
        ends, method = _ends(value, variance, whole, level), f"{name} {percent}"
        p = 2 * float(stdtr(whole.degrees_of_freedom, -abs(value) / math.sqrt(variance)))
        test = Significance(p, f"t test ({name})")
    n, total = sum(one.n for one in samples), sum(one.total for one in samples)
    units = sum(one.units for one in samples)
    return Estimate(whole.value, *ends, n, units, n / total if total else math.nan, method), test


def _with_pseudo_units(mean: LinearStatistic) -> tuple[float, float]:
    """Return a mean and its variance with two units of mean weight added, one all +1 and one all -1."""
    units = 1.0 / float(np.sum((mean.coefficients * mean.sizes) ** 2))
    return units * mean.value / (units + 2), (units**2 * mean.standard_error**2 + 2) / (units + 2) ** 2


def _ends(value: float, variance: float, statistic: LinearStatistic, level: float) -> tuple[float, float]:
    from scipy.special import stdtrit

    half = float(stdtrit(statistic.degrees_of_freedom, (1 + level) / 2)) * math.sqrt(variance)
    return value - half, value + half
