"""Progress labels for the episodes of a source: from stages and frames to rows of the labels table."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, NamedTuple, get_args

import numpy as np

from stepscore.episodes import Episode, Label, Labels, Stage, View, sample_indices
from stepscore.episodes.labels import TaskSubgoals, find_subgoals
from stepscore.errors import EpisodeError, StepScoreError, UnknownNameError
from stepscore.metrics import procedure_order
from stepscore.procedures.robust_progress import robust_progress, usual_change, visits
from stepscore.procedures.spans import (
    TOLERATED,
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
    temporal_proportions,
)
from stepscore.procedures.visual_change import phash_similarity, visual_change
from stepscore.types import FloatArray

Method = Literal["procvlm", "sarm", "robust", "linear"]
StagePrior = Literal["equal", "paper", "lerobot"]


@dataclass(frozen=True)
class ProgressLabelOptions:
    """Method of labelling and its options.

    Attributes:
        method: ``procvlm`` and ``sarm`` as published, ``robust`` (ours), or ``linear`` in time.
        prior: The stages' shares of progress: ``equal``, or SARM's by ``paper`` or ``lerobot``; by default
            ``paper`` for
        sarm and ``equal`` for robust. procvlm has its own.
        scheme: Which subtask columns of a LeRobot dataset; see ``stage_spans``.
        view: The camera to measure change on; the main view by default.
        assume_success: Count episodes without a success label as successes, like demonstrations.
    """

    method: Method
    prior: StagePrior | None = None
    scheme: str | None = None
    view: str | None = None
    assume_success: bool = False

    def __post_init__(self) -> None:
        if self.method not in get_args(Method):
            raise UnknownNameError("method", self.method, get_args(Method))
        if self.prior is not None and self.prior not in get_args(StagePrior):
            raise UnknownNameError("prior", self.prior, get_args(StagePrior))


@dataclass(frozen=True)
class EpisodeProgress:
    """Labelled progress, 0..1, at every frame of one episode."""

    times: FloatArray
    progress: FloatArray

    def rows(self, name: str, author: str, fps: float | None = None) -> tuple[Label, ...]:
        """Return rows of the labels table for every frame, or for one every 1/fps seconds and the last."""
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
class ProgressLabels:
    """Progress labels of the episodes of a source, by episode id.

    Attributes:
        errors: Why an episode has none.
        notes: Tolerated problems with the stages of labelled episodes.
    """

    progress: Mapping[str, EpisodeProgress]
    errors: Mapping[str, str] = field(default_factory=dict)
    notes: Mapping[str, tuple[SpanProblem, ...]] = field(default_factory=dict)


class Outcome(NamedTuple):
    """Whether the task is done at the last frame, and whether it ever was; ``None`` if unknown."""

    at_end: bool | None
    ever: bool | None


class _MethodInput(NamedTuple):
    """Stages, timestamps, outcome and visual measurements of one episode."""

    episode: Episode
    spans: tuple[Stage, ...]
    times: FloatArray
    outcome: Outcome
    measured: FloatArray


def label_progress(
    episodes: Iterable[Episode],
    options: ProgressLabelOptions,
    vocabulary: Mapping[str, TaskSubgoals] | None = None,
    on_done: Callable[[str], None] | None = None,
) -> ProgressLabels:
    """Label the progress of every episode whose stages allow it.

    Shares come from the episodes of a task that did not fail, the usual change of a stage from all that
    completed it. If labels say when the last subgoal is true, that time belongs to no stage.

    Args:
        vocabulary: The stages of each task in order, from ``read_subgoals``; other names are errors. Without
            it, stages
        are ordered by when they are first done.
        on_done: Called with the id of each episode that has been read.
    """
    tasks: dict[str, list[_MethodInput]] = {}
    errors: dict[str, str] = {}
    for episode in episodes:
        try:
            entry = _read_input(episode, stage_names(episode, vocabulary), options)
            tasks.setdefault(episode.task or episode.instruction, []).append(entry)
        except StepScoreError as error:
            errors[episode.id] = str(error)
        if on_done is not None:
            on_done(episode.id)
    labelled: dict[str, EpisodeProgress] = {}
    notes: dict[str, tuple[SpanProblem, ...]] = {}
    for inputs in tasks.values():
        named = stage_names(inputs[0].episode, vocabulary)
        procedure = list(named) if named else procedure_order([entry.spans for entry in inputs])
        for entry, progress in zip(inputs, _label_task(inputs, procedure, options), strict=True):
            labelled[entry.episode.id] = EpisodeProgress(entry.times, progress)
            if problems := span_problems(entry.spans, procedure):
                notes[entry.episode.id] = problems
    return ProgressLabels(labelled, errors, notes)


def why_not_in_shards(
    options: ProgressLabelOptions, vocabulary: Mapping[str, TaskSubgoals] | None
) -> str | None:
    """Return why episodes cannot be labelled without the others of their task; ``None`` if they can."""
    method = options.method
    if method == "linear":
        return None
    if method == "robust":
        return (
            "robust labels take the usual change of a stage from all episodes of a task. Label them together."
        )
    if method == "sarm" and options.prior != "equal":
        return (
            f"sarm's shares of progress ({options.prior or 'paper'}) are of all episodes of a task. Label them "
            "together, or give every stage the same share: --prior equal"
        )
    if vocabulary is None:
        return f"{method} labels take the order of the stages from all episodes of a task. Give it: --vocabulary FILE"
    return None


def stage_names(episode: Episode, vocabulary: Mapping[str, TaskSubgoals] | None) -> tuple[str, ...] | None:
    """Return the allowed stage names of an episode's task; ``None`` without a vocabulary."""
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
    """Return the labelled outcome: done at the end implies ever done; never done implies not at the end."""
    values = {
        ("ever" if row.name == "ever" else "holds"): row.value for row in labels.rows if row.kind == "success"
    }
    success = {name: value >= 0.5 for name, value in values.items() if not math.isnan(value)}
    at_end, ever = success.get("holds"), success.get("ever")
    return Outcome(False if at_end is None and ever is False else at_end, True if at_end else ever)


