"""Micro-resolution: how small a change a judge can detect the direction of, and how fine its answers are."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from stepscore.audit.pairs.pair import Pair
from stepscore.audit.pairs.score import RESOLVED, By, Measure, counted, resampling, right_signs
from stepscore.metrics import HOP_BINS, value_levels
from stepscore.metrics.stats import mean_estimate


@dataclass(frozen=True)
class Resolution:
    """How fine a judge's answers about pairs are.

    Attributes:
        bins: Sign accuracy and ties by size of the true hop, smallest first, without empty bins (R1).
        answers: Number and distance of the distinct answers (R3).
        resolved: Lower end of the smallest bin with an accuracy of at least 0.75 (R2); ``None`` if there is
            none.
        surely_resolved: The same by the lower end of the accuracy's interval.
    """

    judge: str
    by: By
    bins: tuple[Measure, ...]
    answers: tuple[Measure, ...]
    resolved: float | None
    surely_resolved: float | None

    @property
    def measures(self) -> tuple[Measure, ...]:
        """All its numbers."""
        if not self.bins:
            return self.answers
        n = sum(one.estimate.n for one in self.bins if one.metric == "resolution:accuracy")
        smallest = counted(math.nan if self.resolved is None else self.resolved, n, "lower end of its bin")
        resolved = Measure("resolution:d*", "smallest hop resolved", "R2", "", smallest)
        return (*self.bins, resolved, *self.answers)


def bin_name(lo: float, hi: float) -> str:
    """Return the name of a bin: ``0.05 to 0.1``, ``from 0.5``."""
    return f"from {lo:g}" if math.isinf(hi) else f"{lo:g} to {hi:g}"


def measure_resolution(
    judge: str, pairs: Sequence[Pair], changes: Sequence[float], by: By = "curve"
) -> Resolution:
    """Measure accuracy by size of the true hop, and the levels of the answers.

    Pairs without a known hop are binned by their change, or left out if only its sign is known. ``changes``
    are the judged ones, NaN where unknown.
    """
    judged = np.asarray(changes, dtype=np.float64)
    size = np.round([abs(pair.size) for pair in pairs], 9)
    bins: list[Measure] = []
    reached: dict[str, float | None] = {"value": None, "lo": None}
    for lo, hi in HOP_BINS:
        inside = np.flatnonzero((size >= lo) & (size < hi))
        if not len(inside):
            continue
        chosen = [pairs[int(i)] for i in inside]
        right, tied = right_signs(judged[inside], chosen)
        accuracy, ties = (mean_estimate(one, **resampling(chosen)) for one in (right, tied))
        group = {"hop": bin_name(lo, hi)}
        bins.append(Measure("resolution:accuracy", "accuracy", "R1", "1", accuracy, group))
        bins.append(Measure("resolution:ties", "ties", "R1", "0", ties, group))
        for end in reached:
            if reached[end] is None and getattr(accuracy, end) >= RESOLVED:
                reached[end] = lo
    levels = value_levels(judged)
    count = counted(levels.distinct, levels.n, "count")
    step = counted(levels.step, levels.n, "minimum")
    answers = (
        Measure("resolution:levels", "distinct answers", "R3", "", count),
        Measure("resolution:step", "smallest difference of answers", "R3", "", step),
    )
    return Resolution(judge, by, tuple(bins), answers, reached["value"], reached["lo"])
