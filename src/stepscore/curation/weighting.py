"""A run's frames and a method into one weight a frame, with what was measured on the way."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from stepscore.curation.awr import logistic_weights, topreward_weights
from stepscore.curation.frames import RunFrames
from stepscore.curation.rabc_corrected import chunk_gains, corrected_weights
from stepscore.curation.rabc_lerobot import FALLBACK, KAPPA, lerobot_weights
from stepscore.curation.selection import stall_frames
from stepscore.types import FloatArray


@dataclass(frozen=True)
class Weighting:
    """One weight a frame.

    Attributes:
        frames: The frames, in the order of the weights.
        weights: 0 or above; NaN where unknown.
        method: ``rabc``, ``awr`` or ``filter``.
        form: The form of the method: ``lerobot``, ``corrected``, ``topreward``, ``logistic``; of a filter,
            ``filter``.
        options: Every option that shaped the weights.
        facts: What was measured on the way: thresholds, noise, means, shares; NaN for unknown.
        unknown: Weight that an unknown frame will have in training, where the method fixes it; else ``None``.
        by_lerobot: Whether LeRobot computes these weights itself, from progress.
    """

    frames: RunFrames
    weights: FloatArray
    method: str
    form: str
    options: Mapping[str, Any] = field(default_factory=dict)
    facts: Mapping[str, float] = field(default_factory=dict)
    unknown: float | None = None
    by_lerobot: bool = False


def rabc(
    frames: RunFrames, *, chunk_size: int, kappa: float = KAPPA, fallback_weight: float = FALLBACK
) -> Weighting:
    """RA-BC as LeRobot will compute it from the progress file; see :func:`lerobot_weights`."""
    made = lerobot_weights(frames.progress, frames.starts, chunk_size=chunk_size, kappa=kappa)
    near_end = np.repeat(frames.starts[1:], frames.lengths) - np.arange(len(frames)) <= chunk_size
    facts = {
        "mean gain": made.mean,
        "deviation of gains": made.deviation,
        "noise": frames.noise,
        "last chunk at 0": _share(made.weights[near_end] == 0, made.weights[near_end]),
    }
    options = {"chunk_size": chunk_size, "kappa": kappa, "fallback_weight": fallback_weight}
    return Weighting(
        frames, made.weights, "rabc", "lerobot", options, facts, unknown=fallback_weight, by_lerobot=True
    )


def rabc_corrected(frames: RunFrames, *, chunk_size: int, **options: Any) -> Weighting:
    """RA-BC corrected; options as in :func:`corrected_weights`."""
    made = corrected_weights(frames, chunk_size=chunk_size, **options)
    kappa = made.kappa[~np.isnan(made.kappa)]
    facts = {
        "least kappa": float(np.min(kappa)) if len(kappa) else np.nan,
        "largest kappa": float(np.max(kappa)) if len(kappa) else np.nan,
        "noise": made.noise,
    }
    return Weighting(frames, made.weights, "rabc", "corrected", {"chunk_size": chunk_size, **options}, facts)


def awr(frames: RunFrames, *, chunk_size: int | None = None, **options: Any) -> Weighting:
    """TOPReward's dense reward as weight; options as in :func:`topreward_weights`.

    Args:
        frames: From :func:`run_frames`.
        chunk_size: The step is so many frames; without it, the step between two points of the judge's curve,
            as in the paper.
        options: ``tau``, ``delta_max``, ``subtract_mean``.
    """
    made = topreward_weights(_changes(frames, chunk_size), **options)
    facts = {"mean change": made.mean, "deviation of changes": made.deviation, "at the cap": made.at_cap}
    return Weighting(frames, made.weights, "awr", "topreward", {"chunk_size": chunk_size, **options}, facts)


def awr_logistic(frames: RunFrames, *, chunk_size: int | None = None, **options: Any) -> Weighting:
    """The form of AWR weights that does not saturate; options as in :func:`logistic_weights`."""
    made = logistic_weights(_changes(frames, chunk_size), **options)
    facts = {"mean change": made.mean, "deviation of changes": made.deviation, "at the cap": made.at_cap}
    return Weighting(frames, made.weights, "awr", "logistic", {"chunk_size": chunk_size, **options}, facts)


def keep_all(frames: RunFrames) -> Weighting:
    """Weight 1 for every frame of the episodes kept: the filter by itself."""
    return Weighting(frames, np.ones(len(frames)), "filter", "filter")


def without_stalls(weighting: Weighting, **options: Any) -> Weighting:
    """The same with weight 0 for frames in a stall; options as in :func:`stall_frames`."""
    stalled = stall_frames(weighting.frames, **options)
    facts = {**weighting.facts, "stalled": float(np.mean(stalled)) if len(stalled) else np.nan}
    return replace(
        weighting,
        weights=np.where(stalled, 0.0, weighting.weights),
        options={**weighting.options, "stalls": dict(options)},
        facts=facts,
    )


def _changes(frames: RunFrames, chunk_size: int | None) -> FloatArray:
    if chunk_size is None:
        return frames.changes
    return chunk_gains(frames.progress, frames.starts, chunk_size)


def _share(true: np.ndarray[Any, Any], weights: FloatArray) -> float:
    """Share of the known weights for which it is true."""
    known = ~np.isnan(weights)
    return float(np.mean(true[known])) if np.any(known) else np.nan
