"""Progress labels for the episodes of a source: spans and frames in, rows of the labels table out."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, NamedTuple, get_args

import numpy as np

from stepscore.episodes import Episode, Label, Labels, Stage, View, sample_indices
from stepscore.episodes.labels import TaskSubgoals, find_subgoals
from stepscore.errors import EpisodeError, StepScoreError, UnknownNameError
from stepscore.procedures.robust_progress import robust_progress, usual_change, visits
from stepscore.procedures.spans import (
    ODD,
    SpanProblem,
    check_spans,
    done_spans,
    span_problems,
    stage_spans,
    without_done,
)
from stepscore.procedures.stage_progress import (
    NOT_DONE_SCALE,
    linear_progress,
    procvlm_progress,
    procvlm_sub_tasks,
    sarm_progress,
)
from stepscore.procedures.stage_proportions import procedure_order, temporal_proportions
from stepscore.procedures.visual_change import phash_similarity, visual_change
from stepscore.types import FloatArray

Method = Literal["procvlm", "sarm", "robust", "linear"]
Shares = Literal["equal", "paper", "lerobot"]


@dataclass(frozen=True)
class LabelOptions:
    """How labels are made.

    Attributes:
        method: ``procvlm`` and ``sarm`` as published, ``robust`` (ours), or ``linear`` in time.
        prior: The stages' shares: ``equal``, or SARM's by ``paper`` or ``lerobot``; if not given, ``paper``
            for sarm and ``equal`` for robust. procvlm has its own.
        scheme: Which subtask columns of a LeRobot dataset; see ``stage_spans``.
        view: The camera whose change is measured; the main one if not given.
        assume_success: Take episodes without a success label for successes, as demonstrations are.
    """

    method: Method
    prior: Shares | None = None
    scheme: str | None = None
    view: str | None = None
    assume_success: bool = False

    def __post_init__(self) -> None:
        if self.method not in get_args(Method):
            raise UnknownNameError("method", self.method, get_args(Method))
        if self.prior is not None and self.prior not in get_args(Shares):
            raise UnknownNameError("prior", self.prior, get_args(Shares))


@dataclass(frozen=True)
class Progress:
    """An episode's label at every frame."""

    times: FloatArray
    progress: FloatArray

    def rows(self, name: str, author: str, fps: float | None = None) -> tuple[Label, ...]:
        """Rows of the labels table: of every frame, or of those shown every 1/fps seconds and the last."""
        picked = np.arange(len(self.times))
        if fps is not None:
            picked = np.unique(np.append(sample_indices(self.times, name, fps=fps), picked[-1:]))
        return tuple(
            Label(
                "progress", name, start_s=float(self.times[i]), value=float(self.progress[i]), author=author
            )
            for i in picked
        )


@dataclass(frozen=True)
class Labelled:
    """What came of a source.

    Attributes:
        progress: Labels by episode id.
        errors: Why an episode has none, by id.
        notes: What is odd about the spans of episodes that have: gaps, and stages in another order.
    """

    progress: Mapping[str, Progress]
    errors: Mapping[str, str] = field(default_factory=dict)
    notes: Mapping[str, tuple[SpanProblem, ...]] = field(default_factory=dict)


class Outcome(NamedTuple):
    """Whether the task is done at the last frame, and whether it was at some time; ``None`` for unknown."""

    at_end: bool | None
    ever: bool | None


class _Taken(NamedTuple):
    """What is needed of one episode."""

    episode: Episode
    spans: tuple[Stage, ...]
    times: FloatArray
    outcome: Outcome
    measured: FloatArray


def label_progress(
    episodes: Iterable[Episode],
    options: LabelOptions,
    vocabulary: Mapping[str, TaskSubgoals] | None = None,
    on_done: Callable[[str], None] | None = None,
) -> Labelled:
    """Progress labels of every episode that can have them.

    Shares are taken over the episodes of a task that did not fail, the usual change of a stage over all that
    completed it. Where the labels say when the last subgoal is true, that time belongs to no stage.

    Args:
        episodes: The rollouts, with their stage labels joined.
        options: How.
        vocabulary: The stages of each task in order, from ``read_subgoals``; a stage of another name is an
            error. Without it the procedure is the order in which stages are first done.
        on_done: Told the id of each episode that has been looked at.
    """
    tasks: dict[str, list[_Taken]] = {}
    errors: dict[str, str] = {}
    for episode in episodes:
        try:
            one = _take(episode, stage_names(episode, vocabulary), options)
            tasks.setdefault(episode.task or episode.instruction, []).append(one)
        except StepScoreError as error:
            errors[episode.id] = str(error)
        if on_done is not None:
            on_done(episode.id)
    found: dict[str, Progress] = {}
    notes: dict[str, tuple[SpanProblem, ...]] = {}
    for taken in tasks.values():
        named = stage_names(taken[0].episode, vocabulary)
        procedure = list(named) if named else procedure_order([one.spans for one in taken])
        for one, progress in zip(taken, _label_task(taken, procedure, options), strict=True):
            found[one.episode.id] = Progress(one.times, progress)
            if odd := span_problems(one.spans, procedure):
                notes[one.episode.id] = odd
    return Labelled(found, errors, notes)


