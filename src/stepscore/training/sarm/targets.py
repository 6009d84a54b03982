"""What SARM is to say at each frame: the stage under way and the share of it that is done, from labels.

``stages``
    SARM's own label: y = k + tau, linear in time within a stage, and the stages' places on the way from their
    mean durations (arXiv 2509.25358, eq. 1). In a rollout that fails, how far its last stage got is not known.
a labelled potential
    Progress as the labels state it (``potential`` of a simulator, ``robust`` of ``stepscore labels``). Stages are
    ordered by where they lie on it and take equal parts of the way, or, where the labels do not lie so, parts that
    begin where the labels of one stage give way to those of the next; tau = (phi - P_k) / (P_{k+1} - P_k).
``linear``
    Time over duration, without stages: what frame indices say.

Where labels say nothing, the target is unknown (-1 and NaN) and counts in no loss.
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
WHOLE = Procedure(("task",), (0.0, 1.0))
"""A task as one stage."""
OUTSIDE = 0.02
"""Share of frames that may lie outside of their stage's part of the way."""
_FULL = 0.999
"""In-stage progress from which on SARM's labels mean complete; see ``sarm_stage_tau``."""


@dataclass(frozen=True, eq=False)
class Targets:
    """What one head is to say of one episode.

    Attributes:
        stage: Number of the stage at each frame, -1 where unknown, (n,).
        share: How much of it is done, NaN where unknown, (n,).
        progress: Both as one number, NaN where unknown, (n,).
    """

    stage: IntArray
    share: FloatArray
    progress: FloatArray


@dataclass(frozen=True, eq=False)
class Labelled:
    """An episode with its labels read.

    Attributes:
        episode: The episode.
        times: Seconds of its frames.
        spans: Its stages, without the time in which the task was done; empty where none are needed.
        potential: Labelled progress at each frame; ``None`` where stages alone say it.
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


def read_labels_of(
    episode: Episode, progress: str, *, scheme: str | None = None, staged: bool = True
) -> Labelled:
    """The labels of an episode as a kind of target needs them.

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
    return Labelled(episode, times, spans, potential, False if ever is False else at_end)


def labelled_progress(episode: Episode, name: str, times: FloatArray) -> FloatArray:
    """Progress labelled under a name at each frame; unknown outside of the labelled seconds."""
    at, values = episode.labels.progress(name)
    if not len(at):
        has = ", ".join(episode.labels.potentials) or "none"
        raise EpisodeError(f"Episode {episode.id} has no progress labels called {name!r} (it has: {has}).")
    slack = float(np.median(np.diff(times))) if len(times) > 1 else 0.0
    known = (times >= at[0] - slack) & (times <= at[-1] + slack)
    return np.where(known, np.interp(times, at, values), np.nan)


def head_targets(
    episodes: Sequence[Labelled], procedures: Mapping[str, Procedure] | None = None
) -> tuple[dict[str, Procedure], list[Targets]]:
    """The stages of each task, and every episode's targets for a head with stages.

    Args:
        episodes: Labelled episodes of any tasks.
        procedures: Stages found before, for held-out episodes; found from the episodes without.
    """
    tasks: dict[str, list[Labelled]] = {}
    for one in episodes:
        tasks.setdefault(one.task, []).append(one)
    found = dict(procedures or {task: find_procedure(members) for task, members in tasks.items()})
    unknown = next((task for task in tasks if task not in found), None)
    if unknown is not None:
        raise OptionError(f"The task {unknown!r} was not trained on. Trained: {', '.join(sorted(found))}.")
    return found, [targets_of(one, found[one.task]) for one in episodes]


def whole_targets(episodes: Sequence[Labelled]) -> list[Targets]:
    """Targets of a head that takes the task as one stage: progress alone."""
    targets = []
    ordered: dict[str, Procedure] = {}
    for one in episodes:
        if one.potential is not None:
            progress = one.potential
        else:
            if one.task not in ordered:
                ordered[one.task] = find_procedure([other for other in episodes if other.task == one.task])
            progress = targets_of(one, ordered[one.task]).progress
        targets.append(Targets(np.zeros(len(progress), dtype=np.int64), progress, progress))
    return targets


