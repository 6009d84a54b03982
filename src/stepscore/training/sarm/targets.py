"""SARM's targets at each frame, from labels: the stage under way and the share of it that is done.

``stages``
    SARM's own label: y = k + tau, linear in time within a stage, and the stages' breakpoints from their mean
    durations (arXiv 2509.25358, eq. 1). Unless a rollout is known to succeed, how far its last stage got is unknown.
a labelled potential
    Progress as labelled (``potential`` of a simulator, ``robust`` of ``stepscore progress-labels``). Stages are
    ordered by their progress and have equal parts of it, or, where the labels do not fit that, parts that begin
    where the labels of one stage give way to those of the next; tau = (phi - P_k) / (P_{k+1} - P_k).
``linear``
    Time over duration, without stages: frame-index labels.

Where there is no label, the target is unknown (-1 and NaN) and counts in no loss.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from stepscore.episodes import Episode, Stage, first_frame_from
from stepscore.errors import EpisodeError, OptionError
from stepscore.models.sarm import Procedure
from stepscore.procedures import (
    breakpoints,
    done_spans,
    labelled_outcome,
    linear_progress,
    procedure_order,
    sarm_stage_tau,
    stage_spans,
    stage_tau_progress,
    temporal_proportions,
    without_done,
)
from stepscore.types import FloatArray, IntArray

STAGES, LINEAR = "stages", "linear"
SINGLE_STAGE = Procedure(("task",), (0.0, 1.0))
"""A task as one stage."""
MAX_OUTSIDE = 0.02
"""Share of frames whose labelled progress may lie outside of their stage's part."""
_FULL = 0.999
"""In-stage progress from which on SARM's labels mean complete; see ``sarm_stage_tau``."""


@dataclass(frozen=True, eq=False)
class Targets:
    """Targets of one head for one episode.

    Attributes:
        stage: Index of the stage at each frame, -1 where unknown, (n,).
        share: How much of it is done, 0..1, NaN where unknown, (n,).
        progress: Progress of the task, which follows from both, 0..1, NaN where unknown, (n,).
    """

    stage: IntArray
    share: FloatArray
    progress: FloatArray


@dataclass(frozen=True, eq=False)
class LabelledEpisode:
    """An episode with the labels that its targets are made from.

    Attributes:
        episode: The episode, with labels joined.
        times: Timestamps of its main view's frames, (n,).
        spans: Its stages, without the time after the task was done; empty where none are needed.
        potential: Labelled progress at each frame, (n,); ``None`` where it is made from stages.
        done: Whether the task is done at the end; ``None`` where not known.
    """

    episode: Episode
    times: FloatArray
    spans: tuple[Stage, ...]
    potential: FloatArray | None
    done: bool | None

    @property
    def task(self) -> str:
        """The task's name, or the instruction where it has none."""
        return self.episode.task or self.episode.instruction


def read_episode_labels(
    episode: Episode, progress: str, *, scheme: str | None = None, staged: bool = True
) -> LabelledEpisode:
    """Read the labels of an episode that a kind of progress needs.

    Args:
        episode: The episode, with labels joined.
        progress: ``stages``, ``linear`` or a potential's name.
        scheme: Which subtask columns of a LeRobot dataset; see ``stage_spans``.
        staged: Whether stages are needed.

    Raises:
        EpisodeError: It has no such labels.
    """
    if not episode.views:
        raise EpisodeError(f"Episode {episode.id} has no video.")
    times = episode.views[episode.main_view].timestamps()
    potential = None
    if progress == LINEAR:
        potential = linear_progress(times, float(times[-1]))
    elif progress != STAGES:
        potential = labelled_progress(episode, progress, times)
    spans: tuple[Stage, ...] = ()
    if staged or progress == STAGES:
        spans = stage_spans(episode, scheme)
        spans = without_done(spans, done_spans(episode)) or spans
    at_end, ever = labelled_outcome(episode.labels)
    return LabelledEpisode(episode, times, spans, potential, False if ever is False else at_end)


def labelled_progress(episode: Episode, name: str, times: FloatArray) -> FloatArray:
    """Return the progress labelled under a name at each frame; unknown outside of the labelled time."""
    at, values = episode.labels.progress(name)
    if not len(at):
        has = ", ".join(episode.labels.potentials) or "none"
        raise EpisodeError(f"Episode {episode.id} has no progress labels called {name!r} (it has: {has}).")
    slack = float(np.median(np.diff(times))) if len(times) > 1 else 0.0
    known = (times >= at[0] - slack) & (times <= at[-1] + slack)
    return np.where(known, np.interp(times, at, values), np.nan)


def head_targets(
    episodes: Sequence[LabelledEpisode], procedures: Mapping[str, Procedure] | None = None
) -> tuple[dict[str, Procedure], list[Targets]]:
    """Return the stages of each task, and every episode's targets for a head with stages.

    Args:
        episodes: Labelled episodes of any tasks.
        procedures: The stages trained on, for held-out episodes; ``None`` to find them from the episodes.
    """
    tasks: dict[str, list[LabelledEpisode]] = {}
    for labelled in episodes:
        tasks.setdefault(labelled.task, []).append(labelled)
    found = dict(procedures or {task: find_procedure(members) for task, members in tasks.items()})
    unknown = next((task for task in tasks if task not in found), None)
    if unknown is not None:
        raise OptionError(f"The task {unknown!r} was not trained on. Trained: {', '.join(sorted(found))}.")
    return found, [targets_of(labelled, found[labelled.task]) for labelled in episodes]


