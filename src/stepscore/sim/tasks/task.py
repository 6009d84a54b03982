"""A task: its instruction, its phases with their milestones, and its goal."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from stepscore.sim.state import State
from stepscore.sim.tasks.stage_machine import Milestone
from stepscore.types import FloatArray, Mode

THINGS = 9
"""Numbers of ``Task.things``, for every task."""


@dataclass(frozen=True)
class Phase:
    """A part of a task that one expert carries out.

    Attributes:
        expert: Meta-World's name of the environment whose expert acts and whose observation it sees.
        milestones: The states it brings about, in order; the last one completes the phase.
    """

    expert: str
    milestones: tuple[Milestone, ...]


@dataclass(frozen=True)
class Task:
    """One task.

    Attributes:
        name: Its short name: ``drawer-open``.
        world: Meta-World's name of the environment it is played in.
        instruction: What the robot is told.
        phases: One, or several for a chain.
        parts: Part name to the body it is; contacts of its whole subtree count as the part's.
        points: Point name to where it is read: ``object:0`` and ``object:1`` are the environment's own
            positions of its objects, ``site:NAME`` and ``body:NAME`` those of the model.
        steps: Control steps (1/80 s) the expert usually takes until success; sets how long a rollout may take.
        mark: Whether the goal is a coordinate, which a neutral mark shows; else it is a thing to be seen.
        success: When success counts.
        ends_at_success: The rollout ends at the first frame of success, since the expert's own motion undoes
            it within 20 steps.
        opposite: The environment whose expert undoes the task in the same world; empty where there is none.
        tempo: Every stage is played at a speed of its own, drawn by scene, from this many times slower than
            the expert up to its own speed; 1 for single tasks.
        brisk: Numbers of stages that keep the expert's own speed, since slower it would miss the thing.
        clearance: Metres the hand is raised before the rollout, where it would begin in contact with the thing.
    """

    name: str
    world: str
    instruction: str
    phases: tuple[Phase, ...]
    parts: Mapping[str, str]
    points: Mapping[str, str] = field(default_factory=lambda: {"object": "object:0"})
    steps: int = 80
    mark: bool = False
    success: Mode = "holds"
    ends_at_success: bool = False
    opposite: str = ""
    tempo: float = 1.0
    brisk: tuple[int, ...] = ()
    clearance: float = 0.0

    @property
    def milestones(self) -> tuple[Milestone, ...]:
        """Those of all phases, in order."""
        return tuple(milestone for phase in self.phases for milestone in phase.milestones)

    def things(self, state: State) -> FloatArray:
        """Where the things of the task are, in metres, ``THINGS`` numbers for every task.

        The object's x, y and z, the target's, and those of the task's second point (a nail, a thermos, the head
        of a peg), zeros where ``points`` names no second one.
        """
        others = [name for name in self.points if name != "object"]
        places = np.concatenate([state.points[name] for name in ("object", "target", *others)])
        return np.pad(places, (0, THINGS - len(places)))
