"""The kinds of milestone that tasks are made of: reach, touch, hold, lift, move, finish."""

from __future__ import annotations

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
from stepscore.sim.tasks.stage_machine import Milestone

MAIN_PART = "object"
"""The part of a task that the hand manipulates."""


def reach(stage: str, subgoal: str, metres: float = 0.04, *, point: str = "object") -> Milestone:
    """Make the milestone that the fingertips are within ``metres`` of the object."""
    return Milestone(stage, subgoal, Within("tcp", point, metres))


def touch(stage: str, subgoal: str) -> Milestone:
    """Make the milestone that some part of the hand touches the object."""
    return Milestone(stage, subgoal, Touching(MAIN_PART))


def hold(stage: str, subgoal: str) -> Milestone:
    """Make the milestone that both fingers press the object from their sides."""
    return Milestone(stage, subgoal, Holding(MAIN_PART))


def lift(stage: str, subgoal: str, metres: float = 0.03) -> Milestone:
    """Make the milestone that the object is ``metres`` higher than at the start."""
    return Milestone(stage, subgoal, Raised("object", metres))


def move(stage: str, subgoal: str, metres: float, *, axes: str = "xyz", point: str = "object") -> Milestone:
    """Make the milestone that the object is ``metres`` nearer to its goal."""
    return Milestone(stage, subgoal, Advanced(metres, point, "target", axes))


def shift(stage: str, subgoal: str, metres: float, *, point: str = "object") -> Milestone:
    """Make the milestone that the object is ``metres`` away from where it was."""
    return Milestone(stage, subgoal, Displaced(point, metres))


def over(stage: str, subgoal: str, metres: float, *, axes: str = "xy", point: str = "object") -> Milestone:
    """Make the milestone that the object is within ``metres`` of its goal over some axes: above a bin."""
    return Milestone(stage, subgoal, Within(point, "target", metres, axes))


def finish(stage: str, subgoal: str, metres: float, *, axes: str = "xyz", point: str = "object") -> Milestone:
    """Make the last milestone, the simulator's success; its gap is the object's distance to its goal."""
    return finish_by(stage, subgoal, Within(point, "target", metres, axes))


def finish_by(stage: str, subgoal: str, condition: Condition) -> Milestone:
    """Make the last milestone, the simulator's success; its gap is that of ``condition``."""
    return Milestone(stage, subgoal, Done(condition), mode="holds")
