"""Policies: the task's own expert, and named disturbances of it.

=================  ==========================================================================================
expert             Meta-World's scripted expert
noisy:LEVEL        Gaussian noise of that standard deviation on all four action values (0.5 where not said)
drop               the gripper opens for good some time after it took hold of something
freeze             the hand stops for good at some point of the way
wrong-target       the expert believes that object and goal lie 8 to 15 cm elsewhere
retreat            the hand lets go at some point of the way, goes back to where it began and stays there
short:CM           it stops that many centimetres short of the goal (4 where not said)
undo               some time after success (at once where it would not last) the task is undone: by the
                   expert of the opposite task where there is one, else by going the same way back
slow               everything at 45 to 75 % of the speed
hesitate           pauses of random length at random times
detour             at some point of the way the hand first goes to a place 10 to 18 cm aside, then on
redo               at some point of the way the hand goes back a part of it, and does that part again
=================  ==========================================================================================

A name says what was done to the expert, and nothing of how it ended: labels come from the simulator alone.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np

from stepscore.errors import OptionError, UnknownNameError
from stepscore.sim.state import State
from stepscore.sim.tasks.stage_machine import Reading
from stepscore.sim.world import STRIDE
from stepscore.types import FloatArray

_GAIN = 10.0
"""Gain from metres to actions when the hand goes to a place."""
_GRASP = 0.14
"""Metres from the thing at which experts begin to close the gripper."""
OPEN = -1.0
"""The action that opens the gripper."""


@dataclass(frozen=True)
class Moment:
    """What a policy may know when it acts.

    Attributes:
        state: The state now.
        reading: What the stage machine says of it.
        hand: Where the hand is.
        command: Where it is told to be; an action moves this place.
        home: Where it began.
        way: Metres that the last milestone was away at the start.
        fleeting: Whether the expert itself would undo a success by going on.
    """

    state: State
    reading: Reading
    hand: FloatArray
    command: FloatArray
    home: FloatArray
    way: float
    fleeting: bool = False


def slowed(action: FloatArray, speed: float, state: State) -> FloatArray:
    """The action at a part of its speed, but for the last hand's width to the thing.

    Experts close the gripper while they go down; slower, they would close it above the thing.
    """
    grasping = state.distance("tcp", "object") < _GRASP and not state.touched
    return action if grasping else np.array([*action[:3] * speed, action[3]])


class Disturbance:
    """What is done to the expert. This one, nothing.

    Args:
        rng: Where its random choices come from.
        value: The number behind the name's colon.
    """

    patience = 1.0
    """How many times longer than the expert's own time a rollout may take."""
    lingers = False
    """Whether the rollout goes on after success to the end of its time."""

    def __init__(self, rng: np.random.Generator, value: float) -> None:
        self.rng, self.value = rng, value

    def see(self, observation: FloatArray) -> FloatArray:
        """What the expert is shown."""
        return observation

    def act(self, action: FloatArray, moment: Moment) -> FloatArray:
        """What is done instead of the expert's action."""
        return action

    def opposes(self, moment: Moment) -> bool:
        """Whether the expert of the opposite task acts from here on, where there is one."""
        return False


class _Noisy(Disturbance):
    def act(self, action: FloatArray, moment: Moment) -> FloatArray:
        return action + self.rng.normal(0.0, self.value, 4)


class _Drop(Disturbance):
    def __init__(self, rng: np.random.Generator, value: float) -> None:
        super().__init__(rng, value)
        self._left = int(rng.integers(4, 30))

    def act(self, action: FloatArray, moment: Moment) -> FloatArray:
        if self._left > 0:
            self._left -= bool(moment.state.held)
            return action
        return np.array([*action[:3], OPEN])


class _Halting(Disturbance):
    """Something that begins when the potential reaches a random height, and never ends."""

    def __init__(self, rng: np.random.Generator, value: float) -> None:
        super().__init__(rng, value)
        self._height = rng.uniform(-0.4, 0.97)  # below 0: from the first step on
        self._place: FloatArray | None = None

    def act(self, action: FloatArray, moment: Moment) -> FloatArray:
        if self._place is None and self.halts(moment):
            self._place = moment.hand
        return action if self._place is None else self.after(action, moment, self._place)

    def halts(self, moment: Moment) -> bool:
        return moment.reading.potential >= self._height

    def after(self, action: FloatArray, moment: Moment, place: FloatArray) -> FloatArray:
        """What is done from then on: stay at that place, with the fingers as they are told."""
        return np.array([*(place - moment.command) / STRIDE, action[3]])


class _Retreat(_Halting):
    def after(self, action: FloatArray, moment: Moment, place: FloatArray) -> FloatArray:
        return np.array([*(moment.home - moment.hand) * _GAIN, OPEN])


class _Short(_Halting):
    def halts(self, moment: Moment) -> bool:
        # Where the whole way is hardly longer than that, two fifths of it are left undone.
        return moment.reading.gap <= min(self.value / 100.0, 0.4 * moment.way)


