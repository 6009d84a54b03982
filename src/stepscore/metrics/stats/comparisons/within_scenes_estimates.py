"""The mean or rate of one policy on a few fixed scenes: each scene counts by its trials, which are the sample."""

from __future__ import annotations

from dataclasses import replace

from numpy.typing import ArrayLike

from stepscore.metrics.stats.comparisons.within_scenes import these_scenes
from stepscore.metrics.stats.intervals import mean_estimate, robust_t_interval
from stepscore.metrics.stats.linear_statistic import mean_of
from stepscore.metrics.stats.rate_intervals import percent_of
from stepscore.metrics.stats.sample import GroupLabels, draw_sample, is_missing
from stepscore.metrics.stats.shares import share_estimate
from stepscore.types import Estimate


def estimate_within_scenes(
    values: ArrayLike,
    *,
    scenes: GroupLabels,
    shares: bool = False,
    level: float = 0.95,
    seed: int = 0,
) -> Estimate:
    """Estimate the mean over the trials on these scenes, each scene with the weight of its trials.

    - 0/1 outcomes: Wilson's interval of all trials. With rates ``p_s`` in scenes of ``n_s`` trials, the number of
      successes has the variance ``sum n_s p_s (1 - p_s) <= n p (1 - p)`` about ``n p = sum n_s p_s``, so the interval
      covers at least as often as for independent trials, for any numbers of trials.
    - Shares: the bootstrap-t of :func:`stepscore.metrics.stats.share_estimate` that resamples trials within scenes.
    - Other values: the hull of a BCa bootstrap that resamples trials within scenes and of ``mean +- t SE`` with the
      spread within scenes; the bootstrap alone is too narrow for two or three trials in each.

    Args:
        values: A number or NaN (unknown) per trial.
        scenes: A label per trial; those without one are taken for one further scene.
        shares: Whether values cannot leave 0..1, as progress.
        level: Nominal coverage.
        seed: Seed of the bootstrap.

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
