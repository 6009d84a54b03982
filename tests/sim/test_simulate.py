"""Rollouts of the simulator: the same for any number of workers, true to the scene, labelled by the state."""

from __future__ import annotations

import numpy as np
import pytest

from stepscore.errors import OptionError
from stepscore.sim import (
    RenderOptions,
    Rollout,
    RolloutPlan,
    get_task,
    plan_rollouts,
    rollout_labels,
    simulate,
)
from stepscore.sim.workers import play_scene

RENDER_OPTIONS = RenderOptions(("corner",), 64, 5)
PLANS = [
    RolloutPlan("drawer-open", "expert", 0),
    RolloutPlan("drawer-open", "undo", 0),
    RolloutPlan("pick-place", "drop", 0),
    RolloutPlan("pick-place", "expert", 0),
]

pytestmark = pytest.mark.usefixtures("simulator")


@pytest.fixture(scope="module")
def played(simulator: None) -> dict[RolloutPlan, Rollout]:
    return dict(zip(PLANS, simulate(PLANS, RENDER_OPTIONS, workers=1), strict=True))


def same(one: Rollout, other: Rollout) -> bool:
    if one.frames.keys() != other.frames.keys() or len(one.potential) != len(other.potential):
        return False
    if rollout_labels(one, get_task(one.plan.task)) != rollout_labels(other, get_task(other.plan.task)):
        return False
    arrays = ("states", "environment_states", "actions", "potential", "stages", "truths")
    pixels = all((one.frames[view] == other.frames[view]).all() for view in one.frames)
    return pixels and all((getattr(one, name) == getattr(other, name)).all() for name in arrays)


def test_two_workers_and_another_order_give_the_same_pixels_and_labels(
    played: dict[RolloutPlan, Rollout],
) -> None:
    """One worker has rendered the drawer first and the puck second; of two, one begins with the puck."""
    turned = [*PLANS[2:], *PLANS[:2]]
    again = dict(zip(turned, simulate(turned, RENDER_OPTIONS, workers=2), strict=True))
    for plan in PLANS:
        assert same(played[plan], again[plan]), plan


def test_a_task_rendered_second_in_a_process_equals_the_same_task_rendered_first(
    played: dict[RolloutPlan, Rollout],
) -> None:
    """One process has rendered the drawer and a dropped puck before; a fresh one renders the carried puck at once."""
    (alone,) = simulate(PLANS[3:], RENDER_OPTIONS, workers=1)
    assert same(played[PLANS[3]], alone)


def test_policies_meet_the_same_scene(played: dict[RolloutPlan, Rollout]) -> None:
    first, second = (played[plan].frames["corner"][0] for plan in PLANS[:2])
    assert PLANS[0].pair == PLANS[1].pair
    assert (first == second).all()


def test_the_expert_succeeds_and_its_potential_ends_at_1(played: dict[RolloutPlan, Rollout]) -> None:
    for plan in (PLANS[0], PLANS[3]):
        rollout = played[plan]
        assert rollout.success[-1]
        assert rollout.potential[-1] == 1.0
        assert rollout.potential[0] < 0.1
        assert ((rollout.potential == 1.0) == rollout.success).all()


def test_undo_is_labelled_by_the_state_it_leaves(played: dict[RolloutPlan, Rollout]) -> None:
    rollout = played[PLANS[1]]
    assert rollout.success.any()
    assert not rollout.success[-1]
    assert rollout.potential[-1] < 0.5


def test_a_dropped_puck_is_no_longer_held(played: dict[RolloutPlan, Rollout]) -> None:
    rollout = played[PLANS[2]]
    held = [milestone.subgoal for milestone in get_task("pick-place").milestones].index(
        "the gripper holds the puck"
    )
    assert rollout.truths[:, held].any()
    assert not rollout.truths[-1, held]
    assert not rollout.success[-1]
    assert rollout.potential[-1] < rollout.potential.max()


def test_nothing_is_true_at_the_start(played: dict[RolloutPlan, Rollout]) -> None:
    assert not any(rollout.truths[0].any() for rollout in played.values())


def test_the_objects_are_where_the_truth_says(played: dict[RolloutPlan, Rollout]) -> None:
    """The puck is within the 7 cm of success at the end, and lay further away at the start."""
    rollout = played[PLANS[3]]
    assert rollout.environment_states.shape == (len(rollout.potential), 9)
    puck, target, second = np.split(rollout.environment_states, 3, axis=1)
    away = np.linalg.norm(puck - target, axis=1)
    assert away[-1] <= 0.07 < away[0]
    assert (target == target[0]).all()
    assert not second.any()


