"""Policies: the task's own expert, and named disturbances of it.

=================  ==========================================================================================
expert             Meta-World's scripted expert
noisy:LEVEL        Gaussian noise of that standard deviation on all four action values (0.5 by default)
drop               the gripper opens for good some time after it took hold of something
freeze             the hand stops for good at some point of the way
wrong-target       the expert observes object and goal 8 to 15 cm away from where they are
retreat            the hand lets go at some point of the way, goes back to where it began and stays there
short:CM           it stops that many centimetres short of the goal (4 by default)
undo               some time after success (at once where it would not last) the task is undone: by the
                   expert of the opposite task if there is one, else by going the same way back
slow               everything at 45 to 75 % of the speed
hesitate           pauses of random length at random times
detour             at some point of the way the hand first goes to a place 10 to 18 cm aside, then on
redo               at some point of the way the hand goes back a part of it, and does that part again
=================  ==========================================================================================

A name states the disturbance, not the outcome: labels come only from the simulator.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np

from stepscore.errors import OptionError, UnknownNameError
from stepscore.sim.env import METRES_PER_ACTION
from stepscore.sim.state import State
from stepscore.sim.tasks import StageStatus
from stepscore.types import FloatArray

_GAIN = 10.0
"""Gain from metres to actions when the hand goes to a position."""
_GRASP_DISTANCE = 0.14
"""Metres from the object at which experts begin to close the gripper."""
OPEN_GRIPPER = -1.0
"""The action that opens the gripper."""


@dataclass(frozen=True)
class PolicyContext:
    """Inputs of a disturbance at one control step.

    Attributes:
        state: The state of the scene.
        status: The stage machine's status of that state.
        hand: The hand's position in metres, shape (3,).
        setpoint: The hand's position setpoint, which actions move, shape (3,).
        home: The hand's position at the start, shape (3,).
        start_gap: Metres that the last milestone was away at the start.
        fleeting: Whether the expert itself would undo a success by continuing.
    """

    state: State
    status: StageStatus
    hand: FloatArray
    setpoint: FloatArray
    home: FloatArray
    start_gap: float
    fleeting: bool = False


def slowed(action: FloatArray, speed: float, state: State) -> FloatArray:
    """Return the action at a fraction of its speed, but at full speed within a hand's width of the object.

    Experts close the gripper while they go down; slower, they would close it above the object.
    """
    grasping = state.distance("tcp", "object") < _GRASP_DISTANCE and not state.touched
    return action if grasping else np.array([*action[:3] * speed, action[3]])


class Disturbance:
    """A disturbance of the expert, with ``value`` from the policy's name; this base class changes nothing."""

    time_factor = 1.0
    """Factor on the time that a rollout of the undisturbed expert may take."""
    runs_to_time_limit = False
    """Whether the rollout continues after success until its time limit."""

    def __init__(self, rng: np.random.Generator, value: float) -> None:
        self.rng, self.value = rng, value

    def change_observation(self, observation: FloatArray) -> FloatArray:
        """Return the observation that the expert gets."""
        return observation

    def change_action(self, action: FloatArray, context: PolicyContext) -> FloatArray:
        """Return the action that replaces the expert's."""
        return action

    def calls_opposite_expert(self, context: PolicyContext) -> bool:
        """Return whether the expert of the opposite task, if any, acts from now on."""
        return False


class _Noisy(Disturbance):
    def change_action(self, action: FloatArray, context: PolicyContext) -> FloatArray:
        return action + self.rng.normal(0.0, self.value, 4)


class _Drop(Disturbance):
    def __init__(self, rng: np.random.Generator, value: float) -> None:
        super().__init__(rng, value)
        self._left = int(rng.integers(4, 30))

    def change_action(self, action: FloatArray, context: PolicyContext) -> FloatArray:
        if self._left > 0:
            self._left -= bool(context.state.held)
            return action
        return np.array([*action[:3], OPEN_GRIPPER])


class _Halting(Disturbance):
    """A disturbance that begins when the potential reaches a random value, and never ends."""

    def __init__(self, rng: np.random.Generator, value: float) -> None:
        super().__init__(rng, value)
        self._threshold = rng.uniform(-0.4, 0.97)  # below 0: from the first step on
        self._place: FloatArray | None = None

    def change_action(self, action: FloatArray, context: PolicyContext) -> FloatArray:
        if self._place is None and self.halts(context):
            self._place = context.hand
        return action if self._place is None else self.after(action, context, self._place)

    def halts(self, context: PolicyContext) -> bool:
        return context.status.potential >= self._threshold

    def after(self, action: FloatArray, context: PolicyContext, place: FloatArray) -> FloatArray:
        """Return the action from then on: stay at that position, with the fingers as the expert commands them."""
        return np.array([*(place - context.setpoint) / METRES_PER_ACTION, action[3]])


class _Retreat(_Halting):
    def after(self, action: FloatArray, context: PolicyContext, place: FloatArray) -> FloatArray:
        return np.array([*(context.home - context.hand) * _GAIN, OPEN_GRIPPER])


class _Short(_Halting):
    def halts(self, context: PolicyContext) -> bool:
        # If the whole way is hardly longer than that, two fifths of it remain.
        return context.status.gap <= min(self.value / 100.0, 0.4 * context.start_gap)


class _WrongTarget(Disturbance):
    def __init__(self, rng: np.random.Generator, value: float) -> None:
        super().__init__(rng, value)
        angle = rng.uniform(0.0, 2.0 * np.pi)
        self._shift = rng.uniform(0.08, 0.15) * np.array([np.cos(angle), np.sin(angle), 0.0])

    def change_observation(self, observation: FloatArray) -> FloatArray:
        shifted = observation.copy()
        for first in (4, 36):  # the object and the goal
            shifted[first : first + 3] += self._shift
        return shifted


