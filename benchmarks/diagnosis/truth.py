"""What happened in a simulated episode, by the simulator's state.

The name comes from positions, contacts and milestones at every control step, never from the policy's name and never
from a curve: 69 % of the ``drop`` episodes succeed. The first row of the table that applies gives the name:

==================  ===============================================================================================
undone at the end   the task was done in some frame and is not done in the last one
wrong target        no milestone was ever true, though the hand made the whole way and worked beside the object
never reached       no milestone was ever true
object lost         the stage fell for good and the contact that was there is gone: the grip where the object was once
                    held, else any touch
too slow            during the last quarter a new stage was reached, or the object came 2 cm and a tenth of its way
                    nearer to the goal
reached and stopped the object rested during the last quarter
not clear           none of these
==================  ===============================================================================================

A success is ``too slow`` where it took over 1.5 times the expert's usual time in that task, else it has no name.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from stepscore.sim import CONTROL_HZ, RolloutPlan, SimEnv, State, Task, play
from stepscore.sim.rollout import Rollout
from stepscore.types import FloatArray

NOTHING = ""
NAMES = (
    "object lost",
    "never reached",
    "reached and stopped",
    "undone at the end",
    "wrong target",
    "too slow",
    "not clear",
)
SLOW = 1.5
"""Times the expert's usual time from which a success is too slow."""
LAST = 0.25
"""Share of the episode, at its end, that shows whether anything still happens."""
WHOLE_WAY, BESIDE_METRES = 0.7, 0.2
"""Share of the way to the object that the hand must have made, and how near it then is, to have worked beside it."""
REST_METRES, NEARER_METRES = 0.015, 0.02


@dataclass(frozen=True)
class Episode:
    """One played episode with the state at every control step.

    Attributes:
        task: The task.
        rollout: Curve, stages and milestones at every frame.
        states: The state at every control step, the first one included.
    """

    task: Task
    rollout: Rollout
    states: Sequence[State]


class RecordingEnv(SimEnv):
    """An environment that keeps the state of every control step since the last reset."""

    def __init__(self, task: Task) -> None:
        super().__init__(task)
        self.states: list[State] = []

    def reset(self, seed: int) -> State:
        """Reset the scene and begin a new record."""
        state = super().reset(seed)
        self.states = [state]
        return state

    def step(self, action: FloatArray) -> None:
        """Carry out one action and record the state after it."""
        super().step(action)
        self.states.append(self.state())


def play_episode(env: RecordingEnv, plan: RolloutPlan) -> Episode:
    """Play one episode without rendering."""
    rollout = play(env, plan)
    return Episode(env.task, rollout, tuple(env.states))


def truth(episode: Episode) -> str:
    """Return what happened, by the table of this module; empty for a success in good time."""
    facts = state_facts(episode)
    if facts["success"]:
        return "too slow" if facts["done_at"] > SLOW * facts["expert"] else NOTHING
    if facts["done_at"] is not None:
        return "undone at the end"
    if not facts["reached"]:
        beside = facts["way"] >= WHOLE_WAY and facts["beside"] <= BESIDE_METRES
        return "wrong target" if beside else "never reached"
    if facts["stage_lost"] and facts["contact_lost"]:
        return "object lost"
    if facts["nearer"]:
        return "too slow"
    return "reached and stopped" if facts["moved"] <= REST_METRES else "not clear"


def state_facts(episode: Episode) -> dict[str, Any]:
    """Return the facts that the table uses.

    Returns:
        ``success`` at the end; ``done_at`` and ``expert``, the time of the first success and the expert's usual one
        in seconds; ``reached``, any milestone was true; ``way``, the hand's distance from its start as a share of
        the way to the object; ``beside``, its least distance from the object during the last quarter in metres;
        ``stage_lost``, the last stage is below the furthest; ``contact_lost``; ``nearer``, still on the way;
        ``moved``, metres the object moved during the last quarter.
    """
    rollout, states = episode.rollout, episode.states
    hand, object_, goal = (np.array([s.points[name] for s in states]) for name in ("tcp", "object", "target"))
    wanted = goal if episode.task.name.startswith("reach") else object_
    distance, left = np.linalg.norm(hand - wanted, axis=1), np.linalg.norm(goal - object_, axis=1)
    late, late_frame = (round(len(x) * (1 - LAST)) for x in (states, rollout.stages))
    contact = np.array([bool(s.held) for s in states])
    if not contact.any():
        contact = np.array([bool(s.touched) for s in states])
    done, stages = np.flatnonzero(rollout.success), rollout.stages
    return {
        "success": bool(rollout.success[-1]),
        "done_at": done[0] / rollout.fps if len(done) else None,
        "expert": episode.task.expert_steps / CONTROL_HZ,
        "reached": bool(rollout.truths.any()),
        "way": float(np.linalg.norm(hand[-1] - hand[0]) / max(distance[0], 1e-9)),
        "beside": float(distance[late:].min()),
        "stage_lost": bool(stages[-1] < stages.max()),
        "contact_lost": bool(contact.any() and not contact[late:].any()),
        "nearer": bool(
            stages[late_frame:].max() > stages[:late_frame].max(initial=0)
            or left[late] - left[-1] >= max(NEARER_METRES, 0.1 * left[0])
        ),
        "moved": float(np.linalg.norm(np.ptp(object_[late:], axis=0))),
    }
