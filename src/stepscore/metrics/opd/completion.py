"""When a curve counts as done, where ``robust`` cuts it, and the milestones it reaches.

A sample is done if the success probability, where known for the curve, is at least .5, else if progress is at
least D. Later samples stay done until the probability falls below .4, or progress below D - .05, so that a
judge that wavers around the threshold does not finish the task repeatedly.

The completion time t_c is the start of the last done stretch if it reaches the final sample; a curve that is
not done at its end has none. CRA and STR are measured up to t_c, so they do not depend on how long the video
goes on.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from stepscore.errors import OptionError
from stepscore.metrics.success import best_threshold
from stepscore.types import FloatArray, IntArray

DONE_PROGRESS = 0.99
"""Progress that counts as done if no calibration map says otherwise: success in OPD v1.5."""

DONE_PROBABILITY = 0.5
UNDONE_PROBABILITY = 0.4
UNDONE_DROP = 0.05
"""A sample is done from this success probability, and no longer below that one; for progress, D - .05."""


@dataclass(frozen=True)
class Completion:
    """Where the prefixes of curves are done, all arrays of shape (..., T).

    Attributes:
        reached: Whether some sample so far was done.
        end: Last sample for CRA and STR: the start of the done stretch that this sample is in, else the
            sample itself.
        unknown: Whether some success probability so far is unknown.
    """

    reached: NDArray[np.bool_]
    end: IntArray
    unknown: NDArray[np.bool_]


def find_completion(
    progress: FloatArray, success_probability: FloatArray | None = None, done_at: float | None = None
) -> Completion:
    """Find where each prefix of curves (..., T) is done, in one pass; D is ``done_at``, .99 by default.

    The success probability has the same shape, NaN where unknown; without it, progress decides.
    """
    if success_probability is None:
        at = checked_done_at(done_at)
        values, done_from, undone_under = progress, at, at - UNDONE_DROP
    else:
        values, done_from, undone_under = success_probability, DONE_PROBABILITY, UNDONE_PROBABILITY
    index = np.arange(progress.shape[-1])
    certain, lost = values >= done_from, values < undone_under
    last_certain = np.maximum.accumulate(np.where(certain, index, -1), axis=-1)
    last_lost = np.maximum.accumulate(np.where(lost, index, -1), axis=-1)
    done = last_certain > last_lost
    starts = done.copy()
    starts[..., 1:] &= ~done[..., :-1]
    start = np.maximum.accumulate(np.where(starts, index, 0), axis=-1)
    return Completion(
        reached=last_certain >= 0,
        end=np.where(done, start, index),
        unknown=np.logical_or.accumulate(np.isnan(values), axis=-1),
    )


def fit_done_at(progress: ArrayLike, success: ArrayLike) -> float | None:
    """Find D: the progress with the best balanced accuracy against success labels.

    ``None`` if the labels hold one class or no progress above 0 separates them. Progress is that of the last
    sample if success must hold at the end, the highest if it counts at any time; labels are 1, 0 or NaN.
    """
    found = best_threshold(progress, success).value
    return found if math.isfinite(found) and 0 < found <= 1 else None


def checked_done_at(done_at: float | None) -> float:
    """Return D, .99 for ``None``; raise OptionError outside (0, 1]."""
    if done_at is None:
        return DONE_PROGRESS
    if not 0 < done_at <= 1:
        raise OptionError(f"done_at must be above 0 and up to 1, e.g. 0.95, got {done_at:g}.")
    return float(done_at)


_NAMES = ("MC25", "MC50", "MC75", "MC100")
_QUARTERS = np.array([0.25, 0.5, 0.75, 1.0])


def milestones(best: FloatArray, done: NDArray[np.bool_] | None = None) -> dict[str, FloatArray]:
    """Return MC, MC25, MC50, MC75, MC100 and MP of the highest progress so far.

    MC@q = 1[MP >= q]; MC is the largest of 0, .25, .5, .75, 1 that MP reaches, which is the mean of the four.
    With ``done`` (some sample so far was done), MC100 = 1[MP >= .75 and done]. Source: PRM-as-a-Judge, text
    and code.
    """
    reached = np.less_equal.outer(_QUARTERS, best).astype(np.float64)
    if done is not None:
        reached[3] = reached[2] * done
    furthest = (reached[0] + reached[1] + reached[2] + reached[3]) / 4
    return {"MC": furthest, **dict(zip(_NAMES, reached, strict=True)), "MP": best}
