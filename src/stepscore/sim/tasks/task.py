"""A task: its instruction, its phases with their milestones, and its goal."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from stepscore.sim.state import State
from stepscore.sim.tasks.stage_machine import Milestone
from stepscore.types import FloatArray, SuccessMode

ENVIRONMENT_STATE_DIM = 9
"""Length of ``Task.environment_state``, for every task."""


@dataclass(frozen=True)
class Phase:
    """A part of a task that one expert carries out, on the observation of Meta-World's environment ``expert``."""

    expert: str
    milestones: tuple[Milestone, ...]


@dataclass(frozen=True)
class Task:
    """A simulated task.

    Attributes:
        name: Its short name: ``drawer-open``.
        env_name: Meta-World's name of the environment it is played in.
        instruction: The text the robot is given.
        phases: One, or several for a chain.
        parts: Part name to the body it is; contacts of its whole subtree count as the part's.
        points: Point name to where it is read: ``object:0`` and ``object:1`` are the environment's own
            positions of its objects, ``site:NAME`` and ``body:NAME`` those of the model.
        expert_steps: Control steps (1/80 s) the expert usually takes until success; sets how long a rollout may take.
        mark: Whether the goal is a coordinate, which a neutral mark shows; else it is a visible object.
        success: Mode of success: ``ever`` or ``holds``.
        ends_at_success: The rollout ends at the first frame of success, since the expert's own motion undoes
            it within 20 steps.
        opposite: The environment whose expert undoes the task in the same scene; empty if there is none.
        max_slowdown: Every stage is played at a speed of its own, sampled per scene, from this many times slower
            than the expert up to its own speed; 1 for single tasks.
        full_speed_stages: Indices of stages at the expert's own speed, since slower it would miss the object.
        clearance: Metres the hand is raised before the rollout, where it would begin in contact with the object.
    """

    name: str
    env_name: str
    instruction: str
    phases: tuple[Phase, ...]
    parts: Mapping[str, str]
    points: Mapping[str, str] = field(default_factory=lambda: {"object": "object:0"})
    expert_steps: int = 80
    mark: bool = False
    success: SuccessMode = "holds"
    ends_at_success: bool = False
    opposite: str = ""
    max_slowdown: float = 1.0
    full_speed_stages: tuple[int, ...] = ()
    clearance: float = 0.0

    @property
    def milestones(self) -> tuple[Milestone, ...]:
        """Those of all phases, in order."""
        return tuple(milestone for phase in self.phases for milestone in phase.milestones)

    def environment_state(self, state: State) -> FloatArray:
        """Return the positions of the task's objects in metres, shape (``ENVIRONMENT_STATE_DIM``,).

        The object's x, y and z, the target's, and those of the task's second point (a nail, a thermos, the head
        of a peg), zeros where ``points`` names no second one.
        """
        others = [name for name in self.points if name != "object"]
        places = np.concatenate([state.points[name] for name in ("object", "target", *others)])
        return np.pad(places, (0, ENVIRONMENT_STATE_DIM - len(places)))
