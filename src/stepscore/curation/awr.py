"""Advantage weights after TOPReward: frames of more than average progress weigh more in training.

In TOPReward (arXiv 2602.19313) A "is the advantage computed in Equation 3", the increment of progress; and it
"convert[s] these values to advantages by subtracting the dataset mean, then fine-tune[s] with the AWR objective"
(section 5.3), with tau = delta_max = 2. What the mean is subtracted from, and where tau stands, are options here.
Only the increment less its mean agrees with both sentences.

    advantage="change"          A = (s_k - s_(k-1)) - mean change             (default) both sentences
    advantage="plain-change"    A = s_k - s_(k-1)                             equation 3 alone
    advantage="progress"        A = s_i - mean of s over the dataset          the mean alone, of the values

    tau_role="inverse-temperature"    w = clip(exp(tau A), 0, delta_max)      (default: the AWR objective)
    tau_role="prefactor"              w = clip(tau exp(A), 0, delta_max)      as in the dense reward

As a prefactor, tau = delta_max puts every advantage of 0 or more at the cap.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np

from stepscore.errors import OptionError
from stepscore.types import FloatArray

TAU, DELTA_MAX, TEMPERATURE = 2.0, 2.0, 1.0

Advantage = Literal["progress", "change", "plain-change"]
TauRole = Literal["inverse-temperature", "prefactor"]


@dataclass(frozen=True)
class AdvantageWeights:
    """Weights in 0..delta_max, NaN where progress or its change is unknown.

    Attributes:
        weights: One weight per frame.
        mean: Mean of the values (progress, or its changes) over all frames: the baseline, if it was subtracted.
        deviation: Their standard deviation.
        at_cap: Share of known weights that are at delta_max; NaN where none is known.
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
        tau: Above 1 as an inverse temperature, the weights are farther apart; as a prefactor, the weight of A = 0.
        delta_max: Largest weight.
        tau_role: ``"inverse-temperature"``: exp(tau A), tau in the place of 1/beta in the objective of
            advantage-weighted regression (Peng et al. 2019). ``"prefactor"``: tau exp(A).
        subtract_mean: Whether A is less the mean over all frames.
    """
    if not (tau > 0 and delta_max > 0):
        raise OptionError(f"tau is {tau} and delta_max {delta_max}; both must be above 0.")
    if tau_role not in get_args(TauRole):
        raise OptionError(f"Unknown tau_role {tau_role!r}. Valid: {', '.join(get_args(TauRole))}.")
    mean, deviation = _mean_and_deviation(values)
    advantage = values - mean if subtract_mean else values
    raw = tau * np.exp(advantage) if tau_role == "prefactor" else np.exp(tau * advantage)
    weights = np.clip(raw, 0.0, delta_max)
    return AdvantageWeights(weights, mean, deviation, _at_cap(weights, delta_max))


def logistic_weights(
    changes: FloatArray, *, delta_max: float = DELTA_MAX, temperature: float = TEMPERATURE
) -> AdvantageWeights:
    """Return weights that do not saturate: delta_max / (1 + exp(-(change - mean) / (temperature deviation))).

    An average change weighs delta_max / 2; one standard deviation more, at temperature 1, 0.73 of delta_max.
    Because changes are measured in their own deviation, the weights mean the same for a dataset of long
    episodes, where each change is small, as for one of short ones. Where all changes are equal, all weights
    are delta_max / 2.

    Args:
        changes: Change of progress from each frame's curve point to the next; NaN for unknown.
        delta_max: Upper bound of the weights, never reached.
        temperature: Above 1 the weights are closer together, below 1 farther apart.
    """
    if not (delta_max > 0 and temperature > 0):
        raise OptionError(f"delta_max is {delta_max} and temperature {temperature}; both must be above 0.")
    mean, deviation = _mean_and_deviation(changes)
    # Equal changes differ by rounding alone, which no temperature should turn into weights.
    scale = deviation if deviation > 1e-9 else np.inf
    advantage = (changes - mean) / (temperature * scale)
    weights = delta_max * 0.5 * (1.0 + np.tanh(advantage / 2))
    return AdvantageWeights(weights, mean, deviation, _at_cap(weights, delta_max))


def _mean_and_deviation(values: FloatArray) -> tuple[float, float]:
    known = values[~np.isnan(values)]
    return (float(np.mean(known)), float(np.std(known))) if len(known) else (np.nan, np.nan)


def _at_cap(weights: FloatArray, cap: float) -> float:
    known = weights[~np.isnan(weights)]
    return float(np.mean(known >= cap * (1 - 1e-9))) if len(known) else np.nan