class _WrongTarget(Disturbance):
    def __init__(self, rng: np.random.Generator, value: float) -> None:
        super().__init__(rng, value)
        angle = rng.uniform(0.0, 2.0 * np.pi)
        self._shift = rng.uniform(0.08, 0.15) * np.array([np.cos(angle), np.sin(angle), 0.0])

    def see(self, observation: FloatArray) -> FloatArray:
        shown = observation.copy()
        for first in (4, 36):  # the object and the goal
            shown[first : first + 3] += self._shift
        return shown


class _Slow(Disturbance):
    patience = 2.5

    def __init__(self, rng: np.random.Generator, value: float) -> None:
        super().__init__(rng, value)
        self._speed = rng.uniform(0.45, 0.75)

    def act(self, action: FloatArray, moment: Moment) -> FloatArray:
        return slowed(action, self._speed, moment.state)


class _Hesitate(Disturbance):
    patience = 2.5

    def __init__(self, rng: np.random.Generator, value: float) -> None:
        super().__init__(rng, value)
        self._moves, self._left = True, int(rng.integers(6, 30))

    def act(self, action: FloatArray, moment: Moment) -> FloatArray:
        if self._left == 0:
            self._moves, self._left = not self._moves, int(self.rng.integers(6, 40))
        self._left -= 1
        return action if self._moves else np.array([0.0, 0.0, 0.0, action[3]])


class _Detour(Disturbance):
    patience = 2.5

    def __init__(self, rng: np.random.Generator, value: float) -> None:
        super().__init__(rng, value)
        # Heights that every way to success passes: a detour that never begins would be no detour.
        self._height = rng.uniform(-0.2, 0.7)
        angle = rng.uniform(0.0, 2.0 * np.pi)
        self._aside = rng.uniform(0.1, 0.18) * np.array([np.cos(angle), np.sin(angle), rng.uniform(0.0, 0.5)])
        self._place: FloatArray | None = None
        self._left = 40

    def act(self, action: FloatArray, moment: Moment) -> FloatArray:
        if self._place is None and moment.reading.potential >= self._height:
            self._place = moment.hand + self._aside
        if self._place is None or self._left == 0:
            return action
        way = self._place - moment.hand
        self._left = 0 if np.linalg.norm(way) < 0.03 else self._left - 1
        return np.array([*way * _GAIN, action[3]])


class _Redo(Disturbance):
    patience = 2.5

    def __init__(self, rng: np.random.Generator, value: float) -> None:
        super().__init__(rng, value)
        self._height, self._part = rng.uniform(0.1, 0.75), rng.uniform(0.4, 1.0)
        self._path: list[tuple[FloatArray, float]] = []
        self._back: int | None = None

    def act(self, action: FloatArray, moment: Moment) -> FloatArray:
        if self._back is None:
            self._path.append((moment.hand, float(action[3])))
            if moment.reading.potential < self._height:
                return action
            self._back = math.ceil(self._part * len(self._path))
        if self._back == 0:
            return action
        self._back -= 1
        place, fingers = self._path.pop()
        return np.array([*(place - moment.hand) * _GAIN, fingers])


class _Undo(Disturbance):
    patience = 2.5
    lingers = True

    def __init__(self, rng: np.random.Generator, value: float) -> None:
        super().__init__(rng, value)
        self._wait = int(rng.integers(6, 24))
        self._path: list[tuple[FloatArray, float]] = []
        self._back = 0

    def opposes(self, moment: Moment) -> bool:
        if self._wait > 0 and moment.reading.success:
            self._wait = 0 if moment.fleeting else self._wait - 1
        return self._wait == 0

    def act(self, action: FloatArray, moment: Moment) -> FloatArray:
        if self._wait > 0:
            self._path.append((moment.hand, float(action[3])))
            return action
        self._back = min(self._back + 1, len(self._path))
        place, fingers = self._path[-self._back]
        return np.array([*(place - moment.hand) * _GAIN, fingers])


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
    """The policy's name, in full: ``noisy`` becomes ``noisy:0.5``."""
    kind, value = _parse(name)
    return kind if POLICIES[kind].value is None else f"{kind}:{value:g}"


def make_disturbance(name: str, rng: np.random.Generator) -> Disturbance:
    """The disturbance called ``name``, with its random choices made."""
    kind, value = _parse(name)
    return POLICIES[kind].make(rng, value)


def _parse(name: str) -> tuple[str, float]:
    kind, colon, text = name.partition(":")
    if kind not in POLICIES:
        raise UnknownNameError("simulated policy", name, POLICIES)
    found = POLICIES[kind]
    if found.value is None and colon:
        raise OptionError(f"Policy {name!r}: {kind} takes no number.")
    try:
        value = float(text) if colon else (found.value or 0.0)
    except ValueError:
        value = -1.0
    if not 0.0 <= value < np.inf:
        raise OptionError(f"Policy {name!r}: expected {kind}:{found.unit} with a number from 0 on.")
    return kind, value
