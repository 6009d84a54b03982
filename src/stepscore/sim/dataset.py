"""A dataset of simulated rollouts on disk: LeRobot v3.0, its labels and its subgoals.

::

    DATASET/meta, data, videos     what LeRobot and ``open_episodes`` read; meta/episodes has the columns policy,
                                   pair, success_mode, sim_task, scene and seed besides LeRobot's own
    DATASET/labels.parquet         success, subgoals, stages and progress: ``--labels``
    DATASET/subgoals.yaml          the subgoals in words: ``--subgoals``

A step has ``observation.images.VIEW`` and, as float32:

=============================  ===================================================================================
observation.state              the hand's x, y and z in metres, and how far the gripper is open (0..1)
observation.environment_state  x, y and z of the object, of the target and of the task's second object, 9 numbers
                               for every task; zeros if it has no second object. Privileged: no camera shows it
action                         the hand's motion (1 is a centimetre) and the fingers' (-1 opens), within -1..1
=============================  ===================================================================================

and ``next.success``, whether the task is done at that frame.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from stepscore.episodes.labels import Label
from stepscore.episodes.lerobot import episode_id
from stepscore.episodes.lerobot.writing import Codec, Recording, write_lerobot
from stepscore.procedures import write_labels
from stepscore.sim.labels import rollout_labels, write_subgoals
from stepscore.sim.rollout import Rollout, RolloutPlan
from stepscore.sim.tasks import Task, get_task
from stepscore.sim.workers import RenderOptions, simulate

ROBOT = "sawyer"
LABELS_FILE, SUBGOALS_FILE = "labels.parquet", "subgoals.yaml"


def write_dataset(
    root: Path,
    plans: Sequence[RolloutPlan],
    render_options: RenderOptions,
    *,
    workers: int = 1,
    codec: Codec = "h264",
    crf: int | None = None,
    on_done: Callable[[Rollout], None] | None = None,
) -> Path:
    """Play the plans and write them as a dataset with labels and subgoals; return its folder.

    Args:
        root: The dataset's folder; new or empty.
        plans: The rollouts to play; see ``plan_rollouts``.
        render_options: Views, size and frame rate.
        workers: Number of processes, which does not change the dataset.
        codec: ``"h264"``, which plays everywhere, or ``"av1"``.
        crf: Quality of the videos, lower is better; by default the codec's usual one.
        on_done: Called with every rollout once it is written.
    """
    labels: dict[str, list[Label]] = {}
    tasks: dict[str, Task] = {}

    def recordings() -> Iterator[Recording]:
        for number, rollout in enumerate(simulate(plans, render_options, workers)):
            task = tasks.setdefault(rollout.plan.task, get_task(rollout.plan.task))
            labels[episode_id(number)] = rollout_labels(rollout, task)
            yield Recording(task.instruction, _frames(rollout), _episode_columns(rollout.plan, task))
            if on_done is not None:
                on_done(rollout)

    write_lerobot(root, recordings(), fps=render_options.fps, codec=codec, crf=crf, robot=ROBOT)
    write_labels(root / LABELS_FILE, labels)
    write_subgoals(root / SUBGOALS_FILE, list(tasks.values()))
    return root


def _episode_columns(plan: RolloutPlan, task: Task) -> dict[str, Any]:
    return {
        "policy": plan.policy,
        "pair": plan.pair,
        "success_mode": task.success,
        "sim_task": plan.task,
        "scene": plan.scene,
        "seed": plan.seed,
    }


def _frames(rollout: Rollout) -> Iterator[dict[str, Any]]:
    for number in range(len(rollout.potential)):
        yield {
            **{f"observation.images.{view}": frames[number] for view, frames in rollout.frames.items()},
            "observation.state": rollout.states[number].astype(np.float32),
            "observation.environment_state": rollout.environment_states[number].astype(np.float32),
            "action": rollout.actions[number].astype(np.float32),
            "next.success": bool(rollout.success[number]),
        }
