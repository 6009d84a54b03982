"""One seed of one task: every arm trained, then tried in the same scenes. Both are kept on disk."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from examples.better_policy.arms import Arm, sample_weights
from examples.better_policy.demonstrations import read_facts, read_record
from examples.better_policy.evaluation import Scene, scene_number, try_policy
from examples.better_policy.policy import Policies, make_samples, train
from examples.better_policy.setting import Setting, write_arrays
from numpy.typing import NDArray

from stepscore.errors import RunError
from stepscore.sim import get_task
from stepscore.sim.world import World
from stepscore.types import FloatArray, IntArray


@dataclass(frozen=True)
class Trials:
    """How the trials of one task and seed ended.

    Attributes:
        arms: Names of the arms.
        success: (arms, scenes), 0 or 1.
        subgoals: Share of the subgoals reached, (arms, scenes).
        steps: Actions carried out, (arms, scenes).
        scenes: Numbers of the scenes.
    """

    arms: tuple[str, ...]
    success: FloatArray
    subgoals: FloatArray
    steps: IntArray
    scenes: IntArray


def policies_file(folder: Path, seed: int) -> Path:
    """Where the policies of a task and seed are kept."""
    return folder / "policies" / f"seed-{seed}.npz"


def trials_file(folder: Path, seed: int) -> Path:
    """Where the trials of a task and seed are kept."""
    return folder / "trials" / f"seed-{seed}.npz"


def train_arms(folder: Path, arms: Sequence[Arm], setting: Setting, seed: int) -> None:
    """Train all arms of a task with one seed, unless that is done."""
    path = policies_file(folder, seed)
    if path.is_file():
        return
    record = read_record(folder)
    weights = sample_weights(folder, arms, record, seed)
    made = train(make_samples(record, setting.horizon), weights, setting, seed)
    layers = {f"weight{n}": weight for n, weight in enumerate(made.weights)}
    layers |= {f"bias{n}": bias for n, bias in enumerate(made.biases)}
    _write(path, arms, mean=made.mean, spread=made.spread, **layers)


def try_arms(work: Path, task: str, arms: Sequence[Arm], setting: Setting, seed: int) -> None:
    """Try all arms of a task and seed, unless that is done: every arm in the same scenes, other seeds in others."""
    folder = work / task
    path = trials_file(folder, seed)
    if path.is_file():
        return
    policies, time = _read_policies(policies_file(folder, seed), arms), read_facts(folder).time
    scenes = np.arange(setting.scenes) + setting.scenes * seed
    world = World(get_task(task))
    try:
        tried = []
        for number in scenes.tolist():
            scene = Scene(world, scene_number(task, number, setting.scene_seed))
            tried.append([try_policy(scene, policies.of(arm), time) for arm in range(len(arms))])
    finally:
        world.close()
    _write(
        path,
        arms,
        scenes=scenes,
        success=np.array([[float(one.success) for one in row] for row in tried]).T,
        subgoals=np.array([[one.subgoals for one in row] for row in tried]).T,
        steps=np.array([[one.steps for one in row] for row in tried]).T,
    )


def read_trials(folder: Path, seed: int) -> Trials:
    """The trials of a task and seed."""
    with np.load(trials_file(folder, seed)) as kept:
        parts = {name: kept[name] for name in ("success", "subgoals", "steps", "scenes")}
        return Trials(arms=tuple(kept["arms"].tolist()), **parts)


def _write(path: Path, arms: Sequence[Arm], **arrays: NDArray[Any]) -> None:
    write_arrays(path, {"arms": np.array([arm.name for arm in arms]), **arrays})


def _read_policies(path: Path, arms: Sequence[Arm]) -> Policies:
    with np.load(path) as kept:
        if kept["arms"].tolist() != [arm.name for arm in arms]:
            raise RunError(f"{path} holds policies of other arms. Remove the folder, and train again.")
        layers = range(sum(name.startswith("weight") for name in kept.files))
        return Policies(
            tuple(kept[f"weight{n}"] for n in layers),
            tuple(kept[f"bias{n}"] for n in layers),
            kept["mean"],
            kept["spread"],
        )
