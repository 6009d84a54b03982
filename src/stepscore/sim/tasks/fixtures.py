"""Tasks with objects that are fixed to the table: buttons, handles, doors, drawers, windows, faucets."""

from __future__ import annotations

from typing import Any

from stepscore.sim.tasks.distances import Advanced, Apart, Both, Displaced, Within
from stepscore.sim.tasks.stage_machine import (
    MAIN_PART,
    Milestone,
    finish,
    finish_by,
    move,
    reach,
    shift,
    touch,
)
from stepscore.sim.tasks.task import Phase, Task


def _fixture(name: str, instruction: str, body: str, *milestones: Milestone, **options: Any) -> Task:
    env_name = f"{name}-v3"
    return Task(name, env_name, instruction, (Phase(env_name, milestones),), {MAIN_PART: body}, **options)


def _button(
    name: str, instruction: str, axis: str, within: float, expert_steps: int, *, where: str = ""
) -> Task:
    return _fixture(
        name,
        instruction,
        "button",
        touch(f"reach the button{where}", "the hand touches the button"),
        move("start to press the button", "the button is pressed in a little", 0.02, axes=axis),
        finish("press the button all the way", "the button is pressed in all the way", within, axes=axis),
        expert_steps=expert_steps,
    )


def _faucet(name: str, instruction: str, way: str, expert_steps: int, opposite: str) -> Task:
    return _fixture(
        name,
        instruction,
        "faucet_link2",
        touch("reach the faucet handle", "the hand touches the faucet handle"),
        move("start to turn the handle", f"the faucet handle has begun to turn to the {way}", 0.05),
        finish("turn the handle all the way", f"the faucet handle points all the way to the {way}", 0.07),
        expert_steps=expert_steps,
        opposite=opposite,
        ends_at_success=True,
    )


def _window(name: str, verb: str, state: str, expert_steps: int, opposite: str) -> Task:
    return _fixture(
        name,
        f"{verb} the window",
        "windowb_a",
        touch("reach the window handle", "the hand touches the window or its handle"),
        move("start to slide the window", "the window pane has begun to slide", 0.04, axes="x"),
        finish(f"slide the window {state}", f"the window is {state} all the way", 0.05, axes="x"),
        expert_steps=expert_steps,
        opposite=opposite,
    )


def _plate(name: str, instruction: str, goal: str, begun: float, expert_steps: int, **options: Any) -> Task:
    return _fixture(
        name,
        instruction,
        "puck_channel",
        touch("reach the plate", "the hand touches the plate"),
        move("start to slide the plate", "the plate has begun to slide", begun),
        finish("slide the plate to its place", goal, 0.07),
        expert_steps=expert_steps,
        **options,
    )