def _read_input(episode: Episode, named: Sequence[str] | None, options: ProgressLabelOptions) -> _MethodInput:
    """Return what a method needs of an episode; raise EpisodeError for what is missing."""
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
            "--labels, or --assume-success if it is a demonstration."
        )
    spans: tuple[Stage, ...] = ()
    if method != "linear":
        # An annotator may write the frame behind the last as the end.
        spans = check_spans(
            stage_spans(episode, options.scheme),
            f"Episode {episode.id}",
            named,
            duration_s=info.duration_s + 1.0 / info.fps,
            allow=TOLERATED,
        )
    working = without_done(spans, done_spans(episode)) or spans
    return _MethodInput(episode, working, times, result, _measure(view, method))


def _measure(view: View, method: Method) -> FloatArray:
    """Return one measurement per frame for a method; empty if it needs no frames."""
    if method == "procvlm":
        return phash_similarity(view)
    return visual_change(view) if method == "robust" else np.empty(0)


def _label_task(
    inputs: Sequence[_MethodInput], procedure: Sequence[str], options: ProgressLabelOptions
) -> Iterator[FloatArray]:
    """Yield the labels of the episodes of one task, in order."""
    method = options.method
    if method == "linear":
        yield from (linear_progress(entry.times, float(entry.times[-1])) for entry in inputs)
        return
    if method == "procvlm":
        for entry in inputs:
            done = _succeeded(entry, procedure)
            names = procvlm_sub_tasks(entry.spans, entry.times, done=done)
            yield procvlm_progress(names, entry.measured) * (1.0 if done else NOT_DONE_SCALE)
        return
    successes = [entry for entry in inputs if _succeeded(entry, procedure)] or list(inputs)
    prior = options.prior or ("paper" if method == "sarm" else "equal")
    shares = {name: 1.0 / len(procedure) for name in procedure}
    if prior != "equal":
        shares = temporal_proportions([entry.spans for entry in successes], procedure, prior)
    if method == "sarm":
        yield from (sarm_progress(entry.spans, shares, entry.times) for entry in inputs)
        return
    outcomes = [_outcome(entry, procedure) for entry in inputs]
    visited = [
        visits(entry.spans, procedure, entry.times, succeeded=at_end, reached=ever)
        for entry, (at_end, ever) in zip(inputs, outcomes, strict=True)
    ]
    usual = usual_change(visited, [entry.measured for entry in inputs], procedure)
    for entry, (at_end, ever) in zip(inputs, outcomes, strict=True):
        yield robust_progress(
            entry.spans, shares, entry.times, entry.measured, succeeded=at_end, reached=ever, usual=usual
        )


def _outcome(entry: _MethodInput, procedure: Sequence[str]) -> tuple[bool, bool]:
    """Return whether the task is done at the end, and whether it ever was.

    If only ``ever`` is labelled, it is done at the end if the last stage comes last.
    """
    at_end, ever = entry.outcome
    if at_end is None:
        at_end = bool(ever) and entry.spans[-1].name == procedure[-1]
    return at_end, bool(ever) or at_end


def _succeeded(entry: _MethodInput, procedure: Sequence[str]) -> bool:
    return entry.outcome == Outcome(None, None) or _outcome(entry, procedure)[0]
