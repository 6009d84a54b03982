"""When a labelled success or subgoal was true, at every time of an episode, by the labels of the whole episode.

Sources of this, in order:

1. Spans: rows of value 1 with ``start_s``. True from ``start_s`` to before ``end_s``, false outside of all
   spans; without ``end_s``, unknown after ``start_s``.
2. ``ever`` of value 0: never true. Only spans of value 0: false within them.
3. Success only: progress labels called :data:`POTENTIAL`. Success is where they are 1, provided that they
   agree with the success label. Labels of other names (linear, by procedure) say when a task was worked on,
   not what was true, and are not used.
4. ``holds``: true or false at the last frame, unknown before it.

Without any of these, nothing is known.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from stepscore.episodes.labels.labels import Label, Labels
from stepscore.types import BoolArray, FloatArray, SuccessMode

POTENTIAL = "potential"
"""Name of the progress labels that are 1 exactly where the task's success is true."""

LABEL_TOLERANCE_S = 1e-5
"""Labelled times that differ by less are the same.

Larger than the tolerance of frames, because tables of labels may keep float32 or rounded seconds.
"""

Interval = tuple[float, float]


@dataclass(frozen=True)
class Truth:
    """When a statement was true; it was false the rest of the time.

    Attributes:
        true: Intervals in which it was true: first second, and the second at which it no longer was.
        unknown: Intervals for which there is no label; ``true`` takes precedence.
    """

    true: tuple[Interval, ...] = ()
    unknown: tuple[Interval, ...] = ()

    def held(self, time_s: float) -> bool | None:
        """Return whether it was true at a time; ``None`` where not known."""
        at = time_s + LABEL_TOLERANCE_S
        if any(start <= at < end for start, end in self.true):
            return True
        return None if any(start <= at < end for start, end in self.unknown) else False

    def happened(self, time_s: float) -> bool | None:
        """Return whether it was true at a time or before it; ``None`` where not known."""
        at = time_s + LABEL_TOLERANCE_S
        if any(start <= at for start, _ in self.true):
            return True
        return None if any(start <= at for start, _ in self.unknown) else False

    def at_end(self, mode: SuccessMode, last_s: float) -> bool | None:
        """Return the verdict on an episode whose last frame is at ``last_s``."""
        return self.happened(last_s) if mode == "ever" else self.held(last_s)

    def is_false_at_end(self, mode: SuccessMode, lasts_s: FloatArray) -> BoolArray:
        """Return for each last frame whether the verdict on an episode that ends with it is known to be no."""
        at = (np.asarray(lasts_s, dtype=np.float64) + LABEL_TOLERANCE_S)[:, None]
        spans = np.array([*self.true, *self.unknown], dtype=np.float64).reshape(-1, 2)
        after = spans[:, 0] <= at
        covered = after if mode == "ever" else after & (at < spans[:, 1])
        return np.asarray(~covered.any(axis=1))


def success_truth(labels: Labels, last_s: float) -> Truth:
    """Return when the task's success was true, in an episode whose last frame is at ``last_s``."""
    rows = [row for row in labels.rows if row.kind == "success"]
    ever = _stated(row for row in rows if row.name == "ever")
    holds = _stated(row for row in rows if row.name != "ever")
    spans = true_spans(rows)
    if spans:
        return _from_spans(spans)
    if ever is False:
        return Truth()
    by_potential = _from_potential(labels)
    if by_potential is not None:
        derived = (by_potential.happened(last_s), by_potential.held(last_s))
        if all(label in (None, value) for label, value in zip((ever, holds), derived, strict=True)):
            return by_potential
    return _at_end_only(last_s, holds=holds)


def subgoal_truth(labels: Labels, name: str, mode: SuccessMode, last_s: float) -> Truth:
    """Return when a subgoal was true, in an episode whose last frame is at ``last_s``."""
    rows = [row for row in labels.rows if row.kind == "subgoal" and row.name == name]
    spans = true_spans(rows)
    if spans:
        return _from_spans(spans)
    stated = _stated(rows)
    if mode == "ever":
        return Truth() if stated is False else _at_end_only(last_s, holds=None)
    return _without_false(_at_end_only(last_s, holds=stated), rows)


def _without_false(truth: Truth, rows: Sequence[Label]) -> Truth:
    """Return the truth, no longer unknown in the intervals of rows of value 0."""
    unknown = [(max(0.0, start), end) for start, end in truth.unknown]
    for row in rows:
        if row.value < 0.5 and math.isfinite(row.start_s) and math.isfinite(row.end_s):
            pieces = [((a, min(b, row.start_s)), (max(a, row.end_s), b)) for a, b in unknown]
            unknown = [piece for both in pieces for piece in both if piece[0] < piece[1]]
    return Truth(truth.true, tuple(unknown))


def true_spans(rows: Iterable[Label]) -> list[Interval]:
    """Return start and end of the rows with a span in which it was true, by start; a later row overrides."""
    latest = {(row.name, row.start_s): row for row in rows if math.isfinite(row.start_s)}
    return sorted((row.start_s, row.end_s) for row in latest.values() if row.value >= 0.5)


def _stated(rows: Iterable[Label]) -> bool | None:
    """Return the last verdict on the whole episode; a row with a span in which it was true is not one."""
    whole = [row.value for row in rows if math.isnan(row.start_s) or row.value < 0.5]
    return None if not whole or math.isnan(whole[-1]) else whole[-1] >= 0.5


def _from_spans(spans: Sequence[Interval]) -> Truth:
    open_starts = [start for start, end in spans if math.isnan(end)]
    closed = [(start, end) for start, end in spans if not math.isnan(end)]
    return Truth(
        true=(*closed, *((start, start + 2 * LABEL_TOLERANCE_S) for start in open_starts)),
        unknown=tuple((start, math.inf) for start in open_starts),
    )


def _from_potential(labels: Labels) -> Truth | None:
    """Return true at labelled times of value 1 and between two of them; unknown between times that differ."""
    times, values = labels.progress(POTENTIAL)
    if not len(times):
        return None
    at = times.tolist()
    reached = [None if math.isnan(value) else value >= 1.0 - 1e-9 for value in values.tolist()]
    pieces: list[tuple[bool | None, Interval]] = []
    if at[0] > LABEL_TOLERANCE_S:
        pieces.append((None, (0.0, at[0])))
    pieces += [(known, (t, t + 2 * LABEL_TOLERANCE_S)) for t, known in zip(at, reached, strict=True)]
    for (this, known), (following, then) in pairwise(zip(at, reached, strict=True)):
        pieces.append((known if known == then else None, (this + 2 * LABEL_TOLERANCE_S, following)))
    pieces.append((None, (at[-1] + 2 * LABEL_TOLERANCE_S, math.inf)))
    return Truth(
        true=tuple(span for known, span in pieces if known),
        unknown=tuple(span for known, span in pieces if known is None),
    )


def _at_end_only(last_s: float, *, holds: bool | None) -> Truth:
    if holds is None:
        return Truth(unknown=((-math.inf, math.inf),))
    return Truth(true=((last_s, math.inf),) if holds else (), unknown=((-math.inf, last_s),))
