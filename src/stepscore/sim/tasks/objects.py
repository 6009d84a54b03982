"""Tasks with loose objects: reach for them, push, pick and place, insert, use as a tool."""

from __future__ import annotations

from typing import Any

from stepscore.sim.tasks.distances import Displaced, Raised, Within
from stepscore.sim.tasks.stage_machine import (
    MAIN_PART,
    Milestone,
    finish,
    finish_by,
    hold,
    lift,
    move,
    over,
    reach,
    shift,
)
from stepscore.sim.tasks.task import Phase, Task


def _object(name: str, instruction: str, body: str, *milestones: Milestone, **options: Any) -> Task:
    env_name = f"{name}-v3"
    return Task(name, env_name, instruction, (Phase(env_name, milestones),), {MAIN_PART: body}, **options)


def _grasp_milestones(noun: str, near: float = 0.04) -> tuple[Milestone, Milestone]:
    """Return the milestones with which every task with a loose object begins: reach and grasp."""
    return (
        reach(f"reach the {noun}", f"the fingers are around the {noun} or right above it", near),
        hold(f"grasp the {noun}", f"the gripper holds the {noun}"),
    )


def _reached(name: str, instruction: str) -> Task:
    return _object(
        name,
        instruction,
        "obj",
        Milestone(
            "approach the mark",
            "the fingertips are within a hand's width of the mark",
            Within("tcp", "target", 0.1),
        ),
        Milestone(
            "come close to the mark",
            "the fingertips are within a few fingers' width of the mark",
            Within("tcp", "target", 0.07),
        ),
        finish("go to the mark", "the fingertips are at the mark", 0.05, point="tcp"),
        expert_steps=44,
        mark=True,
    )


def _pushed(
    name: str, instruction: str, within: float, expert_steps: int, *, noun: str = "puck", **options: Any
) -> Task:
    return _object(
        name,
        instruction,
        "obj",
        *_grasp_milestones(noun),
        move(f"start to move the {noun}", f"the {noun} has been moved towards the mark", 0.05),
        finish(f"move the {noun} to the mark", f"the {noun} is at the mark", within),
        expert_steps=expert_steps,
        mark=True,
        **options,
    )


def _placed(name: str, instruction: str, *milestones: Milestone, expert_steps: int, **options: Any) -> Task:
    body, noun = options.pop("body", "obj"), options.pop("noun", "puck")
    return _object(
        name,
        instruction,
        body,
        *_grasp_milestones(noun, options.pop("near", 0.04)),
        *milestones,
        expert_steps=expert_steps,
        **options,
    )


