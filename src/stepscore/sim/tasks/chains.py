"""Long tasks: two of Meta-World's one after the other in the same scene, every stage at a tempo of its own."""

from __future__ import annotations

from dataclasses import replace

from stepscore.sim.tasks.distances import Advanced, Both, Displaced, Either, Touching, Within
from stepscore.sim.tasks.fixtures import FIXTURES
from stepscore.sim.tasks.milestones import THING
from stepscore.sim.tasks.objects import OBJECTS
from stepscore.sim.tasks.stage_machine import Milestone
from stepscore.sim.tasks.task import Phase, Task

TEMPO = 5.0
"""The slowest stage is played so many times slower than the expert."""
_SINGLE = {task.name: task for task in (*FIXTURES, *OBJECTS)}


def _once(phase: Phase) -> Phase:
    """A phase that only has to be done at some time: what comes after may undo it."""
    return replace(phase, milestones=tuple(replace(one, mode="ever") for one in phase.milestones))


def _there_and_back(
    name: str,
    first: str,
    second: str,
    instruction: str,
    begun: Milestone,
    done: Milestone,
    *,
    steps: int,
    brisk: tuple[int, ...] = (),
) -> Task:
    """A task and then its opposite, measured to where the thing was at first."""
    task = _SINGLE[first]
    return Task(
        name,
        task.world,
        instruction,
        (_once(task.phases[0]), Phase(f"{second}-v3", (begun, done))),
        task.parts,
        task.points,
        steps=steps,
        tempo=TEMPO,
        brisk=brisk,
    )


def _back(stage: str, subgoal: str, metres: float) -> Milestone:
    return Milestone(stage, subgoal, Advanced(metres, "object", "origin"))


def _home(stage: str, subgoal: str, metres: float) -> Milestone:
    return Milestone(stage, subgoal, Within("object", "origin", metres), mode="holds")


_COFFEE = _SINGLE["coffee-push"]
CHAINS: tuple[Task, ...] = (
    Task(
        "coffee-push-button",
        _COFFEE.world,
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
                        # A knock is shorter than a control step, and its contact is over when it is looked for.
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
        {THING: "obj", "button": "cmbutton"},
        {"object": "object:0", "button": "site:buttonStart"},
        steps=190,
        tempo=TEMPO,
        ends_at_success=True,
    ),
    _there_and_back(
        "door-open-close",
        "door-open",
        "door-close",
        "open the door and then close it again",
        _back("push the door back", "the door stands less wide open than before", 0.1),
        _home("push the door shut", "the door is closed again", 0.08),
        steps=360,
        brisk=(0,),  # it swings over the handle; slower it comes down before it
    ),
    _there_and_back(
        "drawer-open-close",
        "drawer-open",
        "drawer-close",
        "open the drawer and then close it again",
        _back("push the drawer back", "the drawer is pushed back in a little", 0.04),
        _home("push the drawer shut", "the drawer is closed again", 0.03),
        steps=320,
    ),
    _there_and_back(
        "window-open-close",
        "window-open",
        "window-close",
        "open the window and then close it again",
        _back("slide the window back", "the window has slid back a little", 0.05),
        _home("slide the window shut", "the window is closed again", 0.03),
        steps=320,
    ),
)
