"""Stage spans of an episode, and the problems with them.

Readers turn every source into stage labels: manifests, labels files, LeRobot's subtask columns and
``language_persistent`` rows, Robo-Dopamine's keyframes. This module checks them against a vocabulary.
Problems are reported; nothing is moved, cut or renamed.

=================  ==========================================================================
problem            meaning
=================  ==========================================================================
end before start   the stage ends at or before its start, or a time is not a number
outside            it runs beyond the episode
wrong time order   it is listed after a stage that starts later
overlap            it starts before the previous stage ends
gap                there is time without a stage before it
unknown name       it is not in the vocabulary
wrong order        it follows a stage that comes later in the vocabulary
=================  ==========================================================================
"""

from __future__ import annotations

import difflib
import math
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Literal, NamedTuple

from stepscore.episodes import Episode, Label, Stage
from stepscore.errors import EpisodeError, UnknownNameError
from stepscore.metrics import procedure_order

ProblemKind = Literal[
    "end before start", "outside", "wrong time order", "overlap", "gap", "unknown name", "wrong order"
]
TOLERATED: frozenset[ProblemKind] = frozenset({"gap", "wrong order"})
"""Problems that leave the stages usable."""

SPAN_TOLERANCE_S = 1e-9
"""Largest difference in seconds of two equal times."""


class SpanProblem(NamedTuple):
    """A problem with one span: its kind, the stage's name, and a sentence that locates it."""

    kind: ProblemKind
    stage: str
    text: str


def stage_spans(episode: Episode, scheme: str | None = None) -> tuple[Stage, ...]:
    """Return the episode's stages by start time.

    Args:
        scheme: Which annotations of a LeRobot dataset: ``"sparse"``, ``"dense"`` or ``"subtask"`` (the
            unprefixed
        columns). By default the labels joined last, else the first of these that exists.

    Raises:
        EpisodeError: The episode has no stages.
    """
    if scheme is None:
        if not episode.labels.stages:
            error = episode.metadata.get("labels_error")
            why = f" ({error})" if error else ""
            raise EpisodeError(
                f"Episode {episode.id} has no stage labels{why}. Make them: stepscore annotate SOURCE "
                "--model ... -o labels.parquet, and give them with --labels."
            )
        return episode.labels.stages
    schemes = dict(_schemes(episode))
    if scheme not in schemes:
        raise UnknownNameError("subtask scheme", scheme, schemes, where=f"episode {episode.id}")
    return schemes[scheme]


def done_spans(episode: Episode) -> tuple[tuple[float, float], ...]:
    """Return the (start, end) seconds in which the last subgoal is labelled true; empty if unknown."""
    last = episode.subgoals[-1].name if episode.subgoals else None
    return tuple(
        (row.start_s, row.end_s)
        for row in episode.labels.rows
        if row.kind == "subgoal" and row.name == last and row.value == 1.0 and row.end_s > row.start_s
    )


def success_from_stages(episodes: Sequence[Episode]) -> list[Episode]:
    """Return the episodes; one with stages and without a success label gets one from its stages.

    It is a success if it has the last stage of its task, in the order of :func:`procedure_order`, else a failure.
    That holds only where the last stage was labelled when it was completed; the stages do not say so.
    """
    tasks: dict[str, list[Sequence[Stage]]] = {}
    for episode in episodes:
        if episode.labels.stages:
            tasks.setdefault(_task(episode), []).append(episode.labels.stages)
    last = {task: procedure_order(spans)[-1] for task, spans in tasks.items()}
    derived = []
    for episode in episodes:
        stages, labels = episode.labels.stages, episode.labels
        if stages and labels.success is None:
            done = last[_task(episode)] in {stage.name for stage in stages}
            row = Label("success", episode.success_mode or "holds", value=float(done), author="stages")
            episode = replace(episode, labels=labels.with_rows([row]))
        derived.append(episode)
    return derived


def _task(episode: Episode) -> str:
    return episode.task or episode.instruction


def without_done(spans: Sequence[Stage], done: Sequence[tuple[float, float]]) -> tuple[Stage, ...]:
    """Return the stages without the time in which the task was done: labels often let the last stage go on."""
    pieces = list(spans)
    for start_s, end_s in done:
        cut = [
            (Stage(s.name, s.start_s, min(s.end_s, start_s)), Stage(s.name, max(s.start_s, end_s), s.end_s))
            for s in pieces
        ]
        pieces = [part for both in cut for part in both if part.end_s - part.start_s > SPAN_TOLERANCE_S]
    return tuple(pieces)


def _schemes(episode: Episode) -> Iterator[tuple[str, tuple[Stage, ...]]]:
    """Yield the annotations of a LeRobot dataset: one became the labels, the others are in the metadata."""
    authors = {row.author for row in episode.labels.rows if row.kind == "stage"}
    for scheme, column in (
        ("sparse", "sparse_subtask_names"),
        ("dense", "dense_subtask_names"),
        ("subtask", "subtask_names"),
    ):
        kept = episode.metadata.get(f"{scheme}_stages")
        if authors == {column}:
            yield scheme, episode.labels.stages
        elif isinstance(kept, Sequence):
            yield scheme, tuple(_stage(entry) for entry in kept)


