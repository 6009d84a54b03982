"""One simulated episode: two seeds and a policy in, pictures and truth out."""

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
from stepscore.sim.policies import Disturbance, Moment, make_disturbance, slowed
from stepscore.sim.render import Camera
from stepscore.sim.tasks.stage_machine import Reading, StageMachine
from stepscore.sim.world import CONTROL_HZ, World
from stepscore.types import FloatArray, Frames, IntArray

FPS = 20
"""Frames a second by default; a divisor of ``CONTROL_HZ``."""
TAIL = (8, 32)
"""Steps a rollout goes on after its first frame of success: from, to. Random, so that length tells little."""
_TIME, _SPARE = 1.5, 40
"""A rollout may take so many times the expert's own steps, and so many more."""


@dataclass(frozen=True)
class Plan:
    """Which episode is to be played.

    Attributes:
        task: The task's name.
        policy: The policy's full name.
        scene: The scene's number; policies meet the same scenes.
        seed: The dataset's seed.
    """

    task: str
    policy: str
    scene: int
    seed: int = 0

    @property
    def pair(self) -> str:
        """The scene's key, which all policies share."""
        return f"{self.task}/seed-{self.seed}/scene-{self.scene:04d}"


@dataclass(frozen=True)
class Rollout:
    """A played episode of n frames.

    Attributes:
        plan: What was to be played.
        fps: Frames a second; frame i is shown at i / fps.
        frames: Pictures by view, each (n, size, size, 3).
        states: Hand position and gripper opening, (n, 4).
        things: Where the things are, (n, 9); see ``Task.things``.
        actions: The first action chosen at each frame, (n, 4); that of the last frame is not carried out.
        potential: Progress, (n,).
        stages: Milestones that stand at each frame, (n,).
        truths: Whether each milestone is true at each frame, (n, K); the last one is success.
    """

    plan: Plan
    fps: int
    frames: Mapping[str, Frames]
    states: FloatArray
    things: FloatArray
    actions: FloatArray
    potential: FloatArray
    stages: IntArray
    truths: np.ndarray[Any, np.dtype[np.bool_]]

    @property
    def success(self) -> np.ndarray[Any, np.dtype[np.bool_]]:
        """Whether the task is done at each frame, (n,)."""
        return self.truths[:, -1]


def numbers(*parts: str | int) -> list[int]:
    """Words and numbers as the entropy of a random generator; the same in every process."""
    return [part if isinstance(part, int) else zlib.crc32(part.encode()) for part in parts]


def check_fps(fps: int) -> None:
    """An error that names the allowed frame rates; nothing when it is one of them."""
    if fps < 1 or CONTROL_HZ % fps:
        allowed = ", ".join(str(n) for n in range(1, CONTROL_HZ + 1) if CONTROL_HZ % n == 0)
        raise OptionError(f"fps is {fps}; the simulator acts {CONTROL_HZ} times a second: one of {allowed}.")


def play(
    world: World, plan: Plan, camera: Camera | None = None, views: Sequence[str] = (), fps: int = FPS
) -> Rollout:
    """Play one episode.

    Args:
        world: The task's world.
        plan: Which episode.
        camera: What draws it; without one there are no frames.
        views: The views to be drawn.
        fps: Frames a second, a divisor of 80.
    """
    check_fps(fps)
    task = world.task
    rng = np.random.default_rng(numbers(plan.seed, plan.task, plan.scene, plan.policy))
    scene = np.random.default_rng(numbers(plan.seed, plan.task, plan.scene))
    start = world.reset(int(scene.integers(2**31)))
    machine = StageMachine([phase.milestones for phase in task.phases], start)
    actor = _Actor(world, make_disturbance(plan.policy, rng), machine.read(start), scene)
    tail = int(rng.integers(*TAIL))
    time = task.steps * _TIME + _SPARE
    horizon = math.ceil(time * actor.disturbance.patience)
    log = _Log(world, camera, views)
    reading, done_at, step = machine.read(start), math.inf, 0
    while True:
        action = actor.act(reading)
        if step % (CONTROL_HZ // fps) == 0:
            log.add(reading, action)
            if reading.success:
                done_at = min(done_at, step)
            wait = time if actor.disturbance.lingers else 0 if task.ends_at_success else tail
            if step >= min(horizon, done_at + wait):
                return log.rollout(plan, fps)
        world.step(action)
        reading = machine.read(world.look())
        step += 1


class _Actor:
    """The expert of the phase under way, as disturbed."""

    def __init__(
        self, world: World, disturbance: Disturbance, reading: Reading, scene: np.random.Generator
    ) -> None:
        makers = import_module("metaworld.policies").ENV_POLICY_MAP
        self.disturbance = disturbance
        self._world, self._task = world, world.task
        names = {phase.expert for phase in self._task.phases} | {self._task.opposite} - {""}
        self._experts: dict[str, Any] = {name: makers[name]() for name in sorted(names)}
        self._home, self._way = world.hand, reading.gap
        low = 1.0 / self._task.tempo
        self._tempo = low ** scene.uniform(0.0, 1.0, len(self._task.milestones))
        self._tempo[list(self._task.brisk)] = 1.0

    def act(self, reading: Reading) -> FloatArray:
        """The next action, within -1..1."""
        world = self._world
        fleeting = self._task.ends_at_success
        moment = Moment(world.look(), reading, world.hand, world.command, self._home, self._way, fleeting)
        opposes = self.disturbance.opposes(moment)
        if opposes and self._task.opposite:
            action = self._expert(self._task.opposite)
        else:
            action = self._expert(self._task.phases[reading.phase].expert)
            tempo = float(self._tempo[min(reading.stage, len(self._tempo) - 1)])
            action = self.disturbance.act(slowed(action, tempo, moment.state), moment)
        return np.clip(action, -1.0, 1.0)

    def _expert(self, name: str) -> FloatArray:
        seen = self.disturbance.see(self._world.observe(name))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # experts ask for more than 1 and rely on the clipping
            action = self._experts[name].get_action(seen)
        return np.clip(np.asarray(action, dtype=np.float64), -1.0, 1.0)


class _Log:
    """What is kept of each frame."""

    def __init__(self, world: World, camera: Camera | None, views: Sequence[str]) -> None:
        self._world, self._camera = world, camera
        self._frames: dict[str, list[Frames]] = {view: [] for view in views} if camera else {}
        self._rows: list[tuple[FloatArray, FloatArray, FloatArray, Reading]] = []

    def add(self, reading: Reading, action: FloatArray) -> None:
        world = self._world
        if self._camera is not None:
            for view, frames in self._frames.items():
                frames.append(self._camera.frame(world.data, view, world.mark))
        now = world.look()
        self._rows.append((np.array([*world.hand, now.opening]), world.task.things(now), action, reading))

    def rollout(self, plan: Plan, fps: int) -> Rollout:
        states, things, actions, readings = zip(*self._rows, strict=True)
        return Rollout(
            plan=plan,
            fps=fps,
            frames={view: np.stack(frames) for view, frames in self._frames.items()},
            states=np.stack(states),
            things=np.stack(things),
            actions=np.stack(actions),
            potential=np.array([reading.potential for reading in readings]),
            stages=np.array([reading.stage for reading in readings], dtype=np.int64),
            truths=np.array([reading.truths for reading in readings], dtype=np.bool_),
        )
