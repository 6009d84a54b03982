"""One Meta-World environment, reset to numbered scenes and read as a State.

MuJoCo and Meta-World are imported when a world is made, and not before: the drawing library has to be chosen
(``MUJOCO_GL``) in the process that draws.
"""

# Meta-World keeps what a label needs (targets, positions, how scenes are drawn) in private attributes.
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
from stepscore.sim.tasks.task import Task
from stepscore.types import FloatArray

CONTROL_HZ = 80
"""Actions a second."""
STRIDE = 0.01
"""Metres that an action of 1 moves the place where the hand is told to be."""
CONTACT_MEMORY = 4
"""Steps for which a contact still counts: fingers that hold a thing lose and find it again many times a second."""
SIDEWAYS = 0.7
"""Cosine from which on a contact's normal counts as lying along the line between the fingers."""
SETTLE = 8
"""Steps for which the hand rests after a reset, until things lie still; they are not part of a rollout."""
REST = np.array([0.0, 0.0, 0.0, -1.0])
UP = np.array([0.0, 0.0, 1.0, 0.0])
"""The action of an open hand that stays where it is, and what is added to raise it."""


_HAND = frozenset({"hand", "left", "right"})


def choose_drawing() -> None:
    """Draw in software unless ``MUJOCO_GL`` says otherwise; for a worker process, before mujoco is imported."""
    os.environ.setdefault("MUJOCO_GL", "osmesa")


class World:
    """The environment of one task.

    Args:
        task: What is played in it.
    """

    def __init__(self, task: Task) -> None:
        try:
            kinds = import_module("metaworld.env_dict").ALL_V3_ENVIRONMENTS
        except ImportError as error:
            raise MissingExtraError("Simulation", "sim") from error
        self.task = task
        self._kinds: dict[str, Any] = dict(kinds)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # deprecations of the libraries below
            self._env: Any = self._kinds[task.world]()
        # The expert sees the goal; the space of observations, which cuts it off, is made anew without it.
        self._env._partially_observable = False
        self._env.__dict__.pop("sawyer_observation_space", None)
        self._env._set_task_called = True
        self._env.seeded_rand_vec = True
        self._env.max_path_length = 10**9
        self._part_of = self._parts()
        self._contacts: deque[tuple[frozenset[str], frozenset[str]]] = deque(maxlen=CONTACT_MEMORY)
        self._observation: FloatArray = np.zeros(39)
        self._success = False
        self._origin: FloatArray = np.zeros(3)

    @property
    def model(self) -> Any:
        """The MuJoCo model."""
        return self._env.model

    @property
    def data(self) -> Any:
        """The MuJoCo data: the scene as it is now."""
        return self._env.data

    @property
    def hand(self) -> FloatArray:
        """Where the hand is; what actions move."""
        return np.array(self._env.get_endeff_pos(), dtype=np.float64)

    @property
    def command(self) -> FloatArray:
        """Where the hand is told to be; it lags behind."""
        return np.array(self._env.data.mocap_pos[0], dtype=np.float64)

    @property
    def mark(self) -> FloatArray | None:
        """Where the goal's mark is drawn; ``None`` where the goal is a thing."""
        return np.array(self._env._target_pos, dtype=np.float64) if self.task.mark else None

    def reset(self, seed: int) -> State:
        """Set up the scene with this number and let it come to rest; the state the rollout begins in."""
        env = self._env
        # The environment draws the scene anew at every reset; it is drawn once and then kept, since a reset
        # resets twice and some positions are read from the scene before.
        env.seed(seed)
        env._freeze_rand_vec = False
        env.reset_model()
        env._freeze_rand_vec = True
        env.reset()
        self._contacts.clear()
        for number in range(SETTLE + round(self.task.clearance / STRIDE)):
            self.step(REST if number < SETTLE else REST + UP)
        for _ in range(SETTLE if self.task.clearance else 0):
            self.step(REST)
        self._origin = self._point(self.task.points["object"])
        return self.look()

    def step(self, action: FloatArray) -> None:
        """Let one action take effect."""
        self._observation, _, _, _, info = self._env.step(np.asarray(action, dtype=np.float32))
        self._success = bool(info["success"])
        self._contacts.append(self._touching())

    def look(self) -> State:
        """The state now; contacts of the last ``CONTACT_MEMORY`` steps count."""
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

    def observe(self, expert: str) -> FloatArray:
        """What the expert of an environment would see: its own positions of the objects, its own goal.

        The goal of another environment's expert is where the object was at the start.
        """
        seen = self._observation.copy()
        if expert != self.task.world:
            others = np.asarray(self._kinds[expert]._get_pos_objects(self._env), dtype=np.float64)
            seen[4:7] = others[:3]
            seen[-3:] = self._origin
        return seen

    def close(self) -> None:
        """Free the environment."""
        self._env.close()

    def _point(self, where: str) -> FloatArray:
        kind, _, name = where.partition(":")
        if kind == "object":
            first = 3 * int(name)
            found = np.asarray(self._env._get_pos_objects())[first : first + 3]
        else:
            found = getattr(self._env.data, kind)(name).xpos
        return np.array(found, dtype=np.float64)

    def _parts(self) -> list[str]:
        """What each geom is a part of: the hand's own (``hand``, ``left``, ``right``), the task's, or nothing."""
        model = self._env.model
        roots = {"right_hand": "hand", "hand": "hand", "leftclaw": "left", "rightclaw": "right"}
        roots |= {body: part for part, body in self.task.parts.items()}
        names = []
        for body in model.geom_bodyid:
            found = ""
            while body and not found:
                found = roots.get(model.body(int(body)).name, "")
                body = model.body_parentid[body]
            names.append(found)
        return names

    def _touching(self) -> tuple[frozenset[str], frozenset[str]]:
        """Parts that the hand touches, and parts that both fingers press from their sides.

        A closed gripper that sits on a thing touches it with both fingers, too, but from above: a finger
        holds only where the contact's normal lies along the line between the fingers.
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
                    if finger in pressed and abs(across @ frame[:3]) > SIDEWAYS:
                        pressed[finger].add(part)
        return frozenset(touched), frozenset(pressed["left"] & pressed["right"])
