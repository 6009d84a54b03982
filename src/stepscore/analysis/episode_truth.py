"""The true progress of one episode by its labels, and the stages of its task in order."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Literal

import numpy as np

from stepscore.episodes.labels import LABEL_TOLERANCE_S
from stepscore.metrics import StageSpan, procedure_order, stage_truth
from stepscore.types import FloatArray

TruthSource = Literal["progress labels", "stages"]
"""Where true progress is from."""


@dataclass(frozen=True)
class EpisodeTruth:
    """The true progress of one episode: as labelled, else as its stages imply.

    Attributes:
        labelled: Times and values of labelled progress, if any.
        procedure: The stages of its task in order; empty if unknown.
        done: Whether the task was done when the episode ended.
        potential: Name of the labelled progress.
    """

    labelled: tuple[FloatArray, FloatArray] | None = None
    stages: tuple[StageSpan, ...] = ()
    procedure: tuple[str, ...] = ()
    done: bool = False
    potential: str | None = None

    @property
    def source(self) -> TruthSource | None:
        """The source of the truth; ``None`` if unknown."""
        if self.labelled is not None:
            return "progress labels"
        return "stages" if self.stages and self.procedure else None

    def at(self, times: FloatArray) -> FloatArray:
        """Return the true progress at ``times``, shape (n,), 0..1; NaN where unknown.

        Labelled progress is linear between two labels, and unknown outside them and next to a label of
        unknown value.
        """
        if self.labelled is not None:
            return _interpolated(times, *self.labelled)
        if self.source is None:
            return np.full(len(times), np.nan)
        return stage_truth(self.stages, self.procedure, times, done=self.done)


def _interpolated(times: FloatArray, at: FloatArray, values: FloatArray) -> FloatArray:
    # Tables of labels may keep rounded seconds: the last frame is not after the last label for that.
    near = np.where(np.abs(times - at[0]) < LABEL_TOLERANCE_S, at[0], times)
    near = np.where(np.abs(times - at[-1]) < LABEL_TOLERANCE_S, at[-1], near)
    return np.asarray(np.interp(near, at, values, left=math.nan, right=math.nan))


@dataclass(frozen=True)
class StagedEpisode:
    """What an episode shows of its task's procedure.

    Attributes:
        subgoals: Names of the task's subgoals in order, if any.
        success: Whether it succeeded by label; ``None`` if unknown.
    """

    stages: tuple[StageSpan, ...]
    subgoals: tuple[str, ...] = ()
    success: bool | None = None


def task_procedure(episodes: Sequence[StagedEpisode]) -> tuple[str, ...]:
    """Return the names of a task's stages in order; empty if unknown.

    In this order:

    1. The task's subgoals, if the stages have their names.
    2. The stages of successful episodes in the order in which they are first done; without labelled
      successes, those of unlabelled episodes, which count as demonstrations. If all episodes together show as
      many stages as there are subgoals, stages seen only in failures are inserted: see :func:`_inserted`.
    3. Otherwise as many stages as there are subgoals, starting with those that were tried; the others have an
      empty name.

    The stages of failures do not show what was left to do.
    """
    annotated = [episode for episode in episodes if episode.stages]
    goals = next((episode.subgoals for episode in episodes if episode.subgoals), ())
    tried = procedure_order([episode.stages for episode in annotated])
    if not tried:
        return ()
    if set(tried) <= set(goals):
        return goals
    succeeded = [episode for episode in annotated if episode.success]
    done = succeeded or [episode for episode in annotated if episode.success is None]
    if done:
        order = procedure_order([episode.stages for episode in done])
        missing = [name for name in tried if name not in order]
        return _inserted(order, missing, annotated) if len(tried) == len(goals) else tuple(order)
    left = len(goals) - len(tried)
    return (*tried, *[""] * left) if left >= 0 and goals else ()


def _inserted(
    order: Sequence[str], missing: Sequence[str], episodes: Sequence[StagedEpisode]
) -> tuple[str, ...]:
    """Return the procedure with the skipped stages inserted where steps between stages become shortest.

    A step is the distance of two consecutive stages of an episode. The last stage stays last: successes end
    with it.
    """
    steps = [pair for episode in episodes for pair in pairwise(name for name, *_ in episode.stages)]
    procedure = list(order)
    for name in missing:
        candidates = [[*procedure[:k], name, *procedure[k:]] for k in range(len(procedure))]
        procedure = min(candidates, key=lambda names: _total_step(names, steps))
    return tuple(procedure)


def _total_step(names: Sequence[str], steps: Sequence[tuple[str, str]]) -> int:
    place = {name: k for k, name in enumerate(names)}
    return sum(abs(place[a] - place[b]) for a, b in steps if a in place and b in place)
