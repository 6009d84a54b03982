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
    """Return a curve whose progress is unknown where a value lies outside of 0..1, which stays in channel ``raw``.

    Args:
        times: Seconds.
        raw: Values; NaN where unknown.
        channels: Further channels.
        clip: Put a value outside at 0 or 1 instead.
    """
    outside = (raw < 0) | (raw > 1)
    inside = np.clip(raw, 0, 1) if clip else np.where(outside, np.nan, raw)
    kept = {"raw": raw} if np.any(outside) else {}
    return Curve(times, inside, {**(channels or {}), **kept})


def success_at_end(curve: Curve, success_at: float) -> float:
    """Return 1 where the last progress is at least ``success_at``, else 0; NaN where it is unknown."""
    last = float(curve.progress[-1])
    return math.nan if math.isnan(last) else float(last >= success_at)