def _stage(entry: Mapping[str, str | float]) -> Stage:
    return Stage(str(entry["name"]), float(entry["start_s"]), float(entry["end_s"]))


def span_problems(
    spans: Sequence[Stage],
    vocabulary: Sequence[str] | None = None,
    *,
    duration_s: float | None = None,
    gap_s: float = SPAN_TOLERANCE_S,
) -> tuple[SpanProblem, ...]:
    """Return every problem with the spans, in order.

    Args:
        spans: The stages in the order in which they were stated.
        vocabulary: The only allowed names, in the order of the procedure; any name by default.
        duration_s: The episode's length; with it, time before the first and after the last stage is a gap.
        gap_s: Longest gap that is not reported.
    """
    return tuple(_problems(spans, vocabulary, duration_s, gap_s))


def check_spans(
    spans: Sequence[Stage],
    where: str,
    vocabulary: Sequence[str] | None = None,
    *,
    duration_s: float | None = None,
    allow: Collection[ProblemKind] = (),
) -> tuple[Stage, ...]:
    """Return the spans; raise EpisodeError for problems that ``allow`` does not name."""
    problems = [p for p in span_problems(spans, vocabulary, duration_s=duration_s) if p.kind not in allow]
    if problems:
        listed = " ".join(f"({number}) {p.kind}: {p.text}" for number, p in enumerate(problems, start=1))
        raise EpisodeError(f"{where}: {len(problems)} problems with its stages. {listed} Correct the labels.")
    return tuple(spans)


def _problems(
    spans: Sequence[Stage], vocabulary: Sequence[str] | None, duration_s: float | None, gap_s: float
) -> Iterator[SpanProblem]:
    before: Stage | None = None
    for span in spans:
        yield from _single_problems(span, vocabulary, duration_s)
        if not _has_duration(span):
            continue
        if before is not None:
            yield from _pair_problems(before, span, vocabulary, gap_s)
        elif duration_s is not None and span.start_s > gap_s:
            yield SpanProblem("gap", span.name, f"no stage from 0 s to {span.start_s:g} s.")
        before = span
    if before is not None and duration_s is not None and duration_s - before.end_s > gap_s:
        text = f"no stage from {before.end_s:g} s to the end at {duration_s:g} s."
        yield SpanProblem("gap", before.name, text)


def _single_problems(
    span: Stage, vocabulary: Sequence[str] | None, duration_s: float | None
) -> Iterator[SpanProblem]:
    described = _describe(span)
    if not _has_duration(span):
        yield SpanProblem("end before start", span.name, f"{described} must end after it starts.")
    elif span.start_s < -SPAN_TOLERANCE_S or (
        duration_s is not None and span.end_s > duration_s + SPAN_TOLERANCE_S
    ):
        end = "" if duration_s is None else f", which runs from 0 s to {duration_s:g} s"
        yield SpanProblem("outside", span.name, f"{described} leaves the episode{end}.")
    if vocabulary is not None and span.name not in vocabulary:
        close = difflib.get_close_matches(span.name, vocabulary, n=1)
        meant = f" Did you mean {close[0]!r}?" if close else ""
        text = f"{described} is not in the vocabulary.{meant} Allowed: {', '.join(vocabulary)}."
        yield SpanProblem("unknown name", span.name, text)


def _pair_problems(
    before: Stage, span: Stage, vocabulary: Sequence[str] | None, gap_s: float
) -> Iterator[SpanProblem]:
    described, previous = _describe(span), _describe(before)
    if span.start_s < before.start_s - SPAN_TOLERANCE_S:
        yield SpanProblem(
            "wrong time order", span.name, f"{described} is listed after {previous}, which starts later."
        )
    elif span.start_s < before.end_s - SPAN_TOLERANCE_S:
        yield SpanProblem("overlap", span.name, f"{described} overlaps {previous}.")
    elif span.start_s - before.end_s > gap_s:
        text = f"no stage from {before.end_s:g} s to {span.start_s:g} s, before {described}."
        yield SpanProblem("gap", span.name, text)
    places = {name: place for place, name in enumerate(vocabulary or ())}
    if span.name in places and before.name in places and places[span.name] < places[before.name]:
        text = f"{described} comes after {previous}, which follows it in the procedure."
        yield SpanProblem("wrong order", span.name, text)


def _has_duration(span: Stage) -> bool:
    return math.isfinite(span.start_s) and math.isfinite(span.end_s) and span.end_s > span.start_s


def _describe(span: Stage) -> str:
    return f"stage {span.name!r} ({span.start_s:g}..{span.end_s:g} s)"
