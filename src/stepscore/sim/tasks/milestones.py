"""The kinds of milestone that tasks are made of, in the field's words: reach, touch, hold, lift, move, finish."""

from __future__ import annotations

from stepscore.sim.tasks.distances import (
    Advanced,
    Displaced,
    Done,
    Holding,
    Measure,
    Raised,
    Touching,
    Within,
)
from stepscore.sim.tasks.stage_machine import Milestone

THING = "thing"
"""The part of a task that the hand takes hold of."""


def reach(stage: str, subgoal: str, metres: float = 0.04, *, point: str = "object") -> Milestone:
    """The fingertips are within ``metres`` of the thing."""
    return Milestone(stage, subgoal, Within("tcp", point, metres))


def touch(stage: str, subgoal: str) -> Milestone:
    """Some part of the hand touches the thing."""
    return Milestone(stage, subgoal, Touching(THING))


def hold(stage: str, subgoal: str) -> Milestone:
    """Both fingers press the thing from their sides."""
    return Milestone(stage, subgoal, Holding(THING))


def lift(stage: str, subgoal: str, metres: float = 0.03) -> Milestone:
    """The thing is ``metres`` higher than where it lay."""
    return Milestone(stage, subgoal, Raised("object", metres))


def move(stage: str, subgoal: str, metres: float, *, axes: str = "xyz", point: str = "object") -> Milestone:
    """The thing is ``metres`` nearer to its goal."""
    return Milestone(stage, subgoal, Advanced(metres, point, "target", axes))


def shift(stage: str, subgoal: str, metres: float, *, point: str = "object") -> Milestone:
    """The thing is ``metres`` away from where it was."""
    return Milestone(stage, subgoal, Displaced(point, metres))


def over(stage: str, subgoal: str, metres: float, *, axes: str = "xy", point: str = "object") -> Milestone:
    """The thing is within ``metres`` of its goal over some axes: above a bin, in front of a hole."""
    return Milestone(stage, subgoal, Within(point, "target", metres, axes))


def finish(stage: str, subgoal: str, metres: float, *, axes: str = "xyz", point: str = "object") -> Milestone:
    """The simulator says success; the way there is that of the thing to its goal."""
    return finish_by(stage, subgoal, Within(point, "target", metres, axes))


def finish_by(stage: str, subgoal: str, measure: Measure) -> Milestone:
    """The simulator says success; the way there is what ``measure`` leaves."""
    return Milestone(stage, subgoal, Done(measure), mode="holds")