def find_procedure(episodes: Sequence[Labelled]) -> Procedure:
    """The stages of a task in order, and where each begins on the way."""
    if episodes[0].potential is None:
        order = procedure_order([one.spans for one in episodes])
        whole = [one.spans for one in episodes if one.done is not False] or [one.spans for one in episodes]
        shares = temporal_proportions(whole, order)
        return Procedure(tuple(order), tuple(breakpoints(list(shares.values())).tolist()))
    within: dict[str, list[FloatArray]] = {}
    for one in episodes:
        assert one.potential is not None
        for span in one.spans:
            inside = (one.times >= span.start_s) & (one.times < span.end_s) & ~np.isnan(one.potential)
            within.setdefault(span.name, []).append(one.potential[inside])
    seen = {name: np.concatenate(parts) for name, parts in within.items()}
    seen = {name: values for name, values in seen.items() if len(values)}
    if not seen:
        raise EpisodeError(f"No stage of the task {episodes[0].task!r} has a frame with labelled progress.")
    names = sorted(seen, key=lambda name: float(np.median(seen[name])))
    return Procedure(tuple(names), tuple(_places([seen[name] for name in names]).tolist()))


def _places(seen: Sequence[FloatArray]) -> FloatArray:
    """Progress at which each stage begins, and 1: equal steps where the labels lie so, else from the labels.

    Args:
        seen: Labelled progress at the frames of each stage, in order.
    """
    k = len(seen)
    equal = np.linspace(0.0, 1.0, k + 1)
    fits = [(v >= equal[i] - 1e-6) & (v <= equal[i + 1] + 1e-6) for i, v in enumerate(seen)]
    if np.concatenate(fits).mean() >= 1.0 - OUTSIDE:
        return equal
    # Somewhere between where the stage before ends and where this one is first seen.
    inner = [
        (np.quantile(before, 1.0 - OUTSIDE) + np.quantile(after, OUTSIDE)) / 2
        for before, after in pairwise(seen)
    ]
    return np.maximum.accumulate(np.array([0.0, *inner, 1.0]))


def _stage_at(one: Labelled, procedure: Procedure) -> IntArray:
    """The stage at each frame of an episode with labelled progress: the span that has begun and not ended.

    In time that belongs to no stage (the task is done) it is the one in which the labelled progress lies.
    """
    assert one.potential is not None
    points = np.asarray(procedure.breakpoints)
    lies = np.searchsorted(points[1:-1], np.nan_to_num(one.potential) + 1e-9, side="right")
    stage = np.where(np.isnan(one.potential), -1, lies).astype(np.int64)
    for span in one.spans:
        number = procedure.stages.index(span.name) if span.name in procedure.stages else -1
        first, end = first_frame_from(one.times, [span.start_s, span.end_s])
        stage[first:end] = number
    return stage


def targets_of(one: Labelled, procedure: Procedure) -> Targets:
    """What a head with these stages is to say of an episode."""
    if one.potential is not None:
        stage = _stage_at(one, procedure)
        points, at = np.asarray(procedure.breakpoints), np.maximum(stage, 0)
        length = np.maximum(points[at + 1] - points[at], 1e-6)
        share, progress = np.clip((one.potential - points[at]) / length, 0.0, 1.0), one.potential
    else:
        stage, share, progress = _sarm_targets(one, procedure)
    unknown = stage < 0
    return Targets(stage, np.where(unknown, np.nan, share), np.where(unknown, np.nan, progress))


def _sarm_targets(one: Labelled, procedure: Procedure) -> tuple[IntArray, FloatArray, FloatArray]:
    """Stage, share and progress by SARM's own labels."""
    k = len(procedure.stages)
    # A stage that no trained episode shows is not in the procedure; its frames are unknown.
    spans = tuple(span for span in one.spans if span.name in procedure.stages)
    y = sarm_stage_tau(spans, procedure.stages, one.times)
    stage = np.clip(np.floor(y), 0, k - 1).astype(np.int64)
    share = np.where(y - stage >= _FULL, 1.0, y - stage)
    progress = stage_tau_progress(stage + share, np.diff(procedure.breakpoints).tolist())
    for span in one.spans:
        if span.name not in procedure.stages:
            stage[(one.times >= span.start_s) & (one.times < span.end_s)] = -1
    if one.done is False and one.spans:
        # Labels are linear up to a stage's end, and this one was never completed.
        share[one.times >= one.spans[-1].start_s] = np.nan
        progress[one.times >= one.spans[-1].start_s] = np.nan
    return stage, share, progress
