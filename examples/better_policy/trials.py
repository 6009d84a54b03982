"""One seed of one task: every configuration is trained, then run in the same scenes. Both are kept on disk."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from examples.better_policy.configurations import Configuration, sample_weights
from examples.better_policy.demonstrations import read_facts, read_record
from examples.better_policy.evaluation import Scene, run_trial, scene_number
from examples.better_policy.policy import Policies, make_samples, train
from examples.better_policy.setting import Setting, write_arrays
from stepscore.errors import RunError
from stepscore.sim import SimEnv, get_task
from stepscore.types import FloatArray, IntArray


@dataclass(frozen=True)
class Trials:
    """The trials of one task and seed.

    Attributes:
        configs: Names of the configurations.
        success: (configs, scenes), 0 or 1.
        subgoals: Share of the subgoals reached, (configs, scenes).
        steps: Actions carried out, (configs, scenes).
        scenes: Numbers of the scenes.
    """

    configs: tuple[str, ...]
    success: FloatArray
    subgoals: FloatArray
    steps: IntArray
    scenes: IntArray


def policies_file(folder: Path, seed: int) -> Path:
    """Return the file of the policies of a task and seed."""
    return folder / "policies" / f"seed-{seed}.npz"


def trials_file(folder: Path, seed: int) -> Path:
    """Return the file of the trials of a task and seed."""
    return folder / "trials" / f"seed-{seed}.npz"


def train_configurations(folder: Path, configs: Sequence[Configuration], setting: Setting, seed: int) -> None:
    """Train all configurations of a task with one seed, unless that is done."""
    path = policies_file(folder, seed)
    if path.is_file():
        return
    record = read_record(folder)
    weights = sample_weights(folder, configs, record, seed)
    policies = train(make_samples(record, setting.horizon), weights, setting, seed)
    layers = {f"weight{n}": weight for n, weight in enumerate(policies.weights)}
    layers |= {f"bias{n}": bias for n, bias in enumerate(policies.biases)}
    _write(path, configs, mean=policies.mean, spread=policies.spread, **layers)


def run_trials(work: Path, task: str, configs: Sequence[Configuration], setting: Setting, seed: int) -> None:
    """Run the trials of a task and seed, unless that is done: all configurations in the same scenes."""
    folder = work / task
    path = trials_file(folder, seed)
    if path.is_file():
        return
    policies, time = _read_policies(policies_file(folder, seed), configs), read_facts(folder).time
    scenes = np.arange(setting.scenes) + setting.scenes * seed
    env = SimEnv(get_task(task))
    try:
        results = []
        for number in scenes.tolist():
            scene = Scene(env, scene_number(task, number, setting.scene_seed))
            results.append([run_trial(scene, policies.of(config), time) for config in range(len(configs))])
    finally:
        env.close()
    _write(
        path,
        configs,
        scenes=scenes,
        success=np.array([[float(one.success) for one in row] for row in results]).T,
        subgoals=np.array([[one.subgoals for one in row] for row in results]).T,
        steps=np.array([[one.steps for one in row] for row in results]).T,
    )


def read_trials(folder: Path, seed: int) -> Trials:
    """Read the trials of a task and seed."""
    with np.load(trials_file(folder, seed)) as kept:
        parts = {name: kept[name] for name in ("success", "subgoals", "steps", "scenes")}
        return Trials(configs=tuple(kept["arms"].tolist()), **parts)


def _write(path: Path, configs: Sequence[Configuration], **arrays: NDArray[Any]) -> None:
    write_arrays(path, {"arms": np.array([config.name for config in configs]), **arrays})


def _read_policies(path: Path, configs: Sequence[Configuration]) -> Policies:
    with np.load(path) as kept:
        if kept["arms"].tolist() != [config.name for config in configs]:
            raise RunError(
                f"{path} holds policies of other configurations. Remove the folder, and train again."
            )
        layers = range(sum(name.startswith("weight") for name in kept.files))
        return Policies(
            tuple(kept[f"weight{n}"] for n in layers),
            tuple(kept[f"bias{n}"] for n in layers),
            kept["mean"],
            kept["spread"],
        )