def test_frames_are_upright_and_show_something(played: dict[RolloutPlan, Rollout]) -> None:
    """The robot is red; the arm hangs from above, so the upper half has more of it."""
    image = played[PLANS[0]].frames["corner"][0].astype(int)
    red = (image[..., 0] > 90) & (image[..., 1] < 60) & (image[..., 2] < 60)
    assert image.shape == (64, 64, 3)
    assert red[:32].sum() > red[32:].sum() > -1
    assert red.sum() > 40


def test_another_seed_is_another_scene() -> None:
    one, other = (
        play_scene([RolloutPlan("reach", "expert", 0, seed)], RenderOptions(()))[0] for seed in (0, 1)
    )
    assert one.potential[1] != other.potential[1]


@pytest.mark.parametrize("chain", ["coffee-push-button", "drawer-open-close", "window-open-close"])
def test_the_stages_of_a_chain_differ_fourfold_in_length(chain: str) -> None:
    """The longest stage of an episode over its shortest, in the median of three scenes."""
    ratios = []
    for scene in range(3):
        (rollout,) = play_scene([RolloutPlan(chain, "expert", scene)], RenderOptions(()))
        assert rollout.success[-1]
        stages = rollout.stages[rollout.stages < len(get_task(chain).milestones)]
        lengths = np.bincount(stages)
        ratios.append(lengths.max() / lengths[lengths > 0].min())
    assert np.median(ratios) >= 4.0


def test_policies_take_turns_on_every_scene() -> None:
    plans = plan_rollouts(["push", "reach"], ["expert", "noisy", "undo"], 5, seed=7)
    assert [(plan.policy, plan.scene) for plan in plans[:5]] == [
        ("expert", 0),
        ("noisy:0.5", 0),
        ("undo", 0),
        ("expert", 1),
        ("noisy:0.5", 1),
    ]
    assert [plan.task for plan in plans] == ["push"] * 5 + ["reach"] * 5
    assert {plan.pair for plan in plans[:3]} == {"push/seed-7/scene-0000"}


def test_wrong_options_are_named() -> None:
    with pytest.raises(OptionError, match="each once"):
        plan_rollouts(["push"], ["noisy", "noisy:0.5"], 4)
    with pytest.raises(OptionError, match="episodes-per-task must be at least 1 and seed at least 0, got 0"):
        plan_rollouts(["push"], ["expert"], 0)
    with pytest.raises(OptionError, match="one of 1, 2, 4, 5, 8, 10"):
        RenderOptions(fps=30)
    with pytest.raises(OptionError, match="even"):
        RenderOptions(size=63)
    with pytest.raises(OptionError, match="workers must be at least 1, got 0"):
        next(simulate(PLANS, RENDER_OPTIONS, workers=0))


def test_truth_needs_no_frames() -> None:
    (rollout,) = play_scene([RolloutPlan("reach", "expert", 0)], RenderOptions((), fps=80))
    assert rollout.frames == {}
    assert rollout.success[-1]
    assert np.diff(rollout.stages).max() == 1


def test_variation_changes_how_a_rollout_looks_and_nothing_else() -> None:
    plans = plan_rollouts(["drawer-open"], ["expert", "undo"], 2)
    views = ("close", "gripper")
    plain = list(simulate(plans, RenderOptions(views, 32)))
    varied = list(simulate(plans, RenderOptions(views, 32, variation=1.0)))
    for rollout, other in zip(plain, varied, strict=True):
        assert (rollout.potential == other.potential).all()
        assert (rollout.states == other.states).all()
        assert all((rollout.frames[view][0] != other.frames[view][0]).mean() > 0.5 for view in views)
    # Policies meet the same scene, each in its own light and under its own camera.
    assert (varied[0].frames["close"][0] != varied[1].frames["close"][0]).mean() > 0.5
    # What one rollout changes in the model, the next one does not see.
    (alone,) = simulate(plans[1:], RenderOptions(views, 32, variation=1.0))
    assert same(varied[1], alone)


def test_variation_outside_of_0_to_1_is_refused() -> None:
    with pytest.raises(OptionError, match="variation"):
        RenderOptions(variation=1.5)
