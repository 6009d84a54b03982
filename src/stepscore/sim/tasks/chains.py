"""Chains: two of Meta-World's tasks one after the other in the same scene, every stage at a speed of its own."""

from __future__ import annotations

from dataclasses import replace

from stepscore.sim.tasks.distances import Advanced, Both, Displaced, Either, Touching, Within
from stepscore.sim.tasks.fixtures import FIXTURES
from stepscore.sim.tasks.objects import OBJECTS
from stepscore.sim.tasks.stage_machine import MAIN_PART, Milestone
from stepscore.sim.tasks.task import Phase, Task

MAX_SLOWDOWN = 5.0
"""The slowest stage is played up to this many times slower than the expert."""
_SINGLE = {task.name: task for task in (*FIXTURES, *OBJECTS)}


def _once(phase: Phase) -> Phase:
    """Return the phase with all milestones ``ever``: what comes after may undo it."""
    return replace(phase, milestones=tuple(replace(milestone, mode="ever") for milestone in phase.milestones))


def _there_and_back(
    name: str,
    first: str,
    second: str,
    instruction: str,
    begun: Milestone,
    done: Milestone,
    *,
    expert_steps: int,
    full_speed_stages: tuple[int, ...] = (),
) -> Task:
    """Make the chain of a task and its opposite, measured to where the object was at first."""
    task = _SINGLE[first]
    return Task(
        name,
        task.env_name,
        instruction,
        (_once(task.phases[0]), Phase(f"{second}-v3", (begun, done))),
        task.parts,
        task.points,
        expert_steps=expert_steps,
        max_slowdown=MAX_SLOWDOWN,
        full_speed_stages=full_speed_stages,
    )


def _back(stage: str, subgoal: str, metres: float) -> Milestone:
    return Milestone(stage, subgoal, Advanced(metres, "object", "origin"))


def _home(stage: str, subgoal: str, metres: float) -> Milestone:
    return Milestone(stage, subgoal, Within("object", "origin", metres), mode="holds")


_COFFEE = _SINGLE["coffee-push"]
CHAINS: tuple[Task, ...] = (
    Task(
        "coffee-push-button",
        _COFFEE.env_name,
        "push the mug under the coffee machine and then press the machine's button",
        (
            _once(_COFFEE.phases[0]),
            Phase(
                "coffee-button-v3",
                (
                    Milestone(
                        "bring the hand to the button",
                        "the hand is within a hand's width of the button, the mug under the machine",
                        Within("hand", "button", 0.13),
                    ),
                    Milestone(
                        "reach the button",
                        "the hand touches the button or has pushed it in a little, the mug under the machine",
                        # A knock is shorter than a control step, and its contact is over at the next one.
                        Either(Touching("button", "button"), Displaced("button", 0.004)),
                    ),
                    Milestone(
                        "press the button",
                        "the button is pressed in and the mug stands under the machine",
                        Both(Displaced("button", 0.012), Within("object", "target", 0.09)),
                        mode="holds",
                    ),
                ),
            ),
        ),
        {MAIN_PART: "obj", "button": "cmbutton"},
        {"object": "object:0", "button": "site:buttonStart"},
        expert_steps=190,
        max_slowdown=MAX_SLOWDOWN,
        ends_at_success=True,
    ),
    _there_and_back(
        "door-open-close",
        "door-open",
        "door-close",
        "open the door and then close it again",
        _back("push the door back", "the door stands less wide open than before", 0.1),
        _home("push the door shut", "the door is closed again", 0.08),
        expert_steps=360,
        full_speed_stages=(0,),  # it swings over the handle; slower it comes down before it
    ),
    _there_and_back(
        "drawer-open-close",
        "drawer-open",
        "drawer-close",
        "open the drawer and then close it again",
        _back("push the drawer back", "the drawer is pushed back in a little", 0.04),
        _home("push the drawer shut", "the drawer is closed again", 0.03),
        expert_steps=320,
    ),
    _there_and_back(
        "window-open-close",
        "window-open",
        "window-close",
        "open the window and then close it again",
        _back("slide the window back", "the window has slid back a little", 0.05),
        _home("slide the window shut", "the window is closed again", 0.03),
        expert_steps=320,
    ),
)
