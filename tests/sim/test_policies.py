"""Policies are named disturbances of the expert."""

from __future__ import annotations

import numpy as np
import pytest

from stepscore.errors import OptionError, UnknownNameError
from stepscore.sim.policies import POLICIES, PolicyContext, check_policy, make_disturbance
from stepscore.sim.state import State
from stepscore.sim.tasks.stage_machine import StageStatus
from stepscore.types import FloatArray
from tests.sim.states import state

FORWARD = np.array([1.0, 0.0, 0.0, 1.0])


def context(
    potential: float = 0.5, *, now: State | None = None, gap: float = 0.2, done: bool = False
) -> PolicyContext:
    status = StageStatus(int(done), 1.0 if done else potential, (done,), gap, 0)
    here = np.array([0.1, 0.6, 0.2])
    return PolicyContext(
        now or state(), status, here, np.array([0.12, 0.6, 0.2]), np.array([0.0, 0.6, 0.3]), 0.4
    )


def acts(name: str, contexts: list[PolicyContext], seed: int = 0) -> list[FloatArray]:
    disturbance = make_disturbance(name, np.random.default_rng(seed))
    return [disturbance.change_action(FORWARD, one) for one in contexts]


def test_the_expert_is_left_alone() -> None:
    assert all((action == FORWARD).all() for action in acts("expert", [context()] * 3))


def test_noise_has_the_level_it_is_given() -> None:
    actions = np.array(acts("noisy:0.7", [context()] * 4000))
    assert np.std(actions, axis=0) == pytest.approx(np.full(4, 0.7), rel=0.1)


def test_a_frozen_hand_stays_at_its_setpoint_and_keeps_its_grip() -> None:
    early, late = acts("freeze", [context(-1.0), context(0.99)])
    assert (early == FORWARD).all()
    assert late == pytest.approx([-2.0, 0.0, 0.0, 1.0]), "2 cm ahead of the hand, at 1 cm a step"


def test_a_retreat_goes_home_with_open_fingers() -> None:
    (action,) = acts("retreat", [context(0.99)])
    assert action[0] < 0 < action[2]
    assert action[3] == -1.0


def test_short_stops_that_many_centimetres_before_the_goal() -> None:
    assert (acts("short:5", [context(gap=0.06)])[0] == FORWARD).all()
    assert acts("short:5", [context(gap=0.05)])[0][0] < 0
    assert (acts("short:50", [context(gap=0.2)])[0] == FORWARD).all(), (
        "at most two fifths of the way are left"
    )


def test_a_drop_opens_the_fingers_for_good_some_time_after_the_grasp() -> None:
    held = state(held="object", touched="object")
    fingers = [action[3] for action in acts("drop", [context()] * 40 + [context(now=held)] * 40)]
    assert set(fingers[:44]) == {1.0}
    assert fingers[-1] == -1.0


def test_a_wrong_target_is_observed_8_to_15_cm_aside() -> None:
    for seed in range(20):
        disturbance = make_disturbance("wrong-target", np.random.default_rng(seed))
        observation = disturbance.change_observation(np.zeros(39))
        assert 0.08 <= np.linalg.norm(observation[4:7]) <= 0.15
        assert (observation[4:7] == observation[36:39]).all()
        assert not observation[:4].any()


def test_undo_waits_for_success_and_then_goes_the_way_back() -> None:
    disturbance = make_disturbance("undo", np.random.default_rng(0))
    assert not any(disturbance.calls_opposite_expert(context()) for _ in range(50))
    assert disturbance.change_action(FORWARD, context()) is FORWARD
    assert [disturbance.calls_opposite_expert(context(done=True)) for _ in range(30)][-1]


def test_the_slow_hand_takes_the_last_hand_width_to_the_object_at_full_speed() -> None:
    far, near = acts("slow", [context(), context(now=state(tcp=(0.0, 0.0, 0.05)))])
    assert 0.45 <= far[0] <= 0.75
    assert near[0] == 1.0


def test_a_detour_goes_aside_once_and_then_on() -> None:
    disturbance = make_disturbance("detour", np.random.default_rng(0))
    actions = [disturbance.change_action(FORWARD, context(0.8)) for _ in range(60)]
    aside = [not (action == FORWARD).all() for action in actions]
    assert aside == [True] * 40 + [False] * 20, (
        "a place that is never reached is given up after half a second"
    )
    assert 1.0 <= np.hypot(*actions[0][:2]) <= 1.8, "10 to 18 cm at a gain of 10"
    assert actions[0][3] == FORWARD[3], "with the fingers as the expert wants them"
    with_start = make_disturbance("detour", np.random.default_rng(0))
    assert with_start.change_action(FORWARD, context(-1.0)) is FORWARD


def test_redo_goes_back_a_part_of_the_way_and_does_it_again() -> None:
    for seed in range(10):
        disturbance = make_disturbance("redo", np.random.default_rng(seed))
        assert all(disturbance.change_action(FORWARD, context(0.0)) is FORWARD for _ in range(19))
        actions = [disturbance.change_action(FORWARD, context(0.8)) for _ in range(30)]
        back = sum(action is not FORWARD for action in actions)
        assert 8 <= back <= 20, "two fifths of the twenty steps to all of them"
        assert all(action is not FORWARD for action in actions[:back])
        assert all(action is FORWARD for action in actions[back:])


def test_the_same_seed_makes_the_same_choices() -> None:
    for name in POLICIES:
        twice = [np.array(acts(name, [context(p / 40) for p in range(40)], seed=3)) for _ in range(2)]
        assert (twice[0] == twice[1]).all(), name


def test_names_are_written_in_full() -> None:
    assert check_policy("noisy") == check_policy("noisy:0.5") == "noisy:0.5"
    assert check_policy("short:4.0") == "short:4"
    assert check_policy("undo") == "undo"


@pytest.mark.parametrize("name", ["noisy:much", "noisy:-1", "short:", "freeze:3", "short:inf", "noisy:nan"])
def test_a_wrong_number_is_named(name: str) -> None:
    with pytest.raises(OptionError, match=name):
        check_policy(name)


def test_an_unknown_policy_answers_with_the_closest() -> None:
    with pytest.raises(UnknownNameError, match="Did you mean 'freeze'"):
        check_policy("freze")
