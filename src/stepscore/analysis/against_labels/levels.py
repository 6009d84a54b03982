"""The mean of what is a level in 0..1 and no answer of yes or no."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np

from stepscore.metrics.stats import mean_estimate
from stepscore.types import Estimate, FloatArray


def level_estimate(values: FloatArray, groups: dict[str, Any]) -> Estimate:
    """Estimate a mean; levels that are all 0, or all 1, do not vary, where as answers they would be a rate.

    Args:
        values: A number or NaN of each episode.
        groups: Clusters and strata, as in :func:`stepscore.metrics.stats.mean_estimate`.
    """
    estimate, known = mean_estimate(values, **groups), values[~np.isnan(values)]
    if len(known) and not np.ptp(known):
        return replace(estimate, lo=math.nan, hi=math.nan, method="no variation")
    return estimate
