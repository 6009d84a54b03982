"""Labels of a changed episode: what is still known after a change, at the times it now has.

A verdict (success, subgoal) that the labels no longer decide becomes unknown: a row without a value. What
they decide is worked out by :mod:`stepscore.episodes.labels.label_intervals`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from stepscore.episodes.labels.label_intervals import (
    SLACK_S,
    Span,
    Truth,
    subgoal_truth,
    success_truth,
    true_spans,
)
from stepscore.episodes.labels.labels import Label, Labels
from stepscore.episodes.labels.subgoals import Subgoal
from stepscore.types import FloatArray, Mode


@dataclass(frozen=True)
class Labelled:
    """What the labels of an episode are about.

    Attributes:
        labels: The labels.
        subgoals: Its subgoals; a labelled one that is not among them counts as ``ever``.
        last_s: When its last frame is shown.
        duration_s: When that frame ends.
    """

    labels: Labels
    subgoals: Sequence[Subgoal]
    last_s: float
    duration_s: float

    def mode(self, subgoal: str) -> Mode:
        """When a subgoal counts."""
        return next((goal.mode for goal in self.subgoals if goal.name == subgoal), "ever")


class Said(NamedTuple):
    """What is known of one success or subgoal after a change."""

    spans: list[Span]
    ever: bool | None
    holds: bool | None


def frozen_labels(given: Labelled, moment_s: float) -> Labels:
    """Labels of one moment shown throughout.

    Verdicts of both modes are what was true at that moment. Progress stays at its value there. Stages go,
    since nothing runs.
    """

    def say(truth: Truth, spans: list[Span]) -> Said:
        held = truth.held(moment_s)
        return Said([(0.0, given.duration_s)] if spans and held else [], held, held)

    rows = _restated(given, say)
    for name in given.labels.potentials:
        value = _progress_at(given.labels, name, moment_s)
        if not math.isnan(value):
            rows += [replace(_first_of(given.labels, name), start_s=t, value=value) for t in _ends(given)]
    return Labels(tuple(rows))


def reversed_labels(given: Labelled) -> Labels:
    """Labels of an episode played backwards.

    ``holds`` is what was true at the recorded first frame. ``ever`` stays false where the thing was never
    true, and is unknown otherwise: done backwards, it is another thing. Progress is that of the state shown,
    so it falls where it rose. Stages go, for an action backwards is another action.
    """
    end = given.duration_s

    def say(truth: Truth, spans: list[Span]) -> Said:
        moved = [(max(0.0, end - b), end - a) for a, b in reversed(spans) if not math.isnan(b)]
        never = truth.happened(given.last_s) is False
        return Said(moved, False if never else None, truth.held(0.0))

    rows = _restated(given, say)
    progress = [row for row in given.labels.rows if row.kind == "progress"]
    rows += [
        replace(row, start_s=max(0.0, given.last_s - row.start_s))
        for row in progress
        if row.start_s <= given.last_s + SLACK_S
    ]
    return Labels(tuple(rows))


def cut_labels(given: Labelled, last_s: float, duration_s: float) -> Labels:
    """Labels of the part up to the frame at ``last_s``, which ends at ``duration_s``.

    Verdicts are those of the last frame left. Stages are cut too, but kept only where success is still known:
    the stages of an episode of unknown outcome would be read as a whole procedure.
    """

    def say(truth: Truth, spans: list[Span]) -> Said:
        kept = [(a, b if math.isnan(b) else min(b, duration_s)) for a, b in spans if a <= last_s + SLACK_S]
        return Said(kept, truth.happened(last_s), truth.held(last_s))

    rows = _restated(given, say)
    rows += [r for r in given.labels.rows if r.kind == "progress" and r.start_s <= last_s + SLACK_S]
    if Labels(tuple(rows)).success is not None:
        rows += [
            replace(row, end_s=min(row.end_s, duration_s))
            for row in given.labels.rows
            if row.kind == "stage" and row.start_s <= last_s + SLACK_S
        ]
    return Labels(tuple(rows))


def slowed_labels(labels: Labels, factor: float) -> Labels:
    """The same labels at stretched times."""
    return Labels(tuple(replace(r, start_s=r.start_s * factor, end_s=r.end_s * factor) for r in labels.rows))


def paused_labels(labels: Labels, at_s: float, seconds: float) -> Labels:
    """The same labels, those after ``at_s`` later by ``seconds``; progress is level during the pause."""

    def later(moment_s: float) -> float:
        return moment_s + seconds if moment_s > at_s + SLACK_S else moment_s

    rows = [replace(row, start_s=later(row.start_s), end_s=later(row.end_s)) for row in labels.rows]
    for name in labels.potentials:
        value = _progress_at(labels, name, at_s)
        if not math.isnan(value):
            first = _first_of(labels, name)
            rows += [replace(first, start_s=t, value=value) for t in (at_s, at_s + seconds)]
    return Labels(tuple(rows))


def _restated(given: Labelled, say: Callable[[Truth, list[Span]], Said]) -> list[Label]:
    """Success and subgoal rows after a change: spans first, then the verdict, for the last row counts."""
    rows: list[Label] = []
    success = [row for row in given.labels.rows if row.kind == "success"]
    if success:
        said = say(success_truth(given.labels, given.last_s), true_spans(success))
        if said.ever is False and not any(row.name == "ever" for row in success):
            # Without its spans, nothing else would say that what is left never was true.
            rows.append(replace(success[-1], name="ever", start_s=math.nan, end_s=math.nan, value=0.0))
        rows += _rows(success, said, lambda name: "ever" if name == "ever" else "holds")
    subgoals = [row for row in given.labels.rows if row.kind == "subgoal"]
    for name in dict.fromkeys(row.name for row in subgoals):
        truth = subgoal_truth(given.labels, name, given.mode(name), given.last_s)
        own = [row for row in subgoals if row.name == name]
        rows += _rows(own, say(truth, true_spans(own)), given.mode)
    return rows


def _rows(own: Sequence[Label], said: Said, mode: Callable[[str], Mode]) -> list[Label]:
    """Rows that say ``said``, by the authors of ``own``; the name that spoke last speaks last."""
    rows = [replace(own[-1], start_s=a, end_s=b, value=1.0) for a, b in said.spans]
    last_of = {row.name: row for row in own}
    spoke = sorted(last_of, key=lambda name: max(i for i, row in enumerate(own) if row.name == name))
    for name in spoke:
        verdict = said.ever if mode(name) == "ever" else said.holds
        value = math.nan if verdict is None else float(verdict)
        rows.append(replace(last_of[name], start_s=math.nan, end_s=math.nan, value=value))
    return rows


def _first_of(labels: Labels, potential: str) -> Label:
    return next(row for row in labels.rows if row.kind == "progress" and row.name == potential)


def _progress_at(labels: Labels, potential: str, moment_s: float) -> float:
    """Labelled progress at a moment, linear between labelled ones; NaN before the first, after the last."""
    times, values = labels.progress(potential)
    inside: FloatArray = np.clip(moment_s, times[0], times[-1])
    if abs(float(inside) - moment_s) > SLACK_S:
        return math.nan
    return float(np.interp(inside, times, values))


def _ends(given: Labelled) -> list[float]:
    """First and last moment at which a frame is shown; one moment in an episode of one frame."""
    return sorted({0.0, given.last_s})
