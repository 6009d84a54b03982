"""Comparisons and estimates on a few fixed scenes, each tried several times.

A few scenes show little of how scenes differ, so results are only about these scenes. There the trials are
the sample: scenes are strata, within which policies are permuted and trials resampled.
"""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
from numpy.typing import ArrayLike

from stepscore.metrics.stats.comparison_result import POWER, Comparison, Interval, build_comparison
from stepscore.metrics.stats.comparisons.unpaired import Arms, comparable_arms, improvement_of
from stepscore.metrics.stats.comparisons.within_scenes_means import ShiftedPermutation, hull, larger
from stepscore.metrics.stats.comparisons.within_scenes_rates import RatesWithinScenes
from stepscore.metrics.stats.intervals import MIN_EPISODES, mean_estimate, robust_t_interval, too_small
from stepscore.metrics.stats.large_samples import MANY_EPISODES
from stepscore.metrics.stats.rate_intervals import NO_INTERVAL, check_level, percent_of
from stepscore.metrics.stats.sample import (
    GroupLabels,
    LinearStatistic,
    difference_of,
    draw_sample,
    is_missing,
    mean_of,
    stands_first,
)
from stepscore.metrics.stats.shares import share_estimate
from stepscore.metrics.stats.significance import Significance
from stepscore.metrics.stats.studentised import bootstrap_t_interval, bootstrap_t_test
from stepscore.types import Estimate, FloatArray

FEWEST_SCENES = 10
"""Fewest scenes to generalise to others; fewer are fixed if they have several trials."""


def these_scenes(n: int) -> str:
    """Return a phrase for fixed scenes.

    >>> these_scenes(4)
    'on these 4 scenes'
    """
    return "on this scene" if n == 1 else f"on these {n} scenes"


def compare_within_scenes(
    a: ArrayLike,
    b: ArrayLike,
    *,
    scenes: tuple[GroupLabels, GroupLabels],
    level: float = 0.95,
    seed: int = 0,
) -> Comparison:
    """Compare A with B on the scenes that both met, as fixed strata with any numbers of trials.

    The difference is the mean over scenes of A's mean minus B's, with weights ``n_a n_b / (n_a + n_b)``; with
    equal numbers of trials in every scene it is the difference of their overall means. The interval excludes
    0 exactly if ``p < 1 - level``:

    - 0/1 outcomes: the exact test that permutes the policies within scenes, with a stratified score interval.
    - Other values: the larger p-value of a studentised permutation within scenes and a bootstrap-t that
      resamples trials within scenes, with the hull of their intervals.

    B against A gives the same with the signs reversed.

    Args:
        scenes: A label per trial of each arm; trials without one, or of a scene that only one arm met, are
            left out and
        count against coverage.

    >>> result = compare_within_scenes([1, 1, 1, 1], [0, 0, 0, 1], scenes=("xxyy", "xxyy"))
    >>> result.test, result.difference.method
    ('exact permutation within scenes', 'stratified score 95% on these 2 scenes')
    """
    check_level(level)
    arms = comparable_arms(_known(a, scenes[0]), _known(b, scenes[1]), strata=scenes)
    if stands_first(arms.a, arms.b):
        return _compare(arms, level, seed)
    return _compare(Arms(arms.b, arms.a, arms.weights), level, seed).swapped()


def _known(values: ArrayLike, scenes: GroupLabels) -> FloatArray:
    """Return the values, NaN where a trial has no scene."""
    missing = np.array([is_missing(scene) for scene in scenes], dtype=bool)
    array = np.asarray(values, dtype=np.float64)
    # Labels of another length are refused where they are coded.
    return np.where(missing, math.nan, array) if missing.shape == array.shape else array


def _compare(arms: Arms, level: float, seed: int) -> Comparison:
    if not len(arms.weights):
        return _nothing(arms, level)
    return _of_rates(arms, level) if arms.binary else _of_means(arms, level, seed)


def _of_rates(arms: Arms, level: float) -> Comparison:
    counts = [
        (np.bincount(arm.stratum[arm.unit], weights=arm.columns[0]), np.bincount(arm.stratum[arm.unit]))
        for arm in (arms.a, arms.b)
    ]
    (won_a, tried_a), (won_b, tried_b) = ((won.astype(np.int64), tried) for won, tried in counts)
    rates = RatesWithinScenes(won_a, tried_a, won_b, tried_b)
    scenes = these_scenes(len(arms.weights))
    ends = rates.interval(level)
    return build_comparison(
        (arms.a, arms.b),
        rates.difference,
        (ends, f"stratified score {percent_of(level)} {scenes}"),
        significance=rates.test(),
        # Of 0/1 outcomes, P(A > B) + P(A = B) / 2 is (1 + difference) / 2, and so are the ends.
        improvement=(
            (1 + rates.difference) / 2,
            (((1 + ends[0]) / 2, (1 + ends[1]) / 2), f"stratified score {percent_of(level)} {scenes}"),
        ),
        detectable=rates.smallest_detectable(level, POWER),
        withheld="",
        level=level,
        scenes=len(arms.weights),
        least_p_value=rates.least_p_value(),
    )


