"""The gap of a condition is what is left in metres, and 0 or less exactly when it is true."""

from __future__ import annotations

import pytest

from stepscore.sim.state import State
from stepscore.sim.tasks.distances import (
    CONTACT_GAP,
    GRASP_GAP,
    Advanced,
    Apart,
    Both,
    Condition,
    Displaced,
    Done,
    Either,
    Holding,
    Raised,
    Touching,
    Within,
)
from tests.sim.states import state

START = state()
LIFTED = state(obj=(0.0, 0.0, 0.05))
CASES: list[tuple[Condition, State, float]] = [
    (Within("object", "target", 0.1), START, 0.3),
    (Within("object", "target", 0.1), state(obj=(0.35, 0.0, 0.0)), -0.05),
    (Within("tcp", "object", 0.1, "xy"), START, -0.1),
    (Touching("object"), START, 0.3),
    (Touching("object"), state(tcp=(0.0, 0.0, 0.001)), CONTACT_GAP),
    (Touching("object"), state(touched="object"), 0.0),
    (Touching("object"), state(touched="other"), 0.3),
    (Holding("object"), state(opening=0.6, touched="object"), GRASP_GAP),
    (Holding("object"), state(opening=0.6, touched="object", held="object"), 0.0),
    (Raised("object", 0.03), START, 0.03),
    (Raised("object", 0.03), LIFTED, -0.02),
    (Advanced(0.1), state(obj=(0.04, 0.0, 0.0)), 0.06),
    (Advanced(0.1), state(obj=(-0.05, 0.0, 0.0)), 0.15),
    (Displaced("object", 0.1), state(obj=(-0.05, 0.0, 0.0)), 0.05),
    (Apart("tcp", "object", "z", 0.1), START, -0.2),
    (Both(Raised("object", 0.03), Holding("object")), LIFTED, 0.1),
    (Either(Raised("object", 0.08), Touching("object")), LIFTED, 0.03),
    (Either(Raised("object", 0.08), Touching("object")), state(touched="object"), 0.0),
    (Done(Within("object", "target", 0.5)), START, 0.001),
    (Done(Within("object", "target", 0.1)), state(success=True), 0.0),
]


@pytest.mark.parametrize(("condition", "now", "left"), CASES, ids=lambda value: type(value).__name__)
def test_the_gap_is_what_is_left(condition: Condition, now: State, left: float) -> None:
    assert condition.gap(now, START) == pytest.approx(left)


def test_near_is_not_success() -> None:
    """The simulator alone says when a task is done, however near the object is."""
    there = state(obj=(0.4, 0.0, 0.0))
    assert Done(Within("object", "target", 0.1)).gap(there, START) > 0
