"""Labels of a perturbed episode: what is still known, at the times it now has.

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
    LABEL_TOLERANCE_S,
    Interval,
    Truth,
    subgoal_truth,
    success_truth,
    true_spans,
)
from stepscore.episodes.labels.labels import Label, Labels
from stepscore.episodes.labels.subgoals import Subgoal
from stepscore.types import FloatArray, SuccessMode


@dataclass(frozen=True)
class EpisodeLabels:
    """The labels of an episode with the times they refer to.

    Attributes:
        labels: All labels of the episode.
        subgoals: Its subgoals; a labelled one that is not among them counts as ``ever``.
        last_s: Timestamp of its last frame, in seconds.
        duration_s: The second at which that frame ends.
    """

    labels: Labels
    subgoals: Sequence[Subgoal]
    last_s: float
    duration_s: float

    def mode(self, subgoal: str) -> SuccessMode:
        """Return when a subgoal counts."""
        return next((goal.mode for goal in self.subgoals if goal.name == subgoal), "ever")


class PerturbedTruth(NamedTuple):
    """Success or one subgoal after a perturbation: when it is true, the verdicts of both modes, when it is false."""

    spans: list[Interval]
    ever: bool | None
    holds: bool | None
    false: tuple[Interval, ...] = ()


def final_verdict(labels: Labels) -> Label | None:
    """Return the row that states whether success holds at the end; ``None`` where none does."""
    verdicts = [row for row in labels.rows if row.kind == "success" and math.isnan(row.start_s)]
    return next((row for row in reversed(verdicts) if row.name != "ever"), None)


def frozen_labels(given: EpisodeLabels, time_s: float) -> Labels:
    """Return the labels of an episode that shows its frame at ``time_s`` throughout.

    Verdicts of both modes are what was true at that time. Progress stays at its value there. Stages are dropped,
    since no action takes place.
    """

    def perturbed(truth: Truth, spans: list[Interval]) -> PerturbedTruth:
        held = truth.held(time_s)
        return PerturbedTruth([(0.0, given.duration_s)] if spans and held else [], held, held)

    rows = _verdict_rows(given, perturbed)
    for name in given.labels.potentials:
        value = _progress_at(given.labels, name, time_s)
        if not math.isnan(value):
            rows += [replace(_first_of(given.labels, name), start_s=t, value=value) for t in _ends(given)]
    return Labels(tuple(rows))


def reversed_labels(given: EpisodeLabels) -> Labels:
    """Return the labels of an episode played backwards.

    ``holds`` is what was true at the recorded first frame. ``ever`` stays false where it was never true, and is
    unknown otherwise: done backwards, it is another task. Progress is that of the state shown, so it falls where it
    rose. Stages are dropped, for an action played backwards is another action.
    """
    end = given.duration_s

    def perturbed(truth: Truth, spans: list[Interval]) -> PerturbedTruth:
        moved = [(max(0.0, end - b), end - a) for a, b in reversed(spans) if not math.isnan(b)]
        never = truth.happened(given.last_s) is False
        return PerturbedTruth(moved, False if never else None, truth.held(0.0))

    rows = _verdict_rows(given, perturbed)
    progress = [row for row in given.labels.rows if row.kind == "progress"]
    rows += [
        replace(row, start_s=max(0.0, given.last_s - row.start_s))
        for row in progress
        if row.start_s <= given.last_s + LABEL_TOLERANCE_S
    ]
    return Labels(tuple(rows))


def cut_labels(given: EpisodeLabels, last_s: float, duration_s: float) -> Labels:
    """Return the labels of the part up to the frame at ``last_s``, which ends at ``duration_s``.

    Verdicts are those of the last frame left. Stages are cut too, but kept only where success is still known:
    the stages of an episode of unknown outcome would be read as a whole procedure.
    """
    latest_s = last_s + LABEL_TOLERANCE_S

    def perturbed(truth: Truth, spans: list[Interval]) -> PerturbedTruth:
        kept = [(a, b if math.isnan(b) else min(b, duration_s)) for a, b in spans if a <= latest_s]
        return PerturbedTruth(kept, truth.happened(last_s), truth.held(last_s))

    rows = _verdict_rows(given, perturbed)
    rows += [r for r in given.labels.rows if r.kind == "progress" and r.start_s <= latest_s]
    if Labels(tuple(rows)).success is not None:
        rows += [
            replace(row, end_s=min(row.end_s, duration_s))
            for row in given.labels.rows
            if row.kind == "stage" and row.start_s <= latest_s
        ]
    return Labels(tuple(rows))


def replayed_labels(given: EpisodeLabels, recorded: FloatArray, shown: FloatArray, frame_s: float) -> Labels:
    """Return the labels of an episode that shows recorded frames in another order.

    What was true of a frame is true of it whenever it is shown: ``holds`` is what was true at the last frame shown,
    ``ever`` whether it was true at any frame shown. Progress is that of the frame shown. Stages are dropped: an
    action played backwards, or cut in two, is another action.

    Args:
        given: The labels as recorded.
        recorded: Recorded timestamp of each frame shown.
        shown: The timestamp it is shown at now.
        frame_s: Length of a frame.
    """

    def perturbed(truth: Truth, spans: list[Interval]) -> PerturbedTruth:
        held = [truth.held(float(time_s)) for time_s in recorded]
        moved: list[Interval] = []
        if spans:
            ends = [*shown[1:].tolist(), float(shown[-1]) + frame_s]
            for start, end, true in zip(shown.tolist(), ends, held, strict=True):
                if true and moved and moved[-1][1] == start:
                    moved[-1] = (moved[-1][0], end)
                elif true:
                    moved.append((start, end))
        ever = True if True in held else (None if None in held else False)
        # Without a span in which it is true, no other row states that it is false at every frame.
        never = ((0.0, float(shown[-1]) + frame_s),) if ever is False else ()
        return PerturbedTruth(moved, ever, held[-1], never)

    rows = _verdict_rows(given, perturbed)
    for name in given.labels.potentials:
        first, (times, values) = _first_of(given.labels, name), given.labels.progress(name)
        inside = (recorded >= times[0] - LABEL_TOLERANCE_S) & (recorded <= times[-1] + LABEL_TOLERANCE_S)
        at_frames = np.interp(recorded, times, values)
        rows += [
            replace(first, start_s=at, value=value)
            for at, value, known in zip(shown.tolist(), at_frames.tolist(), inside.tolist(), strict=True)
            if known and not math.isnan(value)
        ]
    return Labels(tuple(rows))


def twice_labels(labels: Labels, second_s: float) -> Labels:
    """Return the labels of a task that is to be done two times, from those of its recording played twice.

    Where it is done at the end of the recording, half is done after the first time, and progress is half of each
    time's. Otherwise the effect of a second try, and so progress, is unknown. Success is as recorded.
    """
    verdict = final_verdict(labels)
    if verdict is None:
        return Labels()
    rows = [verdict]
    if verdict.value >= 0.5:
        rows += [
            replace(row, value=(row.value + (row.start_s > second_s - LABEL_TOLERANCE_S)) / 2)
            for row in labels.rows
            if row.kind == "progress"
        ]
    return Labels(tuple(rows))


def slowed_labels(labels: Labels, factor: float) -> Labels:
    """Return the same labels at stretched times."""
    return Labels(tuple(replace(r, start_s=r.start_s * factor, end_s=r.end_s * factor) for r in labels.rows))


def paused_labels(labels: Labels, at_s: float, seconds: float) -> Labels:
    """Return the same labels, those after ``at_s`` later by ``seconds``; progress is level during the pause."""

    def later(time_s: float) -> float:
        return time_s + seconds if time_s > at_s + LABEL_TOLERANCE_S else time_s

    rows = [replace(row, start_s=later(row.start_s), end_s=later(row.end_s)) for row in labels.rows]
    for name in labels.potentials:
        value = _progress_at(labels, name, at_s)
        if not math.isnan(value):
            first = _first_of(labels, name)
            rows += [replace(first, start_s=t, value=value) for t in (at_s, at_s + seconds)]
    return Labels(tuple(rows))


def _verdict_rows(
    given: EpisodeLabels, perturbed: Callable[[Truth, list[Interval]], PerturbedTruth]
) -> list[Label]:
    """Return success and subgoal rows after a perturbation: spans, then the verdict, for the last row counts."""
    rows: list[Label] = []
    success = [row for row in given.labels.rows if row.kind == "success"]
    if success:
        truth = perturbed(success_truth(given.labels, given.last_s), true_spans(success))
        if truth.ever is False and not any(row.name == "ever" for row in success):
            # Without its spans, no other row would state that it was never true in what is left.
            rows.append(replace(success[-1], name="ever", start_s=math.nan, end_s=math.nan, value=0.0))
        rows += _rows(success, truth, lambda name: "ever" if name == "ever" else "holds")
    subgoals = [row for row in given.labels.rows if row.kind == "subgoal"]
    for name in dict.fromkeys(row.name for row in subgoals):
        recorded = subgoal_truth(given.labels, name, given.mode(name), given.last_s)
        own = [row for row in subgoals if row.name == name]
        rows += _rows(own, perturbed(recorded, true_spans(own)), given.mode)
    return rows


def _rows(own: Sequence[Label], truth: PerturbedTruth, mode: Callable[[str], SuccessMode]) -> list[Label]:
    """Return rows that state ``truth``, by the authors of ``own``; the name that came last still comes last."""
    rows = [replace(own[-1], start_s=a, end_s=b, value=1.0) for a, b in truth.spans]
    last_of = {row.name: row for row in own}
    by_last_row = sorted(last_of, key=lambda name: max(i for i, row in enumerate(own) if row.name == name))
    for name in by_last_row:
        verdict = truth.ever if mode(name) == "ever" else truth.holds
        value = math.nan if verdict is None else float(verdict)
        if last_of[name].kind == "subgoal" and mode(name) == "holds":
            rows += [replace(last_of[name], start_s=a, end_s=b, value=0.0) for a, b in truth.false]
        rows.append(replace(last_of[name], start_s=math.nan, end_s=math.nan, value=value))
    return rows


def _first_of(labels: Labels, potential: str) -> Label:
    return next(row for row in labels.rows if row.kind == "progress" and row.name == potential)


def _progress_at(labels: Labels, potential: str, time_s: float) -> float:
    """Return labelled progress at a time, linear between labels; NaN before the first and after the last."""
    times, values = labels.progress(potential)
    inside: FloatArray = np.clip(time_s, times[0], times[-1])
    if abs(float(inside) - time_s) > LABEL_TOLERANCE_S:
        return math.nan
    return float(np.interp(inside, times, values))


def _ends(given: EpisodeLabels) -> list[float]:
    """Return the timestamps of the first and the last frame; only one in an episode of one frame."""
    return sorted({0.0, given.last_s})
