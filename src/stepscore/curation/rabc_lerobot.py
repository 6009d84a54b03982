"""RA-BC as LeRobot computes it.

Reward-aligned behaviour cloning weights a frame by the progress gained over the policy's next action chunk: SARM
(arXiv 2509.25358), equations 8 and 9. Progress is one array over all frames; ``starts`` holds the row of each
episode's first frame, and after them the number of rows.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from stepscore.errors import OptionError
from stepscore.types import FloatArray, IntArray

KAPPA, EPSILON, FALLBACK_WEIGHT = 0.01, 1e-6, 1.0
"""LeRobot's defaults: gain from which a frame counts in full, guard of divisions, weight of an unknown frame."""


@dataclass(frozen=True)
class LerobotRabcWeights:
    """Weights as LeRobot computes them, before it scales each batch to mean 1.

    Attributes:
        weights: One weight per frame, 0..1; NaN if the gain is unknown (LeRobot uses its fallback weight).
        gains: Change of progress over the chunk; NaN if unknown.
        mean: Mean gain of all frames, at least 0.
        deviation: Their standard deviation, at least epsilon.
    """

    weights: FloatArray
    gains: FloatArray
    mean: float
    deviation: float


def check_chunk(chunk_size: int) -> None:
    """Raise OptionError unless the chunk has at least one action."""
    if chunk_size < 1:
        raise OptionError(
            f"chunk_size must be at least 1, got {chunk_size}. It is the policy's number of actions."
        )


def ends_of(starts: IntArray) -> IntArray:
    """Return the row of the last frame of each row's episode."""
    return np.repeat(starts[1:] - 1, np.diff(starts))


def lerobot_gains(progress: FloatArray, starts: IntArray, chunk_size: int) -> FloatArray:
    """Return r_i = p[min(i + chunk_size, last frame)] - p[i]; NaN if either is unknown."""
    check_chunk(chunk_size)
    rows = np.arange(len(progress))
    return np.asarray(progress[np.minimum(rows + chunk_size, ends_of(starts))] - progress, dtype=np.float64)


def lerobot_rabc_weights(
    progress: FloatArray,
    starts: IntArray,
    *,
    chunk_size: int,
    kappa: float = KAPPA,
    epsilon: float = EPSILON,
) -> LerobotRabcWeights:
    """Return RA-BC weights exactly as LeRobot's ``RABCWeights`` computes them from a progress file (0.4.4 to 0.6.2).

    With mu = max(mean r, 0) and sigma = max(std r, epsilon) over all frames of the file::

        w_i = 1                                                           if r_i > kappa
        w_i = clip((r_i - (mu - 2 sigma)) / (4 sigma + epsilon), 0, 1)    if 0 <= r_i <= kappa
        w_i = 0                                                           if r_i < 0

    Progress is rounded to float32 first, as the file holds it, and so are the gains, as LeRobot holds them.

    Args:
        progress: Progress of every frame; NaN for unknown.
        starts: Row of each episode's first frame, and the number of rows.
        chunk_size: The policy's ``chunk_size``, in frames.
        kappa: Gain from which a frame counts in full.
        epsilon: Added to denominators, and the smallest deviation.
    """
    if not (epsilon > 0 and np.isfinite(kappa)):
        raise OptionError(f"kappa must be finite and epsilon above 0, got {kappa} and {epsilon}.")
    stored = progress.astype(np.float32).astype(np.float64)
    exact = lerobot_gains(stored, starts, chunk_size)
    known = exact[~np.isnan(exact)]
    mean = max(float(np.mean(known)), 0.0) if len(known) else 0.0
    deviation = max(float(np.std(known)), epsilon) if len(known) else epsilon
    gains = exact.astype(np.float32)
    soft = np.clip((gains - (mean - 2 * deviation)) / (4 * deviation + epsilon), 0.0, 1.0)
    weights = np.where(gains > np.float32(kappa), 1.0, np.where(gains >= 0, soft, 0.0))
    weights[np.isnan(gains)] = np.nan
    return LerobotRabcWeights(weights.astype(np.float64), gains.astype(np.float64), mean, deviation)