def _of_means(arms: Arms, level: float, seed: int) -> Comparison:
    mean_a, mean_b = arms.adjusted(arms.a, arms.a.columns[0]), arms.adjusted(arms.b, arms.b.columns[0])
    difference = difference_of(mean_a, mean_b)
    scenes = these_scenes(len(arms.weights))
    withheld = too_small(arms.a) or too_small(arms.b)
    if arms.a.n + arms.b.n >= MANY_EPISODES:
        interval, significance = _by_limit(difference, level)
    else:
        interval, significance = _by_resampling(arms, difference, level, seed)
    (lo, hi), method = interval
    return build_comparison(
        (arms.a, arms.b),
        difference.value,
        ((lo, hi), f"{method} {scenes}"),
        significance=significance,
        improvement=improvement_of(arms),
        detectable=_detectable(difference, (lo, hi)),
        withheld=withheld,
        level=level,
        scenes=len(arms.weights),
        least_p_value=_least_p_value(arms),
    )


def _by_resampling(
    arms: Arms, difference: LinearStatistic, level: float, seed: int
) -> tuple[Interval, Significance]:
    values = [
        tuple(arm.columns[0][arm.stratum[arm.unit] == code] for arm in (arms.a, arms.b))
        for code in range(len(arms.weights))
    ]
    permuted = ShiftedPermutation.of([(one, other) for one, other in values], seed)
    exact = Significance(permuted.p_value(), permuted.name)
    significance = larger(exact, bootstrap_t_test(difference, seed=seed))
    error = difference.standard_error
    if not error > 0:
        return (NO_INTERVAL, "no variation"), significance
    if min(arms.a.n, arms.b.n) < MIN_EPISODES:
        return (NO_INTERVAL, f"too few episodes ({min(arms.a.n, arms.b.n)} < {MIN_EPISODES})"), significance
    drawn = bootstrap_t_interval(difference, level, seed=seed)
    ends = hull(difference.value, permuted.interval(difference.value, error, level), drawn)
    if math.isnan(ends[0]):
        return (ends, "too few different trials for an interval"), significance
    return (ends, f"permutation and bootstrap-t {percent_of(level)}"), significance


def _by_limit(difference: LinearStatistic, level: float) -> tuple[Interval, Significance]:
    """Return ``difference +- z SE`` and the p-value of the same z, to which the draws converge."""
    from scipy.special import ndtri

    error = difference.standard_error
    if not error > 0:
        return (NO_INTERVAL, "no variation"), Significance(math.nan, "z within scenes (no variation)")
    half = float(ndtri((1 + level) / 2)) * error
    p = math.erfc(abs(difference.value) / error / math.sqrt(2))
    ends = (difference.value - half, difference.value + half)
    return (ends, f"z {percent_of(level)}"), Significance(p, "z within scenes (limit)")


def _detectable(difference: LinearStatistic, ends: tuple[float, float]) -> float:
    """Return the half width of the interval, beyond which the test rejects, and ``t_power`` standard errors."""
    from scipy.special import stdtrit

    half, error = (ends[1] - ends[0]) / 2, difference.standard_error
    if not (half > 0 and error > 0):
        return math.nan
    return half + float(stdtrit(difference.degrees_of_freedom, POWER)) * error


def _least_p_value(arms: Arms) -> float:
    """Return the smallest p-value that permuting within scenes can give: that of the most extreme arrangements."""
    n, m = (np.bincount(arm.stratum[arm.unit]).tolist() for arm in (arms.a, arms.b))
    ways = math.prod(math.comb(i + j, i) for i, j in zip(n, m, strict=True))
    return (2 if n == m else 1) / ways


def _nothing(arms: Arms, level: float) -> Comparison:
    why = "no scene that both met"
    return build_comparison(
        (arms.a, arms.b),
        math.nan,
        (NO_INTERVAL, why),
        significance=Significance(math.nan, f"none ({why})"),
        improvement=(math.nan, (NO_INTERVAL, why)),
        detectable=math.nan,
        withheld=why,
        level=level,
    )


def estimate_within_scenes(
    values: ArrayLike,
    *,
    scenes: GroupLabels,
    shares: bool = False,
    level: float = 0.95,
    seed: int = 0,
) -> Estimate:
    """Estimate the mean over the trials on these scenes, each scene weighted by its trials.

    - 0/1 outcomes: Wilson's interval of all trials. With rates ``p_s`` in scenes of ``n_s`` trials, the
      successes have the variance ``sum n_s p_s (1 - p_s) <= n p (1 - p)`` about ``n p = sum n_s p_s``, so it
      covers at least as often as for independent trials.
    - Shares: the bootstrap-t of :func:`stepscore.metrics.stats.share_estimate`, resampling trials within
      scenes.
    - Other values: the hull of a BCa bootstrap within scenes and of ``mean +- t SE`` with the spread within
      scenes; with two or three trials per scene, the bootstrap is too narrow.

    Args:
        scenes: A label per trial; trials without one count as another scene.
        shares: Whether values are limited to 0..1, like progress.

    >>> estimate_within_scenes([1, 1, 1, 0, 1, 1], scenes="xxxyyy").method
    'wilson 95% on these 2 scenes'
    """
    sample = draw_sample(values, strata=scenes)
    found = (share_estimate if shares else mean_estimate)(values, strata=scenes, level=level, seed=seed)
    known = {scene for scene, value in zip(scenes, values, strict=True) if value == value}  # type: ignore[arg-type]
    where = these_scenes(len(known - {scene for scene in known if is_missing(scene)}))
    if found.method.startswith("BCa"):
        lo, hi = robust_t_interval(mean_of(sample), level)
        method = f"BCa bootstrap and t {percent_of(level)}"
        found = replace(found, lo=min(found.lo, lo), hi=max(found.hi, hi), method=method)
    return replace(found, method=f"{found.method} {where}") if found.n else found
