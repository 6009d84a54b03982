"""Demonstrations of a task: half good, a quarter failed, a quarter successful but wasteful.

The judges score a LeRobot dataset of ten frames a second. The robot acts eighty times a second, and a policy is
trained on that: the same episodes are recorded once more at every action, without images.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq

from examples.better_policy.setting import (
    FAILED,
    SLACK,
    STEPS_PER_FRAME,
    WASTE,
    WASTEFUL,
    Setting,
    write_arrays,
    write_atomic,
)
from stepscore.errors import RunError
from stepscore.sim import (
    CONTROL_HZ,
    RenderOptions,
    Rollout,
    RolloutPlan,
    SimEnv,
    get_task,
    play,
    seed_entropy,
    write_dataset,
)
from stepscore.training.embedded.tasks import FPS, SIZE, VIEW
from stepscore.types import FloatArray, IntArray

DATASET, RECORD, FACTS = "demonstrations", "actions.npz", "demonstrations.json"
MAX_TRIES = 40
"""Scenes tried for one demonstration before giving up."""
SAME_M = 1e-6
"""Metres by which dataset and record of one episode may differ: rounding to float32."""


@dataclass(frozen=True)
class Record:
    """The demonstrations of a task at every action: n actions in all.

    Attributes:
        states: Hand and gripper before each action, (n, 4).
        things: Positions of object, target and second object, (n, 9).
        actions: The actions, (n, 4).
        episode: Number of each action's episode, (n,).
        frame: The dataset's index of the frame shown when it was done, (n,).
        owner: Number of the episode of every frame of the dataset.
    """

    states: FloatArray
    things: FloatArray
    actions: FloatArray
    episode: IntArray
    frame: IntArray
    owner: IntArray


@dataclass(frozen=True)
class Facts:
    """Facts about the demonstrations of a task.

    Attributes:
        kinds: ``good``, ``failed`` or ``wasteful``, one an episode.
        policies: How the expert was changed; see ``stepscore.sim``.
        scenes: The scene's number.
        steps: Actions recorded.
        time: Most actions of a policy in a trial.
    """

    kinds: tuple[str, ...]
    policies: tuple[str, ...]
    scenes: tuple[int, ...]
    steps: tuple[int, ...]
    time: int


def make_demonstrations(folder: Path, task: str, setting: Setting) -> None:
    """Choose, record and render the demonstrations of a task, unless they are on disk.

    Args:
        folder: The task's folder.
        task: The task's name.
        setting: Counts and seed.
    """
    if (folder / FACTS).is_file():
        return
    env = SimEnv(get_task(task))
    try:
        candidates = [(kind, plan) for kind, plan, _ in choose_demonstrations(env, setting)]
        # Of equals a filter keeps the first: their order must not separate the good from the bad.
        order = np.random.default_rng(seed_entropy(setting.demo_seed, task)).permutation(len(candidates))
        chosen = [candidates[place] for place in order.tolist()]
        recorded = [play(env, plan, fps=CONTROL_HZ) for _, plan in chosen]
    finally:
        env.close()
    dataset, unfinished = folder / DATASET, folder / f".{DATASET}"
    for old in (dataset, unfinished):
        shutil.rmtree(old, ignore_errors=True)
    write_dataset(unfinished, [plan for _, plan in chosen], RenderOptions((VIEW,), SIZE, FPS))
    _write_record(folder / RECORD, recorded, unfinished)
    os.replace(unfinished, dataset)
    facts = Facts(
        kinds=tuple(kind for kind, _ in chosen),
        policies=tuple(plan.policy for _, plan in chosen),
        scenes=tuple(plan.scene for _, plan in chosen),
        steps=tuple(len(rollout.actions) for rollout in recorded),
        time=time_allowed([r for (kind, _), r in zip(chosen, recorded, strict=True) if kind == "good"]),
    )
    write_atomic(folder / FACTS, json.dumps(asdict(facts), indent=1) + "\n")


def time_allowed(good: list[Rollout]) -> int:
    """Return the most actions of a policy: ``SLACK`` times what nine of ten good demonstrations took to success."""
    return int(np.ceil(SLACK * np.quantile([steps_to_success(rollout) for rollout in good], 0.9)))


def steps_to_success(rollout: Rollout) -> float:
    """Return the actions until the task was first done; infinite where it never was."""
    done = np.flatnonzero(rollout.success)
    return float(done[0]) * CONTROL_HZ / rollout.fps if len(done) else np.inf


def choose_demonstrations(env: SimEnv, setting: Setting) -> Iterator[tuple[str, RolloutPlan, Rollout]]:
    """Yield kind, plan and rollout (not rendered) of every demonstration, each in a scene of its own.

    Policies of a kind take turns, a scene each; one that does not end as its kind must is passed over.
    """
    scene, usual = 0, list[float]()
    for kind, count, policies in (
        ("good", setting.good, ("expert",)),
        ("failed", setting.failed, FAILED),
        ("wasteful", setting.wasteful, WASTEFUL),
    ):
        found = 0
        for tried in range(MAX_TRIES * count):
            if found == count:
                break
            plan = RolloutPlan(env.task.name, policies[tried % len(policies)], scene, setting.demo_seed)
            scene += 1
            rollout = play(env, plan, fps=FPS)
            if fits(kind, rollout, usual):
                found += 1
                usual += [steps_to_success(rollout)] * (kind == "good")
                yield kind, plan, rollout
        if found < count:
            raise RunError(f"{env.task.name}: only {found} of {count} {kind} demonstrations were found.")


def fits(kind: str, rollout: Rollout, usual: Sequence[float]) -> bool:
    """Return whether a rollout is a demonstration of that kind, given how long good ones took to success."""
    if not rollout.success[-1]:
        return kind == "failed"
    return kind == "good" or (kind == "wasteful" and _took_too_long(rollout, usual))


def _took_too_long(rollout: Rollout, usual: Sequence[float]) -> bool:
    return steps_to_success(rollout) >= WASTE * float(np.median(usual))


def _write_record(path: Path, recorded: list[Rollout], dataset: Path) -> None:
    """Write state and action of every control step, with the index of the dataset's frame shown then."""
    table = pq.read_table(dataset / "data", columns=["episode_index", "index", "observation.state"])
    owner = table["episode_index"].to_numpy()
    dataset_states = np.stack(table["observation.state"].to_numpy())
    index = table["index"].to_numpy()
    frames = []
    for number, rollout in enumerate(recorded):
        own = np.flatnonzero(owner == number)
        at = np.minimum(np.arange(len(rollout.actions)) // STEPS_PER_FRAME, len(own) - 1)
        frames.append(index[own[at]])
        states = rollout.states[::STEPS_PER_FRAME]
        if np.abs(states - dataset_states[own[: len(states)]]).max() > SAME_M:
            raise RunError(
                f"{dataset}: episode {number} is another rollout than was recorded at every action."
            )
    record = Record(
        states=np.concatenate([r.states for r in recorded]),
        things=np.concatenate([r.environment_states for r in recorded]),
        actions=np.concatenate([r.actions for r in recorded]),
        episode=np.repeat(np.arange(len(recorded)), [len(r.actions) for r in recorded]),
        frame=np.concatenate(frames),
        owner=owner,
    )
    write_arrays(path, vars(record))


def read_record(folder: Path) -> Record:
    """Read the demonstrations of a task from its folder."""
    with np.load(folder / RECORD) as kept:
        return Record(**{field.name: kept[field.name] for field in fields(Record)})


def read_facts(folder: Path) -> Facts:
    """Read the facts about a task's demonstrations from its folder."""
    kept: dict[str, Any] = json.loads((folder / FACTS).read_text(encoding="utf-8"))
    many = {name: tuple(value) for name, value in kept.items() if name != "time"}
    return Facts(**many, time=int(kept["time"]))
