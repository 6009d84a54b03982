"""The true progress of episodes, drawn beside the judged curve: as labelled, or as labelled stages imply it.

Truth is what :mod:`stepscore.analysis` measures judges against. It is drawn, not measured, on the page, so a curve is
kept as the few points between which it is straight, to within :data:`TOLERANCE`.
"""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np

from stepscore.report.episode_data import TRUTH_NAMES, truth_curve
from stepscore.report.page import columns
from stepscore.report.page.episodes import EpisodeIndex
from stepscore.report.page.leaderboards import Leaderboard
from stepscore.report.page.packing import dictionary, pack_progress, pack_range
from stepscore.types import FloatArray

TOLERANCE = 0.005
"""Most by which the drawn curve differs from the labelled one: less than a pixel of the plot."""

MAX_POINTS = 250_000
"""Points of all episodes on one page, about 1.3 MB; beyond it, episodes are left out."""


def truth_table(leaderboards: Sequence[Leaderboard], index: EpisodeIndex) -> columns.TruthTable:
    """Return the true progress: of each episode the first truth that some run has."""
    truths: dict[int, Any] = {}
    for leaderboard in leaderboards:
        for row in leaderboard.metrics.episodes:
            if row["truth"].source is not None:
                truths.setdefault(index.place(row), row)
    curves: list[tuple[int, str, FloatArray, FloatArray]] = []
    points, left_out = 0, 0
    for place in sorted(truths):
        if points >= MAX_POINTS:
            left_out += 1
            continue
        times, values = _drawn(truths[place])
        if points + len(times) > MAX_POINTS:
            left_out += 1
            continue
        points += len(times)
        curves.append((place, TRUTH_NAMES[truths[place]["truth"].source], times, values))
    none: FloatArray = np.empty(0)
    return {
        "episode": [place for place, *_ in curves],
        "length": [len(times) for *_, times, _ in curves],
        "source": dictionary(name for _, name, *_ in curves),
        "times": pack_range(np.concatenate([none, *(times for *_, times, _ in curves)])),
        "progress": pack_progress(np.round(np.concatenate([none, *(values for *_, values in curves)]), 4)),
        "left_out": left_out,
    }


def _drawn(row: Any) -> tuple[FloatArray, FloatArray]:
    """Return the times and values of an episode's true progress that are needed to draw it."""
    curve = truth_curve(row)
    assert curve is not None  # only rows with a truth are drawn
    chosen = straight_points(*curve, TOLERANCE)
    return curve[0][chosen], curve[1][chosen]


def straight_points(
    times: FloatArray, values: FloatArray, tolerance: float, most: int | None = None
) -> list[int]:
    """Return the indices of points such that straight lines between them are nowhere further off than ``tolerance``.

    The method of Ramer (1972) and of Douglas and Peucker (1973), with the distance taken only in ``values``. First
    and last points are always kept, and those on both sides of where a value begins or ceases to be known.

    Args:
        times: Increasing, (n,).
        values: One curve (n,), or several that share their points, (n, curves); NaN if unknown.
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
