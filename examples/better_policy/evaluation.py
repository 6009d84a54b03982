"""Trials of policies in the simulator: the same scenes for every configuration, success and subgoals by its state."""

# A scene is set up once and restored for every configuration, which Meta-World has no public way to do.
# ruff: noqa: SLF001

from __future__ import annotations

from collections.abc import Callable, Mapping
from copy import deepcopy
from dataclasses import dataclass
from importlib import import_module
from typing import Any

import numpy as np

from examples.better_policy.policy import inputs
from examples.better_policy.setting import STEPS_PER_FRAME
from stepscore.sim import SimEnv, StageMachine, State, seed_entropy
from stepscore.types import FloatArray

CHECK_EVERY_STEPS = 4
"""Control steps between checks of success and subgoals; a contact is remembered for that many."""

POSE_FIELDS = ("body_pos", "body_quat", "site_pos", "geom_pos")
"""Fields of the MuJoCo model that a reset changes: a drawer or a door is placed by them."""

Act = Callable[[FloatArray], FloatArray]
"""A policy: from inputs, (19,), to a chunk of actions, (horizon, 4)."""


@dataclass(frozen=True)
class TrialResult:
    """The result of one trial.

    Attributes:
        success: Whether the task was done within the time.
        subgoals: Share of the task's subgoals that were true at some check.
        steps: Actions carried out.
    """

    success: bool
    subgoals: float
    steps: int


def scene_number(task: str, scene: int, seed: int) -> int:
    """Return the reset number of a scene, as rollouts of a dataset with this seed have it."""
    return int(np.random.default_rng(seed_entropy(seed, task, scene)).integers(2**31))


class Scene:
    """A scene that has been set up and can be restored.

    Args:
        env: The task's environment.
        number: The scene's reset number.
    """

    def __init__(self, env: SimEnv, number: int) -> None:
        self.env = env
        self.start: State = env.reset(number)
        self._physics = _physics(env)
        self._poses = {name: getattr(env.model, name).copy() for name in POSE_FIELDS}
        self._facts = {name: _facts(owner) for name, owner in _owners(env).items()}

    def restore(self) -> None:
        """Set the environment to the scene's start."""
        inner, mujoco = self.env._env, import_module("mujoco")
        for name, kept in self._poses.items():
            getattr(inner.model, name)[:] = kept
        mujoco.mj_setState(inner.model, inner.data, self._physics, mujoco.mjtState.mjSTATE_INTEGRATION)
        mujoco.mj_forward(inner.model, inner.data)
        for name, owner in _owners(self.env).items():
            owner.__dict__.update(deepcopy(self._facts[name]))


def _owners(env: SimEnv) -> Mapping[str, Any]:
    return {"env": env, "metaworld": env._env}


def _physics(env: SimEnv) -> FloatArray:
    inner, mujoco = env._env, import_module("mujoco")
    kept = np.empty(mujoco.mj_stateSize(inner.model, mujoco.mjtState.mjSTATE_INTEGRATION))
    mujoco.mj_getState(inner.model, inner.data, kept, mujoco.mjtState.mjSTATE_INTEGRATION)
    return kept


def _facts(owner: Any) -> dict[str, Any]:
    """Return the numbers, arrays and small containers that an object keeps beside the physics."""
    plain = (bool, int, float, str, np.ndarray, np.generic, tuple, list, type(None))
    facts: dict[str, Any] = {name: value for name, value in vars(owner).items() if isinstance(value, plain)}
    if isinstance(owner, SimEnv):
        facts["_contacts"] = owner._contacts
    return deepcopy(facts)


def run_trial(scene: Scene, act: Act, time: int) -> TrialResult:
    """Run a policy from the scene's start until the task is done or the time is up.

    It gets the state once per frame and carries out the first frame's actions of each chunk.

    Args:
        scene: The scene; it is restored first.
        act: The policy.
        time: Most control steps.
    """
    scene.restore()
    env, task = scene.env, scene.env.task
    machine = StageMachine([phase.milestones for phase in task.phases], scene.start)
    reached = np.zeros(len(task.milestones), dtype=bool)
    chunk = np.empty((0, 4))
    for step in range(time + 1):
        if step % CHECK_EVERY_STEPS == 0 or step == time:
            state = env.state()
            reading = machine.update(state)
            reached |= reading.truths
            if reading.success or step == time:
                break
            if step % STEPS_PER_FRAME == 0:
                chunk = act(inputs(np.array([*env.hand, state.opening]), task.environment_state(state)))
        env.step(chunk[step % STEPS_PER_FRAME])
    return TrialResult(reading.success, float(reached.mean()), step)
