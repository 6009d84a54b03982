"""One weight per frame from a run's frames, by each method, with the thresholds and statistics behind it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, get_args

import numpy as np

from stepscore.curation.awr import Advantage, AdvantageWeights, chunk_gains, topreward_weights
from stepscore.curation.frames import RunFrames
from stepscore.curation.rabc_lerobot import FALLBACK_WEIGHT, KAPPA, lerobot_rabc_weights
from stepscore.curation.selection import stall_frames
from stepscore.errors import OptionError, UnknownNameError
from stepscore.types import FloatArray


@dataclass(frozen=True)
class Weighting:
    """One weight per frame.

    Attributes:
        frames: The frames, in the order of the weights.
        weights: One weight per frame, 0 or above; NaN if unknown.
        method: ``rabc``, ``awr`` or ``filter``.
        form: Whose form of the method: ``lerobot`` of ``rabc``, ``topreward`` of ``awr``, ``filter`` of a filter.
        options: Every option that determined the weights.
        facts: Statistics behind them: thresholds, noise, means, shares; NaN for unknown.
        unknown: Weight of an unknown frame in training, where the method fixes it; else ``None``.
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


def lerobot_rabc(
    frames: RunFrames, *, chunk_size: int, kappa: float = KAPPA, fallback_weight: float = FALLBACK_WEIGHT
) -> Weighting:
    """Weigh frames by RA-BC as LeRobot will compute it from the progress file.

    Args:
        frames: From :func:`run_frames`.
        chunk_size: The policy's ``chunk_size``, in frames.
        kappa: Gain from which a frame counts in full.
        fallback_weight: Weight that LeRobot gives an unknown frame.
    """
    rabc = lerobot_rabc_weights(frames.progress, frames.starts, chunk_size=chunk_size, kappa=kappa)
    near_end = np.repeat(frames.starts[1:], frames.lengths) - np.arange(len(frames)) <= chunk_size
    facts = {
        "mean gain": rabc.mean,
        "deviation of gains": rabc.deviation,
        "noise": frames.noise,
        "last chunk at 0": _share(rabc.weights[near_end] == 0, rabc.weights[near_end]),
    }
    options = {"chunk_size": chunk_size, "kappa": kappa, "fallback_weight": fallback_weight}
    return Weighting(
        frames, rabc.weights, "rabc", "lerobot", options, facts, unknown=fallback_weight, by_lerobot=True
    )


def topreward_awr(
    frames: RunFrames, *, advantage: Advantage = "change", chunk_size: int | None = None, **options: Any
) -> Weighting:
    """Weigh frames by advantage after TOPReward; :mod:`stepscore.curation.awr` has the formulas.

    Args:
        frames: From :func:`run_frames`.
        advantage: What becomes the advantage: the ``"change"`` of progress less its mean over the dataset's frames,
            the ``"plain-change"`` with nothing subtracted, or ``"progress"`` less its mean.
        chunk_size: Frames over which a change is taken; by default from one point of the judge's curve to the
            next, as in the paper. An error with ``"progress"``, which takes no change.
        options: ``tau``, ``delta_max``, ``tau_role``, as in :func:`topreward_weights`.
    """
    if advantage not in get_args(Advantage):
        raise UnknownNameError("advantage", advantage, get_args(Advantage))
    if advantage == "progress" and chunk_size is not None:
        raise OptionError(
            "chunk_size is the span of a change, and the advantage is of progress itself: leave it out, or choose "
            "-W advantage=change."
        )
    values = frames.progress if advantage == "progress" else _changes(frames, chunk_size)
    awr = topreward_weights(values, subtract_mean=advantage != "plain-change", **options)
    stated = {
        "advantage": advantage,
        **({} if advantage == "progress" else {"chunk_size": chunk_size}),
        **options,
    }
    return Weighting(
        frames,
        awr.weights,
        "awr",
        "topreward",
        stated,
        _facts(awr, "progress" if advantage == "progress" else "change"),
    )


def keep_all(frames: RunFrames) -> Weighting:
    """Give weight 1 to every frame: a filter of episodes only."""
    return Weighting(frames, np.ones(len(frames)), "filter", "filter")


def without_stalls(weighting: Weighting, **options: Any) -> Weighting:
    """Return the weighting with weight 0 for frames in a stall.

    Args:
        weighting: Any weighting.
        options: ``seconds``, ``still``, ``done``, as in :func:`stall_frames`.
    """
    stalled = stall_frames(weighting.frames, **options)
    facts = {**weighting.facts, "stalled": float(np.mean(stalled)) if len(stalled) else np.nan}
    return replace(
        weighting,
        weights=np.where(stalled, 0.0, weighting.weights),
        options={**weighting.options, "stalls": dict(options)},
        facts=facts,
    )


def _facts(awr: AdvantageWeights, of: str) -> dict[str, float]:
    plural = {"change": "changes"}.get(of, of)
    return {f"mean {of}": awr.mean, f"deviation of {plural}": awr.deviation, "at the cap": awr.at_cap}


def _changes(frames: RunFrames, chunk_size: int | None) -> FloatArray:
    if chunk_size is None:
        return frames.changes
    return chunk_gains(frames.progress, frames.starts, chunk_size)


def _share(true: np.ndarray[Any, Any], weights: FloatArray) -> float:
    """Return the share of the known weights for which ``true`` holds."""
    known = ~np.isnan(weights)
    return float(np.mean(true[known])) if np.any(known) else np.nan
