"""One Meta-World environment, reset to numbered scenes and read as a State.

MuJoCo and Meta-World are imported only when an environment is made, because the OpenGL backend (``MUJOCO_GL``) must
be chosen in the process that renders.
"""

# Meta-World keeps what a label needs (targets, positions, how scenes are sampled) in private attributes.
# ruff: noqa: SLF001

from __future__ import annotations

import os
import warnings
from collections import deque
from importlib import import_module
from typing import Any

import numpy as np

from stepscore.errors import MissingExtraError
from stepscore.sim.state import State
from stepscore.sim.tasks import Task
from stepscore.types import FloatArray

CONTROL_HZ = 80
"""Control steps, and so actions, per second."""
METRES_PER_ACTION = 0.01
"""Metres by which an action of 1 moves the hand's setpoint."""
CONTACT_MEMORY_STEPS = 4
"""Control steps for which a contact still counts: fingers that hold an object lose and regain contact many times
a second."""
SIDE_CONTACT_COSINE = 0.7
"""Least cosine between a contact's normal and the line between the fingers for a contact from the side."""
SETTLE_STEPS = 8
"""Control steps for which the hand rests after a reset, until objects are still; they are not part of a rollout."""
REST_ACTION = np.array([0.0, 0.0, 0.0, -1.0])
RAISE_ACTION = np.array([0.0, 0.0, 1.0, 0.0])
"""The action of an open hand that stays where it is, and the action added to raise it."""


_HAND = frozenset({"hand", "left", "right"})


def choose_gl_backend() -> None:
    """Render in software unless ``MUJOCO_GL`` is set; for a worker process, before mujoco is imported."""
    os.environ.setdefault("MUJOCO_GL", "osmesa")


