"""The true progress of episodes, drawn beside the judged curve: as labelled, or as labelled stages imply it.

Truth is what :mod:`stepscore.analysis` measures judges against. It is drawn, not measured, on the page, so a curve is
kept as the few points between which it is straight, to within :data:`TOLERANCE`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from stepscore.report.page import columns
from stepscore.report.page.episodes import EpisodeIndex
from stepscore.report.page.leaderboards import Leaderboard
from stepscore.report.page.packing import dictionary, pack_progress, pack_range
from stepscore.report.page.signals.straight_lines import straight_points
from stepscore.report.truth_curve import TRUTH_NAMES, truth_curve
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
