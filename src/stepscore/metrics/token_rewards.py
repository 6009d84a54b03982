"""TOPReward's formulas on log-probabilities of a token (arXiv 2602.19313).

All take one value per prefix, in order of time. An unknown value stays unknown and does not affect the
others' scaling.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from stepscore.errors import OptionError
from stepscore.metrics.validation import series
from stepscore.types import FloatArray

EPSILON = 1e-8
"""Keeps the scaling of a constant series defined; as in public re-implementations."""


def minmax(rewards: ArrayLike, epsilon: float = EPSILON) -> FloatArray:
    """Scale an episode to its own range: s_k = (r_k - min r) / (max r - min r + epsilon), equation 2.

    Every episode that changes, failed or not, runs from 0 to 1, so the level is lost. A constant series is 0
    (the published code, without epsilon, sets it to 1).
    """
    if epsilon <= 0:
        raise OptionError(f"epsilon must be above 0, got {epsilon}.")
    values = series(rewards, "rewards")
    if np.all(np.isnan(values)):
        return values.copy()
    low, high = np.nanmin(values), np.nanmax(values)
    return np.asarray((values - low) / (high - low + epsilon), dtype=np.float64)


def dense_reward(scaled: ArrayLike, *, tau: float = 2.0, delta_max: float = 2.0) -> FloatArray:
    """Return the weight of each prefix: w_k = clip(tau exp(s_k - s_{k-1}), 0, delta_max), equation 3.

    With the paper's tau = delta_max, every prefix that does not fall has the weight delta_max: only
    regressions differ. The first prefix has weight NaN.
    """
    if not (tau > 0 and delta_max > 0):
        raise OptionError(f"tau and delta_max must be above 0, got {tau} and {delta_max}.")
    change = np.diff(series(scaled, "scaled"), prepend=np.nan)
    return np.asarray(np.clip(tau * np.exp(change), 0.0, delta_max), dtype=np.float64)


def trailing_mean(values: ArrayLike, last: int = 3) -> FloatArray:
    """Return the mean over the ``last`` values up to each prefix; over fewer at the start.

    At the end of the episode it is the paper's success score, there of log P. One unknown value makes the
    mean unknown: a token whose log-probability a server omitted was improbable, and leaving it out would
    raise the mean of a failure.
    """
    if last < 1:
        raise OptionError(f"last must be at least 1, got {last}.")
    array = series(values, "values")
    windows = [array[max(0, end - last) : end] for end in range(1, len(array) + 1)]
    return np.array([window.mean() for window in windows], dtype=np.float64)