class SimEnv:
    """Environment of one task."""

    def __init__(self, task: Task) -> None:
        try:
            kinds = import_module("metaworld.env_dict").ALL_V3_ENVIRONMENTS
        except ImportError as error:
            raise MissingExtraError("Simulation", "sim") from error
        self.task = task
        self._kinds: dict[str, Any] = dict(kinds)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # deprecations of the libraries below
            self._env: Any = self._kinds[task.env_name]()
        # The expert observes the goal; the cached observation space, which cuts it off, is dropped.
        self._env._partially_observable = False
        self._env.__dict__.pop("sawyer_observation_space", None)
        self._env._set_task_called = True
        self._env.seeded_rand_vec = True
        self._env.max_path_length = 10**9
        self._part_of = self._parts()
        self._contacts: deque[tuple[frozenset[str], frozenset[str]]] = deque(maxlen=CONTACT_MEMORY_STEPS)
        self._observation: FloatArray = np.zeros(39)
        self._success = False
        self._origin: FloatArray = np.zeros(3)

    @property
    def model(self) -> Any:
        """The MuJoCo model."""
        return self._env.model

    @property
    def data(self) -> Any:
        """The MuJoCo data: the scene at the current step."""
        return self._env.data

    @property
    def hand(self) -> FloatArray:
        """The hand's position in metres, shape (3,)."""
        return np.array(self._env.get_endeff_pos(), dtype=np.float64)

    @property
    def hand_setpoint(self) -> FloatArray:
        """The hand's position setpoint in metres, shape (3,), which actions move; the hand lags behind it."""
        return np.array(self._env.data.mocap_pos[0], dtype=np.float64)

    @property
    def mark(self) -> FloatArray | None:
        """The position of the goal's mark, shape (3,); ``None`` if the goal is an object."""
        return np.array(self._env._target_pos, dtype=np.float64) if self.task.mark else None

    def reset(self, seed: int) -> State:
        """Set up the scene of this seed and let it come to rest; return the state the rollout begins in."""
        env = self._env
        # The environment samples a scene at every reset; it is sampled once and then kept, since a reset
        # resets twice and some positions are read from the scene before.
        env.seed(seed)
        env._freeze_rand_vec = False
        env.reset_model()
        env._freeze_rand_vec = True
        env.reset()
        self._contacts.clear()
        for number in range(SETTLE_STEPS + round(self.task.clearance / METRES_PER_ACTION)):
            self.step(REST_ACTION if number < SETTLE_STEPS else REST_ACTION + RAISE_ACTION)
        for _ in range(SETTLE_STEPS if self.task.clearance else 0):
            self.step(REST_ACTION)
        self._origin = self._point(self.task.points["object"])
        return self.state()

    def step(self, action: FloatArray) -> None:
        """Carry out one action, within -1..1."""
        self._observation, _, _, _, info = self._env.step(np.asarray(action, dtype=np.float32))
        self._success = bool(info["success"])
        self._contacts.append(self._touching())

    def state(self) -> State:
        """Return the current state; contacts of the last ``CONTACT_MEMORY_STEPS`` steps count."""
        points = {name: self._point(where) for name, where in self.task.points.items()}
        points["origin"], points["hand"] = self._origin, self.hand
        points["tcp"] = np.array(self._env.tcp_center, dtype=np.float64)
        points["target"] = np.array(self._env._target_pos, dtype=np.float64)
        return State(
            points=points,
            opening=float(self._observation[3]),
            touched=frozenset[str]().union(*(touched for touched, _ in self._contacts)),
            held=frozenset[str]().union(*(held for _, held in self._contacts)),
            success=self._success,
        )

    def observation_for(self, expert: str) -> FloatArray:
        """Return the observation for the expert of an environment: that environment's object positions and goal.

        The goal of another environment's expert is where the object was at the start.
        """
        observation = self._observation.copy()
        if expert != self.task.env_name:
            others = np.asarray(self._kinds[expert]._get_pos_objects(self._env), dtype=np.float64)
            observation[4:7] = others[:3]
            observation[-3:] = self._origin
        return observation

    def close(self) -> None:
        """Free the environment."""
        self._env.close()

    def _point(self, where: str) -> FloatArray:
        kind, _, name = where.partition(":")
        if kind == "object":
            first = 3 * int(name)
            position = np.asarray(self._env._get_pos_objects())[first : first + 3]
        else:
            position = getattr(self._env.data, kind)(name).xpos
        return np.array(position, dtype=np.float64)

    def _parts(self) -> list[str]:
        """Return each geom's part: the hand's own (``hand``, ``left``, ``right``), the task's, or empty."""
        model = self._env.model
        roots = {"right_hand": "hand", "hand": "hand", "leftclaw": "left", "rightclaw": "right"}
        roots |= {body: part for part, body in self.task.parts.items()}
        names = []
        for body in model.geom_bodyid:
            part = ""
            while body and not part:
                part = roots.get(model.body(int(body)).name, "")
                body = model.body_parentid[body]
            names.append(part)
        return names

    def _touching(self) -> tuple[frozenset[str], frozenset[str]]:
        """Return the parts that the hand touches, and those that both fingers press from their sides.

        A closed gripper that rests on an object touches it with both fingers too, but from above: a finger holds only
        if the contact's normal is along the line between the fingers.
        """
        data = self._env.data
        across = data.body("leftclaw").xpos - data.body("rightclaw").xpos
        across = across / np.linalg.norm(across)
        touched: set[str] = set()
        pressed: dict[str, set[str]] = {"left": set(), "right": set()}
        for (one, other), frame in zip(data.contact.geom, data.contact.frame, strict=True):
            a, b = self._part_of[one], self._part_of[other]
            for finger, part in ((a, b), (b, a)):
                if finger in _HAND and part and part not in _HAND:
                    touched.add(part)
                    if finger in pressed and abs(across @ frame[:3]) > SIDE_CONTACT_COSINE:
                        pressed[finger].add(part)
        return frozenset(touched), frozenset(pressed["left"] & pressed["right"])
