"""Comparison of pairs: one scene for two policies, one episode for two judges."""

from __future__ import annotations

from functools import partial

import numpy as np
from numpy.typing import ArrayLike

from stepscore.metrics.stats.comparison_result import (
    Comparison,
    bonett_price_interval,
    build_comparison,
    detectable_difference,
    detectable_rate_difference,
    difference_interval,
    paired_rates_error,
)
from stepscore.metrics.stats.intervals import too_small
from stepscore.metrics.stats.linear_statistic import LinearStatistic, mean_of
from stepscore.metrics.stats.rate_intervals import check_level
from stepscore.metrics.stats.sample import GroupLabels, Sample, draw_sample, stands_first
from stepscore.metrics.stats.significance import N_DRAWS, Significance, mcnemar_test, sign_flip_test
from stepscore.metrics.stats.studentised import T_DRAWS, bootstrap_t_test, decided, larger_p_value
from stepscore.types import FloatArray


def compare_paired(
    a: ArrayLike,
    b: ArrayLike,
    *,
    strata: GroupLabels | None = None,
    clusters: GroupLabels | None = None,
    level: float = 0.95,
    seed: int = 0,
) -> Comparison:
    """Compare A with B where ``a[i]`` and ``b[i]`` are a pair; a pair with an unknown value is left out.

    The difference is the mean of ``a - b``, with a BCa bootstrap interval, cluster-robust t when pairs come
    in clusters, or Bonett-Price for 0/1 outcomes. The p-value is the larger of two: flipped signs, a cluster's
    as one, which tests symmetry, and the bootstrap-t, which tests the mean; for 0/1 outcomes it is McNemar's.
    B against A gives the same with the signs reversed. The smallest detectable difference is
    ``(t_(1 - alpha/2) + t_0.8) SE`` with the error of the mean difference.

    Args:
        a: A number or NaN (unknown) per pair.
        b: The same for B.
        strata: A label per pair, e.g. its task.
        clusters: A label per pair; pairs of one stratum and label are not independent.
        level: Nominal coverage of the intervals.
        seed: Seed of resampling and of drawn sign patterns.

    >>> compare_paired([1, 1, 1, 0], [0, 0, 0, 0]).test
    'McNemar exact'
    """
    check_level(level)
    sample = draw_sample(a, b, strata=strata, clusters=clusters)
    reverse = draw_sample(b, a, strata=strata, clusters=clusters)
    if stands_first(sample, reverse):
        return _compare(sample, level, seed)
    return _compare(reverse, level, seed).swapped()


def _compare(sample: Sample, level: float, seed: int) -> Comparison:
    """Compare the sample's first column with its second."""
    gain = sample.columns[0] - sample.columns[1]
    mean = mean_of(sample, gain)
    withheld = too_small(sample)
    if sample.n and not sample.clustered and np.all(np.isin(sample.columns, (0.0, 1.0))):
        won, lost = int(np.sum(gain > 0)), int(np.sum(gain < 0))
        interval = bonett_price_interval(won, lost, sample.n, level)
        significance = mcnemar_test(won, lost)
        detectable = detectable_rate_difference(paired_rates_error(won, lost, sample.n), level)
    else:
        interval = difference_interval(mean, withheld, clustered=sample.clustered, level=level, seed=seed)
        significance = decided(partial(_test, sample, gain, mean, seed), sample.units)
        detectable = detectable_difference(mean.standard_error, mean.degrees_of_freedom, level)
    return build_comparison(
        (sample,),
        mean.value,
        interval,
        significance=significance,
        improvement=mean_of(sample, (np.sign(gain) + 1) / 2),
        detectable=detectable,
        withheld=withheld,
        level=level,
        # That of all signs alike, of which there are two.
        least_p_value=min(1.0, 2.0 ** (1 - sample.units)),
    )


def _test(sample: Sample, gain: FloatArray, mean: LinearStatistic, seed: int, times: int) -> Significance:
    """Return the larger p-value of flipped signs and the bootstrap-t, of ``times`` the usual draws."""
    totals, draws = sample.totals(gain), (N_DRAWS + 1) * times - 1
    flips = sign_flip_test(totals, episodes=sample.n, seed=seed, draws=draws)
    resampled = bootstrap_t_test(mean, seed=seed, draws=(T_DRAWS + 1) * times - 1)
    return larger_p_value(flips, resampled, sample.units)
