"""Progress curves from values that may lie outside of 0..1."""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np

from stepscore.types import Curve, FloatArray


def progress_curve(
    times: FloatArray,
    raw: FloatArray,
    channels: Mapping[str, FloatArray] | None = None,
    *,
    clip: bool = False,
) -> Curve:
    """Return a curve whose progress is unknown outside 0..1 unless ``clip`` is set; ``raw`` keeps all values."""
    outside = (raw < 0) | (raw > 1)
    inside = np.clip(raw, 0, 1) if clip else np.where(outside, np.nan, raw)
    kept = {"raw": raw} if np.any(outside) else {}
    return Curve(times, inside, {**(channels or {}), **kept})


def success_at_end(curve: Curve, success_at: float) -> float:
    """Return 1 where the last progress is at least ``success_at``, else 0; NaN if it is unknown."""
    last = float(curve.progress[-1])
    return math.nan if math.isnan(last) else float(last >= success_at)