FIXTURES: tuple[Task, ...] = (
    _button("button-press", "press the button on the front of the box", "y", 0.02, 58),
    _button("button-press-topdown", "press the button on the top of the box", "z", 0.024, 61),
    _button(
        "button-press-topdown-wall",
        "press the button on the top of the box behind the wall",
        "z",
        0.024,
        54,
        where=" over the wall",
    ),
    _button(
        "button-press-wall",
        "press the button on the front of the box behind the wall",
        "y",
        0.03,
        100,
        where=" over the wall",
    ),
    _fixture(
        "coffee-button",
        "press the button of the coffee machine",
        "cmbutton",
        Milestone(
            "bring the hand to the machine",
            "the hand is within a hand's width of the button",
            Within("hand", "object", 0.13),
        ),
        touch("reach the button", "the hand touches the button"),
        finish("press the button", "the button is pressed in", 0.02, axes="y"),
        expert_steps=34,
        ends_at_success=True,
    ),
    _fixture(
        "dial-turn",
        "turn the dial",
        "dial",
        touch("reach the dial", "the hand touches the dial"),
        shift("start to turn the dial", "the dial has begun to turn", 0.02),
        finish_by("turn the dial to the side", "the dial is turned to the side", Displaced("object", 0.07)),
        expert_steps=67,
    ),
    _fixture(
        "door-close",
        "close the door",
        "door_link",
        # The door moves at a touch, and hardly any policy misses it, so a touch is not a milestone.
        Milestone(
            "go to the door and start to push it",
            "the hand is at the door, which stands clearly less open than at first",
            Both(Within("tcp", "object", 0.25), Advanced(0.13)),
        ),
        move("push the door further", "the door is more than half closed", 0.26),
        finish("push the door shut", "the door is closed or all but closed", 0.08),
        expert_steps=68,
        opposite="door-open-v3",
    ),
    _fixture(
        "door-open",
        "open the door",
        "door_link",
        reach("reach the door handle", "the fingers are at the door handle", 0.07),
        move("pull the door ajar", "the door stands ajar", 0.06, axes="x"),
        finish("pull the door open", "the door is wide open", 0.08, axes="x"),
        expert_steps=81,
        opposite="door-close-v3",
    ),
    _fixture(
        "door-lock",
        "lock the door by turning the lock clockwise",
        "lock_link",
        touch("reach the lock", "the hand touches the lock"),
        move("start to turn the lock", "the lock has begun to turn", 0.03, axes="z"),
        finish("turn the lock all the way", "the lock points down: the door is locked", 0.02, axes="z"),
        expert_steps=73,
        opposite="door-unlock-v3",
        clearance=0.12,
    ),
    _fixture(
        "door-unlock",
        "unlock the door by turning the lock counter-clockwise",
        "lock_link",
        touch("reach the lock", "the hand touches the lock"),
        move("start to turn the lock", "the lock has begun to turn", 0.03, axes="x"),
        finish("turn the lock all the way", "the lock points sideways: the door is unlocked", 0.02, axes="x"),
        expert_steps=42,
        ends_at_success=True,
        opposite="door-lock-v3",
    ),
    _fixture(
        "drawer-close",
        "close the drawer",
        "drawer_link",
        Milestone(
            "go in front of the drawer",
            "the fingers are in front of the drawer handle and level with it",
            Both(
                Within("tcp", "object", 0.06, "x"),
                Both(Apart("object", "tcp", "y", 0.01), Apart("object", "tcp", "z", -0.02)),
            ),
        ),
        move("start to push the drawer", "the drawer is pushed in a little", 0.03),
        finish("push the drawer shut", "the drawer is closed or all but closed", 0.065),
        expert_steps=76,
        opposite="drawer-open-v3",
        clearance=0.08,
    ),
    _fixture(
        "drawer-open",
        "open the drawer",
        "drawer_link",
        reach("reach the drawer handle", "the fingers are at the drawer handle", 0.08),
        move("pull the drawer ajar", "the drawer stands ajar", 0.03),
        finish("pull the drawer open", "the drawer is fully open", 0.03),
        expert_steps=88,
        opposite="drawer-close-v3",
    ),
    _faucet("faucet-close", "turn the faucet handle to the left", "left", 63, "faucet-open-v3"),
    _faucet("faucet-open", "turn the faucet handle to the right", "right", 57, "faucet-close-v3"),
    _fixture(
        "handle-press",
        "press the handle down",
        "handle_link",
        touch("reach the handle", "the hand touches the handle"),
        move("start to press the handle", "the handle has begun to go down", 0.02, axes="z"),
        finish("press the handle all the way", "the handle is all the way down", 0.02, axes="z"),
        expert_steps=34,
        ends_at_success=True,
        clearance=0.1,
    ),
    _fixture(
        "handle-press-side",
        "press the handle at the side down",
        "handle_link",
        touch("reach the handle", "the hand touches the handle"),
        move("start to press the handle", "the handle has begun to go down", 0.02, axes="z"),
        finish("press the handle all the way", "the handle is all the way down", 0.02, axes="z"),
        expert_steps=39,
        ends_at_success=True,
    ),
    _fixture(
        "handle-pull",
        "pull the handle up",
        "handle_link",
        touch("reach the handle", "the hand touches the handle"),
        move("start to pull the handle", "the handle has begun to go up", 0.02, axes="z"),
        finish("pull the handle all the way", "the handle is up", 0.05, axes="z"),
        expert_steps=104,
    ),
    _fixture(
        "handle-pull-side",
        "pull the handle at the side up",
        "handle_link",
        touch("reach the handle", "the hand touches the handle"),
        move("start to pull the handle", "the handle has begun to go up", 0.015),
        finish("pull the handle all the way", "the handle is up", 0.08),
        expert_steps=72,
    ),
    _fixture(
        "lever-pull",
        "pull the lever up",
        "lever_link1",
        touch("reach the lever", "the hand touches the lever"),
        move("start to raise the lever", "the lever has begun to rise", 0.05),
        finish("raise the lever upright", "the lever stands upright", 0.025),
        expert_steps=74,
        ends_at_success=True,
    ),
    _plate("plate-slide", "slide the plate into the cabinet", "the plate is in the cabinet", 0.05, 51),
    _plate(
        "plate-slide-back",
        "slide the plate out of the cabinet to the mark",
        "the plate is at the mark",
        0.04,
        81,
        mark=True,
        ends_at_success=True,
    ),
    _plate(
        "plate-slide-back-side",
        "slide the plate sideways out of the cabinet to the mark",
        "the plate is at the mark",
        0.02,
        36,
        mark=True,
        ends_at_success=True,
    ),
    _plate(
        "plate-slide-side",
        "slide the plate sideways into the cabinet",
        "the plate is in the cabinet",
        0.05,
        48,
        ends_at_success=True,
    ),
    _window("window-close", "close", "closed", 76, "window-open-v3"),
    _window("window-open", "open", "open", 84, "window-close-v3"),
)
