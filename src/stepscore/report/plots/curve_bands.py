"""The median and quartiles of many curves at each share of the episodes' time."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from stepscore.types import FloatArray

Points = tuple[FloatArray, FloatArray]
"""Timestamps in seconds, and the values at them."""


@dataclass(frozen=True)
class Band:
    """The quartiles of many curves over time.

    Attributes:
        at: Share of the episode's time, 0..1.
        low: Lower quartile of the known curves; NaN where too few are known.
        median: Their median.
        high: Their upper quartile.
        n: Number of curves.
    """

    at: FloatArray
    low: FloatArray
    median: FloatArray
    high: FloatArray
    n: int


def median_band(curves: Sequence[Points], durations: Sequence[float], *, points: int = 101) -> Band:
    """Compute quartiles over episodes at evenly spaced shares of their time.

    A curve is interpolated linearly between its points; it is unknown before its first point, after its last and
    next to an unknown point. There is a median only where at least half of the curves are known, and at least
    nine tenths of as many as are known anywhere: it would otherwise jump where curves end, because it
    would be the median of other episodes there.

    Args:
        curves: Timestamps and values of each episode.
        durations: Duration of each episode in seconds.
        points: Number of shares, from the beginning to the end.
    """
    at = np.linspace(0.0, 1.0, points)
    grid = np.full((len(curves), points), np.nan)
    for row, ((times, values), duration) in enumerate(zip(curves, durations, strict=True)):
        if len(times):
            grid[row] = np.interp(at * duration, times, values, left=np.nan, right=np.nan)
    known = np.sum(~np.isnan(grid), axis=0)
    enough = (known > 0) & (2 * known >= len(curves)) & (known >= 0.9 * known.max(initial=0))
    quartiles = np.full((3, points), np.nan)
    if np.any(enough):
        quartiles[:, enough] = np.nanquantile(grid[:, enough], [0.25, 0.5, 0.75], axis=0)
    return Band(at, quartiles[0], quartiles[1], quartiles[2], len(curves))