def stage_names(episode: Episode, vocabulary: Mapping[str, TaskSubgoals] | None) -> tuple[str, ...] | None:
    """The closed vocabulary of an episode's task; ``None`` where there is no vocabulary at all."""
    if vocabulary is None:
        return None
    entry = find_subgoals(vocabulary, episode.task, episode.instruction)
    if entry is None:
        raise EpisodeError(
            f"Episode {episode.id}: the vocabulary has no task {(episode.task or episode.instruction)!r}. "
            f"Tasks: {', '.join(vocabulary)}. Add it, or a task '*' for all."
        )
    return tuple(subgoal.name for subgoal in entry.subgoals)


def labelled_outcome(labels: Labels) -> Outcome:
    """The success labels of an episode; done at the end is done at some time, and never is not at the end."""
    said = {
        ("ever" if row.name == "ever" else "holds"): row.value >= 0.5
        for row in labels.rows
        if row.kind == "success" and not math.isnan(row.value)
    }
    at_end, ever = said.get("holds"), said.get("ever")
    return Outcome(False if at_end is None and ever is False else at_end, True if at_end else ever)


def _take(episode: Episode, named: Sequence[str] | None, options: LabelOptions) -> _Taken:
    """What a method needs of an episode; an EpisodeError where that is not there."""
    if not episode.views:
        raise EpisodeError(f"Episode {episode.id} has no video, so no frames to label.")
    view = episode.view(options.view or episode.main_view)
    times, info, method = view.timestamps(), view.info(), options.method
    result = labelled_outcome(episode.labels)
    if result == Outcome(None, None) and options.assume_success:
        result = Outcome(at_end=True, ever=True)
    if result == Outcome(None, None) and method in ("procvlm", "robust"):
        raise EpisodeError(
            f"Episode {episode.id} has no success label, on which {method} labels depend. Give one with "
            "--labels, or say --assume-success if it is a demonstration."
        )
    spans: tuple[Stage, ...] = ()
    if method != "linear":
        # An annotator may write the frame behind the last as the end.
        spans = check_spans(
            stage_spans(episode, options.scheme),
            f"Episode {episode.id}",
            named,
            duration_s=info.duration_s + 1.0 / info.fps,
            allow=ODD,
        )
    working = without_done(spans, done_spans(episode)) or spans
    return _Taken(episode, working, times, result, _measured(view, method))


def _measured(view: View, method: Method) -> FloatArray:
    """What a method looks at in the pictures, a number a frame; nothing where it looks at none."""
    if method == "procvlm":
        return phash_similarity(view)
    return visual_change(view) if method == "robust" else np.empty(0)


def _label_task(
    taken: Sequence[_Taken], procedure: Sequence[str], options: LabelOptions
) -> Iterator[FloatArray]:
    """The labels of the episodes of one task, in order."""
    method = options.method
    if method == "linear":
        yield from (linear_progress(one.times, float(one.times[-1])) for one in taken)
        return
    if method == "procvlm":
        for one in taken:
            done = _succeeded(one, procedure)
            names = procvlm_sub_tasks(one.spans, one.times, done=done)
            yield procvlm_progress(names, one.measured) * (1.0 if done else NOT_DONE_SCALE)
        return
    whole = [one for one in taken if _succeeded(one, procedure)] or list(taken)
    prior = options.prior or ("paper" if method == "sarm" else "equal")
    shares = {name: 1.0 / len(procedure) for name in procedure}
    if prior != "equal":
        shares = temporal_proportions([one.spans for one in whole], procedure, prior)
    if method == "sarm":
        yield from (sarm_progress(one.spans, shares, one.times) for one in taken)
        return
    ends = [_outcome(one, procedure) for one in taken]
    seen = [
        visits(one.spans, procedure, one.times, succeeded=at_end, reached=ever)
        for one, (at_end, ever) in zip(taken, ends, strict=True)
    ]
    usual = usual_change(seen, [one.measured for one in taken], procedure)
    for one, (at_end, ever) in zip(taken, ends, strict=True):
        yield robust_progress(
            one.spans, shares, one.times, one.measured, succeeded=at_end, reached=ever, usual=usual
        )


def _outcome(one: _Taken, procedure: Sequence[str]) -> tuple[bool, bool]:
    """Whether the task is done at the end, and at some time.

    Where only ``ever`` is labelled, it is done at the end if nothing but its last stage came last.
    """
    at_end, ever = one.outcome
    if at_end is None:
        at_end = bool(ever) and one.spans[-1].name == procedure[-1]
    return at_end, bool(ever) or at_end


def _succeeded(one: _Taken, procedure: Sequence[str]) -> bool:
    return one.outcome == Outcome(None, None) or _outcome(one, procedure)[0]
