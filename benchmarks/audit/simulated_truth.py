"""Simulated rollouts without images, and what the simulator knows of them under every instruction of their scene.

Under its own instruction the truth of a rollout is the simulator's progress potential, and follows every change of
time. Under another goal for the same object it is computed from the object's recorded positions::

    progress(t) = 1 - gap(t) / gap(own goal),   gap = metres to the other goal less REACHED, at least 0

which is 1 where the other goal is reached and 0 where the task's own is: a drawer that is to be closed has 1 at the
start and 0 once it is open. "Do not ..." is 1 as long as the simulator reports no success. Under an instruction for
another object, or whose goal is too near to the task's own, the truth is unknown, and nothing is scored.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import groupby

import numpy as np

from stepscore.episodes import Episode, Labels, perturb
from stepscore.sim import RenderOptions, Rollout, get_task, plan_rollouts, rollout_labels
from stepscore.sim.workers import play_scene
from stepscore.types import FloatArray
from tests.fakes import FakeView

REACHED = 0.03
"""Metres from another goal at which it counts as reached."""
MIN_APART = 0.06
"""Least metres between two goals for the truth under the other one to be known."""
FPS = 10
POLICIES = ("expert", "noisy:0.5", "undo")
Goal = Callable[[FloatArray, FloatArray], FloatArray]


def start(origin: FloatArray, own: FloatArray) -> FloatArray:
    """Return where the object was at first."""
    return origin


def mirrored(origin: FloatArray, own: FloatArray) -> FloatArray:
    """Return the task's own goal seen in a mirror: left for right."""
    return np.array([2 * origin[0] - own[0], own[1], own[2]])


def other_way(origin: FloatArray, own: FloatArray) -> FloatArray:
    """Return the place as far from the start as the task's own goal, in the opposite direction."""
    return np.array([*(2 * origin[:2] - own[:2]), own[2]])


OTHER_GOALS: Mapping[str, Mapping[str, Goal]] = {
    "drawer-open": {"close the drawer": start, "leave the drawer as it is": start},
    "drawer-close": {"open the drawer": start, "leave the drawer as it is": start},
    "window-open": {"close the window": start, "leave the window as it is": start},
    "window-close": {"open the window": start, "leave the window as it is": start},
    "door-open": {"close the door": start, "leave the door as it is": start},
    "door-close": {"open the door": start, "leave the door as it is": start},
    "faucet-open": {"turn the faucet handle to the left": mirrored, "leave the faucet as it is": start},
    "faucet-close": {"turn the faucet handle to the right": mirrored, "leave the faucet as it is": start},
    "push": {"leave the puck where it is": start, "push the puck as far the other way": other_way},
}
"""By task: other instructions for the same scene and object, and where their goal is."""
TASKS = tuple(OTHER_GOALS)
COUNTERFACTUALS = {get_task(task).instruction: list(goals) for task, goals in OTHER_GOALS.items()}


@dataclass(frozen=True)
class SimulatedTruth:
    """Rollouts as episodes, with the simulator's truth.

    Attributes:
        episodes: The episodes, labelled, with two cameras that show nothing.
        others: Progress at every frame under other instructions, by recorded episode id and instruction.
    """

    episodes: tuple[Episode, ...]
    others: Mapping[tuple[str, str], FloatArray]


def simulate_truth(seed: int, scenes: int, tasks: tuple[str, ...] = TASKS) -> SimulatedTruth:
    """Play every policy on some scenes of every task, in this process and without rendering.

    Args:
        seed: The simulator's seed.
        scenes: Scenes of each task.
        tasks: Names of tasks.
    """
    plans = plan_rollouts(tasks, POLICIES, scenes * len(POLICIES), seed)
    options = RenderOptions(views=(), fps=FPS)
    episodes, others = [], {}
    for _, scene in groupby(plans, key=lambda plan: plan.pair):
        for rollout in play_scene(list(scene), options):
            episode = _episode(rollout)
            episodes.append(episode)
            for text, progress in _other_truths(rollout, episode).items():
                others[episode.id, text] = progress
    return SimulatedTruth(tuple(episodes), others)


def _episode(rollout: Rollout) -> Episode:
    plan, task = rollout.plan, get_task(rollout.plan.task)
    name = f"{plan.pair}/{plan.policy}"
    return Episode(
        id=name.replace(":", "-"),
        instruction=task.instruction,
        task=task.name,
        policy=plan.policy,
        pair=plan.pair,
        views={view: FakeView(len(rollout.potential), FPS, f"{view} {name}") for view in ("top", "wrist")},
        labels=Labels(tuple(rollout_labels(rollout, task))),
    )


def _other_truths(rollout: Rollout, episode: Episode) -> dict[str, FloatArray]:
    positions = rollout.environment_states
    path, own = positions[:, :3], positions[0, 3:6]
    truths: dict[str, FloatArray] = {
        perturb(episode, "negated").instruction: 1.0 - rollout.success.astype(np.float64)
    }
    for text, goal in OTHER_GOALS[rollout.plan.task].items():
        place = goal(path[0], own)
        apart = float(np.linalg.norm(own - place))
        if apart >= MIN_APART:
            gaps = np.maximum(np.linalg.norm(path - place, axis=1) - REACHED, 0.0)
            truths[text] = np.clip(1.0 - gaps / (apart - REACHED), 0.0, 1.0)
    return truths
