"""The stage machine: up with what is done, down with what is undone, 1 at success and nowhere else."""

from __future__ import annotations

import pytest

from stepscore.sim.state import State
from stepscore.sim.tasks.distances import Within
from stepscore.sim.tasks.stage_machine import Milestone, StageMachine, finish, hold, lift, reach
from tests.sim.states import state

PICK = (
    reach("reach", "at", 0.05),
    hold("grasp", "held"),
    lift("lift", "up", 0.04),
    finish("carry", "there", 0.1),
)
START = state()
AT = state(tcp=(0.0, 0.0, 0.04))
HELD = state(tcp=(0.0, 0.0, 0.01), opening=0.5, touched="object", held="object")
UP = state(tcp=(0.0, 0.0, 0.06), obj=(0.0, 0.0, 0.05), opening=0.5, touched="object", held="object")
HALF = state(tcp=(0.2, 0.0, 0.06), obj=(0.2, 0.0, 0.05), opening=0.5, touched="object", held="object")
THERE = state(
    tcp=(0.4, 0.0, 0.06), obj=(0.4, 0.0, 0.05), opening=0.5, touched="object", held="object", success=True
)
DROPPED = state(tcp=(0.2, 0.0, 0.3), obj=(0.2, 0.0, 0.0))


def stages_and_potential(*states: State) -> tuple[list[int], list[float]]:
    machine = StageMachine([PICK], START)
    statuses = [machine.update(now) for now in states]
    return [status.stage for status in statuses], [status.potential for status in statuses]


def test_the_potential_rises_stage_by_stage_to_1_at_success() -> None:
    stages, potential = stages_and_potential(START, AT, HELD, UP, HALF, THERE)
    assert stages == [0, 1, 2, 3, 3, 4]
    assert potential == sorted(potential)
    assert potential[0] == 0.0
    assert potential[-1] == 1.0
    assert max(potential[:-1]) < 1.0


def test_within_a_stage_the_potential_is_the_share_of_the_way() -> None:
    """(stage + 1 - gap / gap at the start) / K, written out."""
    machine = StageMachine([PICK], START)
    whole, left = 0.4 - 0.1, (0.2**2 + 0.05**2) ** 0.5 - 0.1
    assert machine.update(HALF).potential == pytest.approx((3 + 1 - left / whole) / 4)
    assert machine.update(state(tcp=(0.0, 0.0, 0.175))).potential == pytest.approx((0 + 0.5) / 4)


def test_a_drop_takes_the_potential_back_to_the_reach() -> None:
    stages, potential = stages_and_potential(START, HELD, UP, HALF, DROPPED)
    assert stages[-1] == 0
    assert potential[-1] < 0.25 < potential[-2]


def test_undoing_a_success_lowers_the_potential_from_1() -> None:
    stages, potential = stages_and_potential(THERE, HALF, UP, HELD, START)
    assert stages == [4, 3, 3, 2, 0]
    assert potential[0] == 1.0
    assert potential == sorted(potential, reverse=True)


def test_going_away_never_costs_more_than_the_stage() -> None:
    _, potential = stages_and_potential(state(tcp=(0.0, 0.0, 0.9)))
    assert potential == [0.0]


THERE_AND_BACK = [
    (Milestone("go", "there", Within("object", "target", 0.05)),),
    (
        Milestone("return", "half-way back", Within("object", "origin", 0.2)),
        Milestone("finish", "home", Within("object", "origin", 0.05), mode="holds"),
    ),
]


def test_the_second_phase_of_a_chain_begins_when_the_first_is_done() -> None:
    machine = StageMachine(THERE_AND_BACK, START)
    first = machine.update(START)
    assert (first.stage, first.phase, first.success) == (0, 0, False), "home is not yet home again"
    done = machine.update(state(obj=(0.4, 0.0, 0.0)))
    assert (done.stage, done.phase) == (1, 1)
    half = machine.update(state(obj=(0.15, 0.0, 0.0)))
    assert half.stage == 2
    assert half.truths == (False, True, False), "the first phase stays done though it is not true now"
    end = machine.update(START)
    assert end.success
    assert end.potential == 1.0
    again = machine.update(state(obj=(0.4, 0.0, 0.0)))
    assert (again.stage, again.success) == (1, False)
    assert again.potential < 1.0
