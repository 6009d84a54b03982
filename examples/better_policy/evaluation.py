"""Policies tried in the simulator: the same scenes for every arm, success and subgoals by its own truth."""

# A scene is set up once and put back for every arm, which Meta-World has no public way to do.
# ruff: noqa: SLF001

from __future__ import annotations

from collections.abc import Callable, Mapping
from copy import deepcopy
from dataclasses import dataclass
from importlib import import_module
from typing import Any

import numpy as np
from examples.better_policy.policy import inputs
from examples.better_policy.setting import STEPS_A_FRAME

from stepscore.sim.rollout import numbers
from stepscore.sim.state import State
from stepscore.sim.tasks.stage_machine import StageMachine
from stepscore.sim.world import World
from stepscore.types import FloatArray

LOOK_EVERY = 4
"""Steps between looks at the truth; a contact is remembered for so many."""

PLACES = ("body_pos", "body_quat", "site_pos", "geom_pos")
"""Parts of the model itself that a reset moves: a drawer or a door is put to its place so."""

Act = Callable[[FloatArray], FloatArray]
"""What a policy is: inputs (19,) to a chunk of actions, (horizon, 4)."""


@dataclass(frozen=True)
class Tried:
    """How one trial ended.

    Attributes:
        success: Whether the task was done within the time.
        subgoals: Share of the task's subgoals that were true at some look.
        steps: Actions carried out.
    """

    success: bool
    subgoals: float
    steps: int


def scene_number(task: str, scene: int, seed: int) -> int:
    """The reset number of a scene, as rollouts of a dataset with this seed have it."""
    return int(np.random.default_rng(numbers(seed, task, scene)).integers(2**31))


class Scene:
    """A scene that has been set up and can be put back as it was.

    Args:
        world: The task's world.
        number: The scene's reset number.
    """

    def __init__(self, world: World, number: int) -> None:
        self.world = world
        self.start: State = world.reset(number)
        self._physics = _physics(world)
        self._places = {name: getattr(world.model, name).copy() for name in PLACES}
        self._facts = {name: _facts(owner) for name, owner in _owners(world).items()}

    def put_back(self) -> None:
        """Set the world to the scene's start."""
        env, mujoco = self.world._env, import_module("mujoco")
        for name, kept in self._places.items():
            getattr(env.model, name)[:] = kept
        mujoco.mj_setState(env.model, env.data, self._physics, mujoco.mjtState.mjSTATE_INTEGRATION)
        mujoco.mj_forward(env.model, env.data)
        for name, owner in _owners(self.world).items():
            owner.__dict__.update(deepcopy(self._facts[name]))


def _owners(world: World) -> Mapping[str, Any]:
    return {"world": world, "env": world._env}


def _physics(world: World) -> FloatArray:
    env, mujoco = world._env, import_module("mujoco")
    kept = np.empty(mujoco.mj_stateSize(env.model, mujoco.mjtState.mjSTATE_INTEGRATION))
    mujoco.mj_getState(env.model, env.data, kept, mujoco.mjtState.mjSTATE_INTEGRATION)
    return kept


def _facts(owner: Any) -> dict[str, Any]:
    """Numbers, arrays and small containers that an object keeps beside the physics."""
    plain = (bool, int, float, str, np.ndarray, np.generic, tuple, list, type(None))
    found: dict[str, Any] = {name: value for name, value in vars(owner).items() if isinstance(value, plain)}
    if isinstance(owner, World):
        found["_contacts"] = owner._contacts
    return deepcopy(found)


def try_policy(scene: Scene, act: Act, time: int) -> Tried:
    """Let a policy act from the scene's start until the task is done or the time is up.

    It sees the scene at every frame's time and carries out the first frame's worth of each chunk.

    Args:
        scene: The scene; it is put back first.
        act: The policy.
        time: Most actions.
    """
    scene.put_back()
    world, task = scene.world, scene.world.task
    machine = StageMachine([phase.milestones for phase in task.phases], scene.start)
    reached = np.zeros(len(task.milestones), dtype=bool)
    chunk = np.empty((0, 4))
    for step in range(time + 1):
        if step % LOOK_EVERY == 0 or step == time:
            state = world.look()
            reading = machine.read(state)
            reached |= reading.truths
            if reading.success or step == time:
                break
            if step % STEPS_A_FRAME == 0:
                chunk = act(inputs(np.array([*world.hand, state.opening]), task.things(state)))
        world.step(chunk[step % STEPS_A_FRAME])
    return Tried(reading.success, float(reached.mean()), step)