def single_stage_targets(episodes: Sequence[LabelledEpisode]) -> list[Targets]:
    """Return the targets of a head that treats the task as one stage: only progress."""
    targets = []
    procedures: dict[str, Procedure] = {}
    for labelled in episodes:
        task, progress = labelled.task, labelled.potential
        if progress is None:
            if task not in procedures:
                procedures[task] = find_procedure([other for other in episodes if other.task == task])
            progress = targets_of(labelled, procedures[task]).progress
        targets.append(Targets(np.zeros(len(progress), dtype=np.int64), progress, progress))
    return targets


def find_procedure(episodes: Sequence[LabelledEpisode]) -> Procedure:
    """Return the stages of a task in order, with the progress at which each begins."""
    if episodes[0].potential is None:
        every = [labelled.spans for labelled in episodes]
        order = procedure_order(every)
        completed = [labelled.spans for labelled in episodes if labelled.done]
        shares = temporal_proportions(completed or every, order)
        return Procedure(tuple(order), tuple(breakpoints(list(shares.values())).tolist()))
    parts: dict[str, list[FloatArray]] = {}
    for labelled in episodes:
        times, potential = labelled.times, labelled.potential
        assert potential is not None
        for span in labelled.spans:
            inside = (times >= span.start_s) & (times < span.end_s) & ~np.isnan(potential)
            parts.setdefault(span.name, []).append(potential[inside])
    joined = {name: np.concatenate(values) for name, values in parts.items()}
    within = {name: values for name, values in joined.items() if len(values)}
    if not within:
        raise EpisodeError(f"No stage of the task {episodes[0].task!r} has a frame with labelled progress.")
    names = sorted(within, key=lambda name: float(np.median(within[name])))
    return Procedure(tuple(names), tuple(_labelled_breakpoints([within[name] for name in names]).tolist()))


def _labelled_breakpoints(within: Sequence[FloatArray]) -> FloatArray:
    """Return the progress at which each stage begins, and 1: equal parts where the labels fit them.

    Args:
        within: Labelled progress at the frames of each stage, in order.
    """
    equal = np.linspace(0.0, 1.0, len(within) + 1)
    fits = [(v >= equal[i] - 1e-6) & (v <= equal[i + 1] + 1e-6) for i, v in enumerate(within)]
    if np.concatenate(fits).mean() >= 1.0 - MAX_OUTSIDE:
        return equal
    # Halfway between the end of the stage before and the beginning of this one.
    inner = [
        (np.quantile(before, 1.0 - MAX_OUTSIDE) + np.quantile(after, MAX_OUTSIDE)) / 2
        for before, after in pairwise(within)
    ]
    return np.maximum.accumulate(np.array([0.0, *inner, 1.0]))


def _stage_at(labelled: LabelledEpisode, procedure: Procedure) -> IntArray:
    """Return the stage at each frame of an episode with labelled progress: the span that has begun and not ended.

    In time that belongs to no stage (the task is done) it is the stage that the labelled progress falls into.
    """
    assert labelled.potential is not None
    points = np.asarray(procedure.breakpoints)
    by_progress = np.searchsorted(points[1:-1], np.nan_to_num(labelled.potential) + 1e-9, side="right")
    stage = np.where(np.isnan(labelled.potential), -1, by_progress).astype(np.int64)
    for span in labelled.spans:
        number = procedure.stages.index(span.name) if span.name in procedure.stages else -1
        first, end = first_frame_from(labelled.times, [span.start_s, span.end_s])
        stage[first:end] = number
    return stage


def targets_of(labelled: LabelledEpisode, procedure: Procedure) -> Targets:
    """Return an episode's targets for a head with these stages."""
    if labelled.potential is not None:
        stage, progress = _stage_at(labelled, procedure), labelled.potential
        points, at = np.asarray(procedure.breakpoints), np.maximum(stage, 0)
        length = np.maximum(points[at + 1] - points[at], 1e-6)
        share = np.clip((progress - points[at]) / length, 0.0, 1.0)
    else:
        stage, share, progress = _sarm_targets(labelled, procedure)
    unknown = stage < 0
    return Targets(stage, np.where(unknown, np.nan, share), np.where(unknown, np.nan, progress))


def _sarm_targets(labelled: LabelledEpisode, procedure: Procedure) -> tuple[IntArray, FloatArray, FloatArray]:
    """Return stage, share and progress by SARM's own labels."""
    k, times = len(procedure.stages), labelled.times
    # A stage that no trained episode shows is not in the procedure; its frames are unknown.
    spans = tuple(span for span in labelled.spans if span.name in procedure.stages)
    y = sarm_stage_tau(spans, procedure.stages, times)
    stage = np.clip(np.floor(y), 0, k - 1).astype(np.int64)
    share = np.where(y - stage >= _FULL, 1.0, y - stage)
    progress = stage_tau_progress(stage + share, np.diff(procedure.breakpoints).tolist())
    for span in labelled.spans:
        if span.name not in procedure.stages:
            stage[(times >= span.start_s) & (times < span.end_s)] = -1
    if not labelled.done and labelled.spans:
        # Labels are linear up to a stage's end, and no label says that this one was completed.
        share[times >= labelled.spans[-1].start_s] = np.nan
        progress[times >= labelled.spans[-1].start_s] = np.nan
    return stage, share, progress
