"""Advantage weights after TOPReward: a frame from which progress rises weighs more than one from which it falls.

TOPReward (arXiv 2602.19313) defines the dense reward from one prefix to the next as
clip(tau exp(s_k - s_(k-1)), 0, delta_max) with tau = delta_max = 2. Progress changes by at most 1, so tau exp(.)
spans 0.74 to 5.4, and every change that is not a fall is at the cap: the published weight distinguishes falls from
all else, and nothing more.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from stepscore.errors import OptionError
from stepscore.types import FloatArray

TAU, DELTA_MAX, TEMPERATURE = 2.0, 2.0, 1.0


@dataclass(frozen=True)
class AdvantageWeights:
    """Weights in 0..delta_max, NaN where the change is unknown.

    Attributes:
        weights: One weight per frame.
        mean: Mean change over all frames, the baseline if it was subtracted.
        deviation: Standard deviation of the changes.
        at_cap: Share of known weights that are at delta_max; NaN where none is known.
    """

    weights: FloatArray
    mean: float
    deviation: float
    at_cap: float


def topreward_weights(
    changes: FloatArray, *, tau: float = TAU, delta_max: float = DELTA_MAX, subtract_mean: bool = False
) -> AdvantageWeights:
    """Return clip(tau exp(change), 0, delta_max), optionally with the mean change subtracted first.

    Args:
        changes: Change of progress from each frame's curve point to the next; NaN for unknown.
        tau: Weight of no change, or with ``subtract_mean`` of an average change.
        delta_max: Largest weight.
        subtract_mean: Two readings of the method. Without: the dense reward as its equation stands, in which
            any change that is not a fall has weight tau or more. With: an advantage in the sense of
            advantage-weighted regression, the change less the mean change of the dataset; then a change
            below the average loses weight, too.
    """
    if not (tau > 0 and delta_max > 0):
        raise OptionError(f"tau is {tau} and delta_max {delta_max}; both must be above 0.")
    mean, deviation = _mean_and_deviation(changes)
    advantage = changes - mean if subtract_mean else changes
    weights = np.clip(tau * np.exp(advantage), 0.0, delta_max)
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


def _mean_and_deviation(changes: FloatArray) -> tuple[float, float]:
    known = changes[~np.isnan(changes)]
    return (float(np.mean(known)), float(np.std(known))) if len(known) else (np.nan, np.nan)


def _at_cap(weights: FloatArray, cap: float) -> float:
    known = weights[~np.isnan(weights)]
    return float(np.mean(known >= cap * (1 - 1e-9))) if len(known) else np.nan
