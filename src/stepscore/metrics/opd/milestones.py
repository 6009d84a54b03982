"""MP and the milestones MC; in every published revision of OPD they are the same."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from stepscore.types import FloatArray

_NAMES = ("MC25", "MC50", "MC75", "MC100")
_QUARTERS = np.array([0.25, 0.5, 0.75, 1.0])


def milestones(best: FloatArray, done: NDArray[np.bool_] | None = None) -> dict[str, FloatArray]:
    """Return MC, MC25, MC50, MC75, MC100 and MP of the highest progress so far.

    Where ``done`` is given (some sample so far was done), MC100 = 1[MP >= .75 and done].

    MC@q = 1[MP >= q]; MC = the largest of 0, .25, .5, .75, 1 that MP reaches, which is the mean of the four
    rates since each includes those below it. Source: PRM-as-a-Judge, the level from its text, the rates
    from its code.
    """
    reached = np.less_equal.outer(_QUARTERS, best).astype(np.float64)
    if done is not None:
        reached[3] = reached[2] * done
    furthest = (reached[0] + reached[1] + reached[2] + reached[3]) / 4
    return {"MC": furthest, **dict(zip(_NAMES, reached, strict=True)), "MP": best}
