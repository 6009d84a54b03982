"""Many curves as one band: the median over episodes at each share of an episode's time."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from stepscore.types import FloatArray

Points = tuple[FloatArray, FloatArray]
"""Times in seconds and values."""


@dataclass(frozen=True)
class Band:
    """The middle of many curves.

    Attributes:
        at: Share of the episode's time, 0..1.
        low: A quarter of the known curves lie below; NaN where too few are known.
        median: Half of them do.
        high: Three quarters do.
        n: Curves.
    """

    at: FloatArray
    low: FloatArray
    median: FloatArray
    high: FloatArray
    n: int


def median_band(curves: Sequence[Points], durations: Sequence[float], *, points: int = 101) -> Band:
    """Quartiles over episodes at evenly spaced shares of their time.

    A curve is read between its points by straight lines; before its first point, after its last and beside an
    unknown point it is unknown. There is a median only where at least half of the curves are known, and at
    least nine in ten of as many as are known anywhere: else it would jump where curves end, because it
    speaks of other episodes there.

    Args:
        curves: Times and values of each episode.
        durations: Seconds that each episode lasts.
        points: How many shares, from the beginning to the end.
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


def duration_of(row_duration: float | None, times: FloatArray) -> float:
    """How long an episode lasts: as recorded, or for one without video until its curve's last point."""
    if row_duration is not None:
        return row_duration
    return float(times[-1]) if len(times) else float("nan")
