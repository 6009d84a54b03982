"""When a labelled success or subgoal was true: what the labels of a whole episode say of each moment in it.

What is looked at, in this order:

1. Spans: rows of value 1 with ``start_s``. True from ``start_s`` to before ``end_s``, false outside of all
   spans; without ``end_s``, unknown after ``start_s``.
2. ``ever`` of value 0: never true. Spans of value 0 alone: false within them.
3. Success only: progress labels called :data:`POTENTIAL`. Success is where they are 1, provided that they
   agree with the success label. Labels of other names (linear, by procedure) say when a task was worked on,
   not what was true, and are not used.
4. ``holds``: true or false at the last frame, unknown before it.

Where none of these speaks, nothing is known.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise

from stepscore.episodes.labels.labels import Label, Labels
from stepscore.types import Mode

POTENTIAL = "potential"
"""Name of the progress labels that are 1 exactly where the task's success is true."""

SLACK_S = 1e-5
"""Times that differ by less are one moment: tables keep them in fewer digits than videos."""

Span = tuple[float, float]


@dataclass(frozen=True)
class Truth:
    """When a statement was true; false at all other times.

    Attributes:
        true: Seconds from and to (not included) which it was true.
        unknown: Seconds from and to which nobody said; ``true`` goes before it.
    """

    true: tuple[Span, ...] = ()
    unknown: tuple[Span, ...] = ()

    def held(self, moment_s: float) -> bool | None:
        """Whether it was true at a moment; ``None`` where not known."""
        at = moment_s + SLACK_S
        if any(start <= at < end for start, end in self.true):
            return True
        return None if any(start <= at < end for start, end in self.unknown) else False

    def happened(self, moment_s: float) -> bool | None:
        """Whether it was true at a moment or before it; ``None`` where not known."""
        at = moment_s + SLACK_S
        if any(start <= at for start, _ in self.true):
            return True
        return None if any(start <= at for start, _ in self.unknown) else False

    def at_end(self, mode: Mode, moment_s: float) -> bool | None:
        """The verdict on an episode whose last frame is at ``moment_s``."""
        return self.happened(moment_s) if mode == "ever" else self.held(moment_s)


def success_truth(labels: Labels, last_s: float) -> Truth:
    """When the task's success was true, in an episode whose last frame is at ``last_s``."""
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
        agrees = (by_potential.happened(last_s), by_potential.held(last_s))
        if all(said in (None, found) for said, found in zip((ever, holds), agrees, strict=True)):
            return by_potential
    return _at_end_only(last_s, holds=holds)


def subgoal_truth(labels: Labels, name: str, mode: Mode, last_s: float) -> Truth:
    """When a subgoal was true, in an episode whose last frame is at ``last_s``."""
    rows = [row for row in labels.rows if row.kind == "subgoal" and row.name == name]
    spans = true_spans(rows)
    if spans:
        return _from_spans(spans)
    stated = _stated(rows)
    if mode == "ever":
        return Truth() if stated is False else _at_end_only(last_s, holds=None)
    return _without_false(_at_end_only(last_s, holds=stated), rows)


def _without_false(truth: Truth, rows: Sequence[Label]) -> Truth:
    """The truth, no longer unknown where rows of value 0 say from when to when it was false."""
    unknown = [(max(0.0, start), end) for start, end in truth.unknown]
    for row in rows:
        if row.value < 0.5 and math.isfinite(row.start_s) and math.isfinite(row.end_s):
            pieces = [((a, min(b, row.start_s)), (max(a, row.end_s), b)) for a, b in unknown]
            unknown = [piece for both in pieces for piece in both if piece[0] < piece[1]]
    return Truth(truth.true, tuple(unknown))


def true_spans(rows: Iterable[Label]) -> list[Span]:
    """Start and end of the rows that say from when it was true, by start; a later row overrides."""
    latest = {(row.name, row.start_s): row for row in rows if math.isfinite(row.start_s)}
    return sorted((row.start_s, row.end_s) for row in latest.values() if row.value >= 0.5)


def _stated(rows: Iterable[Label]) -> bool | None:
    """The last verdict on the whole episode. A row that says from when to when it was true is none."""
    whole = [row.value for row in rows if math.isnan(row.start_s) or row.value < 0.5]
    return None if not whole or math.isnan(whole[-1]) else whole[-1] >= 0.5


def _from_spans(spans: Sequence[Span]) -> Truth:
    opened = [start for start, end in spans if math.isnan(end)]
    closed = [(start, end) for start, end in spans if not math.isnan(end)]
    return Truth(
        true=(*closed, *((start, start + 2 * SLACK_S) for start in opened)),
        unknown=tuple((start, math.inf) for start in opened),
    )


def _from_potential(labels: Labels) -> Truth | None:
    """True at labelled moments of value 1, and between two of them; unknown between moments that differ."""
    times, values = labels.progress(POTENTIAL)
    if not len(times):
        return None
    moments = times.tolist()
    reached = [None if math.isnan(value) else value >= 1.0 - 1e-9 for value in values.tolist()]
    pieces: list[tuple[bool | None, Span]] = [(None, (0.0, moments[0]))] if moments[0] > SLACK_S else []
    pieces += [(known, (m, m + 2 * SLACK_S)) for m, known in zip(moments, reached, strict=True)]
    for (this, known), (following, then) in pairwise(zip(moments, reached, strict=True)):
        pieces.append((known if known == then else None, (this + 2 * SLACK_S, following)))
    pieces.append((None, (moments[-1] + 2 * SLACK_S, math.inf)))
    return Truth(
        true=tuple(span for known, span in pieces if known),
        unknown=tuple(span for known, span in pieces if known is None),
    )


def _at_end_only(last_s: float, *, holds: bool | None) -> Truth:
    if holds is None:
        return Truth(unknown=((-math.inf, math.inf),))
    return Truth(true=((last_s, math.inf),) if holds else (), unknown=((-math.inf, last_s),))
