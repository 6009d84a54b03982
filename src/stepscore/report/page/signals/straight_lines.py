"""The few points of a curve between which straight lines show its shape."""

from __future__ import annotations

import heapq
from itertools import pairwise

import numpy as np

from stepscore.types import FloatArray


def straight_points(
    times: FloatArray, values: FloatArray, tolerance: float, most: int | None = None
) -> list[int]:
    """Return the indices of points such that straight lines between them are nowhere further off than ``tolerance``.

    The method of Ramer (1972) and of Douglas and Peucker (1973), with the distance taken in ``values`` alone. First
    and last points are always kept, and those on both sides of where a value begins or ceases to be known.

    Args:
        times: Increasing, (n,).
        values: One curve (n,), or several that share their points, (n, curves); NaN where unknown.
        tolerance: Most by which a line may be off.
        most: Keep at most this many points, those furthest off first; ``None`` for no limit.
    """
    columns = values.reshape(len(times), -1)
    unknown = ~np.isfinite(columns)
    changes = np.flatnonzero(np.any(unknown[1:] != unknown[:-1], axis=1))
    fixed = sorted({0, len(times) - 1, *changes.tolist(), *(changes + 1).tolist()} & set(range(len(times))))
    if most is not None and len(fixed) > most:
        # Known and unknown alternate everywhere: which points are left out makes no difference to what is seen.
        return sorted({int(i) for i in np.linspace(0, len(times) - 1, most).round()})
    kept = set(fixed)
    spans = [span for ends in pairwise(fixed) if (span := _furthest(times, columns, *ends)) is not None]
    heapq.heapify(spans)
    while spans and (most is None or len(kept) < most):
        away, furthest, first, last = heapq.heappop(spans)
        if -away <= tolerance:
            break
        kept.add(furthest)
        for ends in ((first, furthest), (furthest, last)):
            if (span := _furthest(times, columns, *ends)) is not None:
                heapq.heappush(spans, span)
    return sorted(kept)


def _furthest(
    times: FloatArray, columns: FloatArray, first: int, last: int
) -> tuple[float, int, int, int] | None:
    """Return the point between two others that is furthest off their line: minus its distance, it, and both."""
    if last - first < 2:
        return None
    share = (times[first + 1 : last, None] - times[first]) / (times[last] - times[first])
    line = columns[first] + share * (columns[last] - columns[first])
    away = np.abs(columns[first + 1 : last] - line).max(axis=1, initial=0.0, where=np.isfinite(line))
    at = int(np.argmax(away))
    return -float(away[at]), first + 1 + at, first, last
