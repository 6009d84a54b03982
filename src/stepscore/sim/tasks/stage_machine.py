"""The stage machine: tracks milestones, the distance to the next milestone, and the progress potential.

A task has K milestones in order. The stage is the number of the furthest milestone that is true *now*, so it
falls if the robot undoes a step. Within a stage, the completed share is the relative decrease of the next
milestone's gap since the start::

    potential = (stage + share) / K,   share = 1 - gap(now) / gap(start), clipped to 0 .. 0.99

The potential is 1 exactly while the last milestone (success) is true. A chain of tasks has several phases. A
phase begins when the last milestone of the previous phase becomes true, and measures gaps from that state.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from stepscore.sim.state import State
from stepscore.sim.tasks.distances import (
    Advanced,
    Condition,
    Displaced,
    Done,
    Holding,
    Raised,
    Touching,
    Within,
)
from stepscore.types import SuccessMode

MAX_SHARE = 0.99
"""Largest completed share of a stage, so that only reaching the milestone completes the stage."""
_MIN_GAP = 1e-6


@dataclass(frozen=True)
class Milestone:
    """A state of the scene that ends a stage.

    Attributes:
        stage: Name of the stage that the milestone ends: ``"pull the drawer"``.
        subgoal: The state in words that can be checked in an image: ``"the drawer is fully open"``.
        condition: The condition of the milestone, with the remaining distance.
        mode: ``"ever"``: the milestone counts if it was true at any time; ``"holds"``: it must be true at the end.
    """

    stage: str
    subgoal: str
    condition: Condition
    mode: SuccessMode = "ever"


@dataclass(frozen=True)
class StageStatus:
    """Stage, potential and milestones of one state.

    Attributes:
        stage: Number of the furthest true milestone, 0..K, over all phases.
        potential: Progress in 0..1.
        truths: Whether each milestone is true now, in order.
        gap: Distance to the last milestone, in metres.
        phase: Index of the current part of a chain, from 0.
    """

    stage: int
    potential: float
    truths: tuple[bool, ...]
    gap: float
    phase: int

    @property
    def success(self) -> bool:
        """Whether the whole task is currently done."""
        return self.truths[-1]


class StageMachine:
    """Tracks stage and potential over a rollout that begins at ``start``; most tasks have one phase."""

    def __init__(self, phases: Sequence[Sequence[Milestone]], start: State) -> None:
        self._phases = tuple(tuple(phase) for phase in phases)
        self._starts = [start]
        self._total = sum(len(phase) for phase in self._phases)

    def update(self, now: State) -> StageStatus:
        """Return the status of the next state; completed phases stay completed."""
        gaps = self._gaps(now)
        while gaps[-1] <= 0.0 and len(self._starts) < len(self._phases):
            self._starts.append(now)
            gaps = self._gaps(now)
        phase = len(self._starts) - 1
        before = sum(len(done) for done in self._phases[:phase])
        stage = max((number for number, gap in enumerate(gaps, start=1) if gap <= 0.0), default=0)
        if stage == len(gaps):
            share = 0.0
        else:
            whole = self._phases[phase][stage].condition.gap(self._starts[phase], self._starts[phase])
            share = min(max(1.0 - gaps[stage] / max(whole, _MIN_GAP), 0.0), MAX_SHARE)
        truths = tuple(
            milestone.condition.gap(now, start) <= 0.0
            for done, start in zip(self._phases, self._starts, strict=False)
            for milestone in done
        )
        return StageStatus(
            stage=before + stage,
            potential=(before + stage + share) / self._total,
            truths=truths + (False,) * (self._total - len(truths)),
            gap=max(gaps[-1], 0.0),
            phase=phase,
        )

    def _gaps(self, now: State) -> list[float]:
        start = self._starts[-1]
        return [milestone.condition.gap(now, start) for milestone in self._phases[len(self._starts) - 1]]


MAIN_PART = "object"
"""The part of a task that the hand manipulates."""


def reach(stage: str, subgoal: str, metres: float = 0.04, *, point: str = "object") -> Milestone:
    """Make the milestone that the fingertips are within ``metres`` of the object."""
    return Milestone(stage, subgoal, Within("tcp", point, metres))


def touch(stage: str, subgoal: str) -> Milestone:
    """Make the milestone that any part of the hand touches the object."""
    return Milestone(stage, subgoal, Touching(MAIN_PART))


def hold(stage: str, subgoal: str) -> Milestone:
    """Make the milestone that both fingers press the object, one from each side."""
    return Milestone(stage, subgoal, Holding(MAIN_PART))


def lift(stage: str, subgoal: str, metres: float = 0.03) -> Milestone:
    """Make the milestone that the object is ``metres`` higher than at the start."""
    return Milestone(stage, subgoal, Raised("object", metres))


def move(stage: str, subgoal: str, metres: float, *, axes: str = "xyz", point: str = "object") -> Milestone:
    """Make the milestone that the object is ``metres`` closer to its goal than at the start."""
    return Milestone(stage, subgoal, Advanced(metres, point, "target", axes))


def shift(stage: str, subgoal: str, metres: float, *, point: str = "object") -> Milestone:
    """Make the milestone that the object is ``metres`` away from its initial position."""
    return Milestone(stage, subgoal, Displaced(point, metres))


def over(stage: str, subgoal: str, metres: float, *, axes: str = "xy", point: str = "object") -> Milestone:
    """Make the milestone that the object is within ``metres`` of its goal along ``axes``, e.g. above a bin."""
    return Milestone(stage, subgoal, Within(point, "target", metres, axes))


def finish(stage: str, subgoal: str, metres: float, *, axes: str = "xyz", point: str = "object") -> Milestone:
    """Make the last milestone (the simulator's success), with the object's distance to its goal as gap."""
    return finish_by(stage, subgoal, Within(point, "target", metres, axes))


def finish_by(stage: str, subgoal: str, condition: Condition) -> Milestone:
    """Make the last milestone (the simulator's success), with the gap of ``condition``."""
    return Milestone(stage, subgoal, Done(condition), mode="holds")
