"""The true progress of an episode as a curve to draw: as labelled, or as labelled stages imply it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from stepscore.types import FloatArray

TRUTH_NAMES = {"progress labels": "labelled progress", "stages": "progress by labelled stages"}
"""How truth is called where it is drawn, by where it is from."""

_STAGE_SAMPLES = 60


def truth_curve(row: Mapping[str, Any]) -> tuple[FloatArray, FloatArray] | None:
    """Return times and values of an episode's true progress; ``None`` if nothing is known of it.

    Of several unknown values (NaN) in a row only the first is kept, which breaks the line.
    """
    truth = row["truth"]
    if truth.source is None:
        return None
    if truth.labelled is not None:
        times, values = truth.labelled
    else:
        ends = [second for _, start, end in truth.stages for second in (start, end) if np.isfinite(second)]
        last = row["duration_s"] or max(ends, default=0.0)
        times = np.unique([*np.linspace(0.0, last, _STAGE_SAMPLES), *(s for s in ends if 0 <= s <= last)])
        values = truth.at(times)
    known = np.isfinite(values)
    kept = known | np.r_[True, known[:-1]]
    return times[kept], values[kept]