OBJECTS: tuple[Task, ...] = (
    _placed(
        "assembly",
        "pick up the ring by its handle and put it on the peg",
        lift("lift the ring", "the ring is in the air"),
        over("carry the ring over the peg", "the ring is right above the peg or on it", 0.03, point="ring"),
        finish("put the ring on the peg", "the ring is on the peg", 0.02, point="ring"),
        expert_steps=89,
        body="RoundNut",
        noun="ring's handle",
        points={"object": "object:0", "ring": "site:RoundNut"},
    ),
    _placed(
        "basketball",
        "put the basketball into the hoop",
        lift("lift the ball", "the ball is in the air", 0.05),
        over(
            "carry the ball to the hoop",
            "the ball is near the hoop",
            0.12,
            axes="xyz",
        ),
        finish("put the ball into the hoop", "the ball is in the hoop or right above it", 0.08),
        expert_steps=93,
        body="bsktball",
        noun="ball",
        near=0.05,
    ),
    _placed(
        "bin-picking",
        "move the block from the red bin to the blue bin",
        lift("lift the block", "the block is in the air", 0.05),
        over("carry the block over the blue bin", "the block is above the blue bin or in it", 0.08),
        finish("put the block into the blue bin", "the block is in the blue bin", 0.05),
        expert_steps=122,
        noun="block",
    ),
    _placed(
        "box-close",
        "put the lid on the box",
        lift("lift the lid", "the lid is in the air"),
        over("carry the lid over the box", "the lid is above the box or on it", 0.1),
        finish("put the lid on the box", "the lid is on the box or right above its place", 0.08),
        expert_steps=120,
        body="boxbodytop",
        noun="lid",
        near=0.09,
    ),
    _placed(
        "coffee-pull",
        "pull the mug away from the coffee machine to the mark",
        move("start to pull the mug", "the mug has been pulled away from the machine", 0.04),
        finish("pull the mug to the mark", "the mug is at the mark", 0.07),
        expert_steps=77,
        noun="mug",
        near=0.08,
        mark=True,
    ),
    _placed(
        "coffee-push",
        "push the mug under the coffee machine",
        move("start to push the mug", "the mug has been moved towards the machine", 0.04),
        finish("push the mug under the spout", "the mug stands under the coffee machine", 0.07),
        expert_steps=53,
        noun="mug",
        near=0.08,
    ),
    _placed(
        "disassemble",
        "take the ring off the peg",
        lift("pull the ring up", "the ring has left its seat", 0.03),
        finish_by(
            "lift the ring off the peg", "the ring is off the peg, in the air", Raised("object", 0.156)
        ),
        expert_steps=110,
        body="RoundNut",
        noun="ring's handle",
    ),
    _placed(
        "hammer",
        "hammer the nail into the block",
        lift("lift the hammer", "the hammer is in the air"),
        shift("strike the nail", "the nail has been driven in a little", 0.015, point="nail"),
        finish_by("drive the nail in", "the nail is in the block all the way", Displaced("nail", 0.09)),
        expert_steps=64,
        body="hammerbody",
        noun="hammer",
        points={"object": "object:0", "nail": "object:1"},
    ),
    _placed(
        "hand-insert",
        "put the block into the hole in the table",
        move("carry the block to the hole", "the block has been moved towards the hole", 0.06),
        finish("put the block into the hole", "the block is in the hole", 0.05),
        expert_steps=61,
        noun="block",
    ),
    _placed(
        "peg-insert-side",
        "insert the peg into the hole in the side of the box",
        lift("lift the peg", "the peg is in the air"),
        over(
            "line the peg up with the hole", "the peg is in line with the hole", 0.03, axes="yz", point="head"
        ),
        finish("push the peg into the hole", "the peg is in the hole", 0.07, point="head"),
        expert_steps=100,
        body="peg",
        noun="peg",
        points={"object": "object:0", "head": "site:pegHead"},
        ends_at_success=True,
    ),
    _placed(
        "peg-unplug-side",
        "unplug the peg from the wall",
        move("loosen the peg", "the peg is pulled out a little", 0.015),
        finish("pull the peg out", "the peg is out of the wall", 0.07),
        expert_steps=109,
        body="plug1",
        noun="peg",
        ends_at_success=True,
    ),
    _placed(
        "pick-out-of-hole",
        "take the puck out of the hole and bring it to the mark",
        lift("lift the puck out of the hole", "the puck is out of the hole", 0.06),
        finish("carry the puck to the mark", "the puck is at the mark", 0.07),
        expert_steps=117,
        mark=True,
    ),
    _placed(
        "pick-place",
        "pick up the puck and bring it to the mark",
        lift("lift the puck", "the puck is in the air"),
        finish("carry the puck to the mark", "the puck is at the mark", 0.07),
        expert_steps=52,
        mark=True,
    ),
    _placed(
        "pick-place-wall",
        "pick up the puck and bring it over the wall to the mark",
        lift("lift the puck", "the puck is in the air"),
        lift("lift the puck above the wall", "the puck is as high as the top of the wall", 0.12),
        finish("carry the puck to the mark", "the puck is at the mark", 0.07),
        expert_steps=82,
        mark=True,
    ),
    _pushed("push", "push the puck to the mark", 0.05, 62),
    _pushed("push-back", "pull the block back to the mark", 0.07, 240, noun="block", ends_at_success=True),
    _pushed("push-wall", "push the puck around the wall to the mark", 0.07, 78),
    _reached("reach", "move the gripper to the mark"),
    _reached("reach-wall", "move the gripper over the wall to the mark"),
    _placed(
        "shelf-place",
        "put the block on the shelf",
        lift("lift the block", "the block is in the air"),
        move("carry the block to the shelf", "the block is right in front of the shelf", 0.25),
        finish("put the block on the shelf", "the block is on the shelf", 0.07),
        expert_steps=94,
        noun="block",
        ends_at_success=True,
    ),
    _object(
        "soccer",
        "push the ball into the goal",
        "soccer_ball",
        reach("reach the ball", "the fingers are at the ball", 0.06),
        move("start to push the ball", "the ball has been moved towards the goal", 0.05),
        finish("push the ball into the goal", "the ball is in the goal", 0.07),
        expert_steps=100,
    ),
    _placed(
        "stick-pull",
        "pull the thermos to the mark with the stick through its handle",
        lift("lift the stick", "the stick is in the air"),
        shift("hook the thermos", "the thermos has been moved from its place", 0.02, point="thermos"),
        finish(
            "pull the thermos to the mark",
            "the thermos stands at the mark or beside it",
            0.12,
            point="thermos",
        ),
        expert_steps=190,
        body="stick",
        noun="stick",
        points={"object": "object:0", "thermos": "object:1"},
        mark=True,
        ends_at_success=True,
    ),
    _placed(
        "stick-push",
        "push the thermos to the mark with the stick",
        lift("lift the stick", "the stick is in the air"),
        shift("push against the thermos", "the thermos has been moved from its place", 0.02, point="thermos"),
        finish(
            "push the thermos to the mark",
            "the thermos stands at the mark or beside it",
            0.12,
            point="thermos",
        ),
        expert_steps=73,
        body="stick",
        noun="stick",
        points={"object": "object:0", "thermos": "object:1"},
        mark=True,
    ),
    _pushed("sweep", "sweep the block to the mark beside the table", 0.05, 84, noun="block"),
    _placed(
        "sweep-into",
        "sweep the puck into the hole in the table",
        move("start to sweep the puck", "the puck has been moved towards the hole", 0.05, axes="xy"),
        finish("sweep the puck into the hole", "the puck is over the hole or in it", 0.05, axes="xy"),
        expert_steps=55,
        ends_at_success=True,
    ),
)
