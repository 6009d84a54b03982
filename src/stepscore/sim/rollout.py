"""One simulated episode: from a seed, a scene and a policy to frames and truth."""

from __future__ import annotations

import math
import warnings
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import Any

import numpy as np

from stepscore.errors import OptionError
from stepscore.sim.env import CONTROL_HZ, SimEnv
from stepscore.sim.policies import Disturbance, PolicyContext, make_disturbance, slowed
from stepscore.sim.render import SceneRenderer
from stepscore.sim.tasks import StageMachine, StageStatus
from stepscore.types import FloatArray, Frames, IntArray

FPS = 10
"""Default frames per second: those the embedded judge was trained at; a divisor of ``CONTROL_HZ``."""
STEPS_AFTER_SUCCESS = (8, 32)
"""Control steps after the first frame of success: from, to. Random, so that length says little about success."""
_TIME_FACTOR, _EXTRA_STEPS = 1.5, 40
"""A rollout may take this many times the expert's own control steps, and this many more."""


@dataclass(frozen=True)
class RolloutPlan:
    """An episode to be played: task, policy, number of the scene (shared by the policies) and the dataset's seed."""

    task: str
    policy: str
    scene: int
    seed: int = 0

    @property
    def pair(self) -> str:
        """The scene's key, which the episodes of all policies share."""
        return f"{self.task}/seed-{self.seed}/scene-{self.scene:04d}"

    def scene_rng(self) -> np.random.Generator:
        """Return the random generator of the scene; its first integer below 2**31 is the environment's seed."""
        return np.random.default_rng(seed_entropy(self.seed, self.task, self.scene))

    def look_rng(self) -> np.random.Generator:
        """Return the random generator of the rollout's camera, light and colours, where these vary."""
        return np.random.default_rng(seed_entropy(self.seed, self.task, self.scene, self.policy, "look"))


@dataclass(frozen=True)
class Rollout:
    """A played episode of n frames.

    Attributes:
        plan: The plan it was played from.
        fps: Frames per second; frame i has the timestamp i / fps.
        frames: Frames by view, each uint8 of shape (n, size, size, 3).
        states: Hand position in metres and gripper opening, (n, 4).
        environment_states: Positions of object, target and second point in metres, (n, 9); see
            ``Task.environment_state``.
        actions: The first action chosen at each frame, (n, 4); that of the last frame is not carried out.
        potential: Progress, (n,).
        stages: Milestones reached at each frame, (n,).
        truths: Whether each milestone is true at each frame, (n, K); the last one is success.
    """

    plan: RolloutPlan
    fps: int
    frames: Mapping[str, Frames]
    states: FloatArray
    environment_states: FloatArray
    actions: FloatArray
    potential: FloatArray
    stages: IntArray
    truths: np.ndarray[Any, np.dtype[np.bool_]]

    @property
    def success(self) -> np.ndarray[Any, np.dtype[np.bool_]]:
        """Whether the task is done at each frame, (n,)."""
        return self.truths[:, -1]


def seed_entropy(*parts: str | int) -> list[int]:
    """Return strings and integers as the entropy of a random generator; the same in every process."""
    return [part if isinstance(part, int) else zlib.crc32(part.encode()) for part in parts]


def check_fps(fps: int) -> None:
    """Raise an OptionError that lists the allowed frame rates, unless ``fps`` is one of them."""
    if fps < 1 or CONTROL_HZ % fps:
        allowed = ", ".join(str(n) for n in range(1, CONTROL_HZ + 1) if CONTROL_HZ % n == 0)
        raise OptionError(f"fps must divide the simulator's {CONTROL_HZ} Hz (one of {allowed}), got {fps}.")