class _Slow(Disturbance):
    time_factor = 2.5

    def __init__(self, rng: np.random.Generator, value: float) -> None:
        super().__init__(rng, value)
        self._speed = rng.uniform(0.45, 0.75)

    def change_action(self, action: FloatArray, context: PolicyContext) -> FloatArray:
        return slowed(action, self._speed, context.state)


class _Hesitate(Disturbance):
    time_factor = 2.5

    def __init__(self, rng: np.random.Generator, value: float) -> None:
        super().__init__(rng, value)
        self._moves, self._left = True, int(rng.integers(6, 30))

    def change_action(self, action: FloatArray, context: PolicyContext) -> FloatArray:
        if self._left == 0:
            self._moves, self._left = not self._moves, int(self.rng.integers(6, 40))
        self._left -= 1
        return action if self._moves else np.array([0.0, 0.0, 0.0, action[3]])


class _Detour(Disturbance):
    time_factor = 2.5

    def __init__(self, rng: np.random.Generator, value: float) -> None:
        super().__init__(rng, value)
        # Values that every way to success passes, so that the detour begins in every episode.
        self._threshold = rng.uniform(-0.2, 0.7)
        angle = rng.uniform(0.0, 2.0 * np.pi)
        self._aside = rng.uniform(0.1, 0.18) * np.array([np.cos(angle), np.sin(angle), rng.uniform(0.0, 0.5)])
        self._place: FloatArray | None = None
        self._left = 40

    def change_action(self, action: FloatArray, context: PolicyContext) -> FloatArray:
        if self._place is None and context.status.potential >= self._threshold:
            self._place = context.hand + self._aside
        if self._place is None or self._left == 0:
            return action
        way = self._place - context.hand
        self._left = 0 if np.linalg.norm(way) < 0.03 else self._left - 1
        return np.array([*way * _GAIN, action[3]])


class _Redo(Disturbance):
    time_factor = 2.5

    def __init__(self, rng: np.random.Generator, value: float) -> None:
        super().__init__(rng, value)
        self._threshold, self._part = rng.uniform(0.1, 0.75), rng.uniform(0.4, 1.0)
        self._path: list[tuple[FloatArray, float]] = []
        self._back: int | None = None

    def change_action(self, action: FloatArray, context: PolicyContext) -> FloatArray:
        if self._back is None:
            self._path.append((context.hand, float(action[3])))
            if context.status.potential < self._threshold:
                return action
            self._back = math.ceil(self._part * len(self._path))
        if self._back == 0:
            return action
        self._back -= 1
        place, fingers = self._path.pop()
        return np.array([*(place - context.hand) * _GAIN, fingers])


class _Undo(Disturbance):
    time_factor = 2.5
    runs_to_time_limit = True

    def __init__(self, rng: np.random.Generator, value: float) -> None:
        super().__init__(rng, value)
        self._wait = int(rng.integers(6, 24))
        self._path: list[tuple[FloatArray, float]] = []
        self._back = 0

    def calls_opposite_expert(self, context: PolicyContext) -> bool:
        if self._wait > 0 and context.status.success:
            self._wait = 0 if context.fleeting else self._wait - 1
        return self._wait == 0

    def change_action(self, action: FloatArray, context: PolicyContext) -> FloatArray:
        if self._wait > 0:
            self._path.append((context.hand, float(action[3])))
            return action
        self._back = min(self._back + 1, len(self._path))
        place, fingers = self._path[-self._back]
        return np.array([*(place - context.hand) * _GAIN, fingers])


@dataclass(frozen=True)
class _Kind:
    make: Callable[[np.random.Generator, float], Disturbance]
    value: float | None = None
    unit: str = ""


POLICIES: Mapping[str, _Kind] = {
    "expert": _Kind(Disturbance),
    "noisy": _Kind(_Noisy, 0.5, "LEVEL"),
    "drop": _Kind(_Drop),
    "freeze": _Kind(_Halting),
    "wrong-target": _Kind(_WrongTarget),
    "retreat": _Kind(_Retreat),
    "short": _Kind(_Short, 4.0, "CM"),
    "undo": _Kind(_Undo),
    "slow": _Kind(_Slow),
    "hesitate": _Kind(_Hesitate),
    "detour": _Kind(_Detour),
    "redo": _Kind(_Redo),
}


def check_policy(name: str) -> str:
    """Return the policy's full name: ``noisy`` becomes ``noisy:0.5``."""
    kind, value = _parse(name)
    return kind if POLICIES[kind].value is None else f"{kind}:{value:g}"


def make_disturbance(name: str, rng: np.random.Generator) -> Disturbance:
    """Make the disturbance called ``name``, with its random choices."""
    kind, value = _parse(name)
    return POLICIES[kind].make(rng, value)


def _parse(name: str) -> tuple[str, float]:
    kind, colon, text = name.partition(":")
    if kind not in POLICIES:
        raise UnknownNameError("simulated policy", name, POLICIES)
    policy = POLICIES[kind]
    if policy.value is None and colon:
        raise OptionError(f"Policy {name!r}: {kind} takes no number.")
    try:
        value = float(text) if colon else (policy.value or 0.0)
    except ValueError:
        value = -1.0
    if not 0.0 <= value < np.inf:
        raise OptionError(f"Policy {name!r}: expected {kind}:{policy.unit} with a number of at least 0.")
    return kind, value
