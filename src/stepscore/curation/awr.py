"""Advantage weights after TOPReward: frames of more than average progress weigh more in training.

In TOPReward (arXiv 2602.19313) A "is the advantage computed in Equation 3", the increment of progress; and it
"convert[s] these values to advantages by subtracting the dataset mean, then fine-tune[s] with the AWR objective"
(section 5.3), with tau = delta_max = 2. What the mean is subtracted from, and where tau is applied, are options here.
Only the increment less its mean agrees with both sentences.

    advantage="change"          A = (s_k - s_(k-1)) - mean change             (default) both sentences
    advantage="plain-change"    A = s_k - s_(k-1)                             only equation 3
    advantage="progress"        A = s_i - mean of s over the dataset          only the mean, of the values

    tau_role="inverse-temperature"    w = clip(exp(tau A), 0, delta_max)      (default: the AWR objective)
    tau_role="prefactor"              w = clip(tau exp(A), 0, delta_max)      as in the dense reward

As a prefactor, tau = delta_max puts every advantage of 0 or more at the cap.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np

from stepscore.curation.rabc_lerobot import check_chunk, ends_of
from stepscore.errors import OptionError
from stepscore.types import FloatArray, IntArray

TAU, DELTA_MAX = 2.0, 2.0

Advantage = Literal["progress", "change", "plain-change"]
TauRole = Literal["inverse-temperature", "prefactor"]


@dataclass(frozen=True)
class AdvantageWeights:
    """Weights in 0..delta_max, NaN if progress or its change is unknown.

    Attributes:
        weights: One weight per frame.
        mean: Mean of the values (progress, or its changes) over all frames: the baseline, if it was subtracted.
        deviation: Their standard deviation.
        at_cap: Share of known weights that are at delta_max; NaN if none is known.
    """

    weights: FloatArray
    mean: float
    deviation: float
    at_cap: float


def topreward_weights(
    values: FloatArray,
    *,
    tau: float = TAU,
    delta_max: float = DELTA_MAX,
    tau_role: TauRole = "inverse-temperature",
    subtract_mean: bool = True,
) -> AdvantageWeights:
    """Return clip(exp(tau A), 0, delta_max), or clip(tau exp(A), 0, delta_max), with A = value - mean value.

    Args:
        values: Progress of each frame, or its change from the frame's curve point to the next; NaN for unknown.
        tau: As an inverse temperature, above 1 spreads the weights; as a prefactor, the weight of A = 0.
        delta_max: Largest weight.
        tau_role: ``"inverse-temperature"``: exp(tau A), tau in the place of 1/beta in the objective of
            advantage-weighted regression (Peng et al. 2019). ``"prefactor"``: tau exp(A).
        subtract_mean: Whether A is less the mean over all frames.
    """
    if not (tau > 0 and delta_max > 0):
        raise OptionError(f"tau and delta_max must be above 0, got {tau} and {delta_max}.")
    if tau_role not in get_args(TauRole):
        raise OptionError(f"Unknown tau_role {tau_role!r}. Valid: {', '.join(get_args(TauRole))}.")
    mean, deviation = _mean_and_deviation(values)
    advantage = values - mean if subtract_mean else values
    raw = tau * np.exp(advantage) if tau_role == "prefactor" else np.exp(tau * advantage)
    weights = np.clip(raw, 0.0, delta_max)
    return AdvantageWeights(weights, mean, deviation, _at_cap(weights, delta_max))


def chunk_gains(progress: FloatArray, starts: IntArray, chunk_size: int) -> FloatArray:
    """Return the change of progress over a whole chunk of each frame i.

    It is p[j + h] - p[j] with j = min(i, last - h), h = min(chunk_size, last).

    A frame less than a chunk before the end takes the gain of the episode's last whole chunk, instead of an
    ever shorter one that ends in 0. An episode of one frame has no gain: NaN.
    """
    check_chunk(chunk_size)
    lengths = np.diff(starts)
    last = ends_of(starts)
    reach = np.repeat(np.minimum(chunk_size, lengths - 1), lengths)
    begin = np.minimum(np.arange(len(progress)), last - reach)
    return np.where(reach > 0, progress[begin + reach] - progress[begin], np.nan)


def _mean_and_deviation(values: FloatArray) -> tuple[float, float]:
    known = values[~np.isnan(values)]
    return (float(np.mean(known)), float(np.std(known))) if len(known) else (np.nan, np.nan)


def _at_cap(weights: FloatArray, cap: float) -> float:
    known = weights[~np.isnan(weights)]
    return float(np.mean(known >= cap * (1 - 1e-9))) if len(known) else np.nan