def play(
    env: SimEnv,
    plan: RolloutPlan,
    renderer: SceneRenderer | None = None,
    views: Sequence[str] = (),
    fps: int = FPS,
) -> Rollout:
    """Play one episode; without a renderer there are no frames. ``fps`` is a divisor of 80."""
    check_fps(fps)
    task = env.task
    rng = np.random.default_rng(seed_entropy(plan.seed, plan.task, plan.scene, plan.policy))
    scene = plan.scene_rng()
    start = env.reset(int(scene.integers(2**31)))
    machine = StageMachine([phase.milestones for phase in task.phases], start)
    actor = _Actor(env, make_disturbance(plan.policy, rng), machine.update(start), scene)
    extra_steps = int(rng.integers(*STEPS_AFTER_SUCCESS))
    time = task.expert_steps * _TIME_FACTOR + _EXTRA_STEPS
    horizon = math.ceil(time * actor.disturbance.time_factor)
    log = _Log(env, renderer, views)
    status, done_at, step = machine.update(start), math.inf, 0
    while True:
        action = actor.act(status)
        if step % (CONTROL_HZ // fps) == 0:
            log.add(status, action)
            if status.success:
                done_at = min(done_at, step)
            wait = (
                time if actor.disturbance.runs_to_time_limit else 0 if task.ends_at_success else extra_steps
            )
            if step >= min(horizon, done_at + wait):
                return log.rollout(plan, fps)
        env.step(action)
        status = machine.update(env.state())
        step += 1


class _Actor:
    """The expert of the current phase with its disturbance."""

    def __init__(
        self, env: SimEnv, disturbance: Disturbance, status: StageStatus, scene: np.random.Generator
    ) -> None:
        makers = import_module("metaworld.policies").ENV_POLICY_MAP
        self.disturbance = disturbance
        self._env, self._task = env, env.task
        names = {phase.expert for phase in self._task.phases} | {self._task.opposite} - {""}
        self._experts: dict[str, Any] = {name: makers[name]() for name in sorted(names)}
        self._home, self._start_gap = env.hand, status.gap
        low = 1.0 / self._task.max_slowdown
        self._speeds = low ** scene.uniform(0.0, 1.0, len(self._task.milestones))
        self._speeds[list(self._task.full_speed_stages)] = 1.0

    def act(self, status: StageStatus) -> FloatArray:
        """Return the next action, within -1..1."""
        env = self._env
        fleeting = self._task.ends_at_success
        context = PolicyContext(
            env.state(), status, env.hand, env.hand_setpoint, self._home, self._start_gap, fleeting
        )
        opposite = self.disturbance.calls_opposite_expert(context)
        if opposite and self._task.opposite:
            action = self._expert(self._task.opposite)
        else:
            action = self._expert(self._task.phases[status.phase].expert)
            speed = float(self._speeds[min(status.stage, len(self._speeds) - 1)])
            action = self.disturbance.change_action(slowed(action, speed, context.state), context)
        return np.clip(action, -1.0, 1.0)

    def _expert(self, name: str) -> FloatArray:
        observation = self.disturbance.change_observation(self._env.observation_for(name))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # experts ask for more than 1 and rely on the clipping
            action = self._experts[name].get_action(observation)
        return np.clip(np.asarray(action, dtype=np.float64), -1.0, 1.0)


class _Log:
    """Record of a rollout, frame by frame."""

    def __init__(self, env: SimEnv, renderer: SceneRenderer | None, views: Sequence[str]) -> None:
        self._env, self._renderer = env, renderer
        self._frames: dict[str, list[Frames]] = {view: [] for view in views} if renderer else {}
        self._rows: list[tuple[FloatArray, FloatArray, FloatArray, StageStatus]] = []

    def add(self, status: StageStatus, action: FloatArray) -> None:
        env = self._env
        if self._renderer is not None:
            for view, frames in self._frames.items():
                frames.append(self._renderer.render(env.data, view, env.mark))
        now = env.state()
        self._rows.append(
            (np.array([*env.hand, now.opening]), env.task.environment_state(now), action, status)
        )

    def rollout(self, plan: RolloutPlan, fps: int) -> Rollout:
        states, environment_states, actions, statuses = zip(*self._rows, strict=True)
        return Rollout(
            plan=plan,
            fps=fps,
            frames={view: np.stack(frames) for view, frames in self._frames.items()},
            states=np.stack(states),
            environment_states=np.stack(environment_states),
            actions=np.stack(actions),
            potential=np.array([status.potential for status in statuses]),
            stages=np.array([status.stage for status in statuses], dtype=np.int64),
            truths=np.array([status.truths for status in statuses], dtype=np.bool_),
        )
