"""Demonstrations of a task: half good, a quarter failed, a quarter successful but wasteful.

The films are a LeRobot dataset of ten frames a second, which the judges look at. The robot acts eighty times a
second, and a policy learns from that: the same episodes are recorded once more at every action, without pictures.
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
    STEPS_A_FRAME,
    WASTE,
    WASTEFUL,
    Setting,
    write_arrays,
    write_whole,
)

from stepscore.errors import RunError
from stepscore.sim import Plan, RenderOptions, Rollout, get_task, write_dataset
from stepscore.sim.rollout import numbers, play
from stepscore.sim.world import CONTROL_HZ, World
from stepscore.training.embedded.tasks import FPS, SIZE, VIEW
from stepscore.types import FloatArray, IntArray

FILMS, RECORD, FACTS = "demonstrations", "actions.npz", "demonstrations.json"
MOST_TRIES = 40
"""Scenes tried for one demonstration before the setting is called impossible."""
SAME_M = 1e-6
"""Metres by which film and record of one episode may differ: none, but for float32."""


@dataclass(frozen=True)
class Record:
    """The demonstrations of a task at every action: n actions in all.

    Attributes:
        states: Hand and gripper before each action, (n, 4).
        things: Where the things are, (n, 9).
        actions: What was done, (n, 4).
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
    """What the demonstrations of a task are.

    Attributes:
        kinds: ``good``, ``failed`` or ``wasteful``, one an episode.
        policies: What was done to the expert.
        scenes: The scene's number.
        steps: Actions recorded.
        time: Actions that a policy may take when it is tried.
    """

    kinds: tuple[str, ...]
    policies: tuple[str, ...]
    scenes: tuple[int, ...]
    steps: tuple[int, ...]
    time: int


def make_demonstrations(folder: Path, task: str, setting: Setting) -> None:
    """Choose, record and film the demonstrations of a task; what is there already is not made again.

    Args:
        folder: The task's.
        task: Its name.
        setting: The counts and the seed.
    """
    if (folder / FACTS).is_file():
        return
    world = World(get_task(task))
    try:
        found = list(_choose(world, setting))
        # Of equals a filter keeps the first: their order must not tell the good from the bad.
        order = np.random.default_rng(numbers(setting.demo_seed, task)).permutation(len(found))
        chosen = [found[place] for place in order.tolist()]
        recorded = [play(world, plan, fps=CONTROL_HZ) for _, plan in chosen]
    finally:
        world.close()
    films, unfinished = folder / FILMS, folder / f".{FILMS}"
    for old in (films, unfinished):
        shutil.rmtree(old, ignore_errors=True)
    write_dataset(unfinished, [plan for _, plan in chosen], RenderOptions((VIEW,), SIZE, FPS))
    _write_record(folder / RECORD, recorded, unfinished)
    os.replace(unfinished, films)
    facts = Facts(
        kinds=tuple(kind for kind, _ in chosen),
        policies=tuple(plan.policy for _, plan in chosen),
        scenes=tuple(plan.scene for _, plan in chosen),
        steps=tuple(len(rollout.actions) for rollout in recorded),
        time=time_allowed([r for (kind, _), r in zip(chosen, recorded, strict=True) if kind == "good"]),
    )
    write_whole(folder / FACTS, json.dumps(asdict(facts), indent=1) + "\n")


def time_allowed(good: list[Rollout]) -> int:
    """Actions that a policy may take: ``SLACK`` times what nine of ten good demonstrations took to success."""
    return int(np.ceil(SLACK * np.quantile([steps_to_success(rollout) for rollout in good], 0.9)))


def steps_to_success(rollout: Rollout) -> float:
    """Actions until the task was first done; infinite where it never was."""
    done = np.flatnonzero(rollout.success)
    return float(done[0]) * CONTROL_HZ / rollout.fps if len(done) else np.inf


def _choose(world: World, setting: Setting) -> Iterator[tuple[str, Plan]]:
    """Kind and plan of every demonstration, each in a scene of its own.

    Policies of a kind take turns, a scene each; one that does not end as its kind must is passed over.
    """
    scene, usual = 0, list[float]()
    for kind, count, policies in (
        ("good", setting.good, ("expert",)),
        ("failed", setting.failed, FAILED),
        ("wasteful", setting.wasteful, WASTEFUL),
    ):
        found = 0
        for tried in range(MOST_TRIES * count):
            if found == count:
                break
            plan = Plan(world.task.name, policies[tried % len(policies)], scene, setting.demo_seed)
            scene += 1
            rollout = play(world, plan, fps=FPS)
            if fits(kind, rollout, usual):
                found += 1
                usual += [steps_to_success(rollout)] * (kind == "good")
                yield kind, plan
        if found < count:
            raise RunError(f"{world.task.name}: only {found} of {count} {kind} demonstrations were found.")


def fits(kind: str, rollout: Rollout, usual: Sequence[float]) -> bool:
    """Whether a rollout is a demonstration of that kind, given how long good ones took to success."""
    if not rollout.success[-1]:
        return kind == "failed"
    return kind == "good" or (kind == "wasteful" and _took_too_long(rollout, usual))


def _took_too_long(rollout: Rollout, usual: Sequence[float]) -> bool:
    return steps_to_success(rollout) >= WASTE * float(np.median(usual))


def _write_record(path: Path, recorded: list[Rollout], films: Path) -> None:
    """Keep what was done at every action, with the frame of the dataset shown then."""
    shown = pq.read_table(films / "data", columns=["episode_index", "index", "observation.state"])
    owner = shown["episode_index"].to_numpy()
    seen = np.stack(shown["observation.state"].to_numpy())
    index = shown["index"].to_numpy()
    frames = []
    for number, rollout in enumerate(recorded):
        own = np.flatnonzero(owner == number)
        at = np.minimum(np.arange(len(rollout.actions)) // STEPS_A_FRAME, len(own) - 1)
        frames.append(index[own[at]])
        twice = rollout.states[::STEPS_A_FRAME]
        if np.abs(twice - seen[own[: len(twice)]]).max() > SAME_M:
            raise RunError(f"{films}: the film of episode {number} shows another rollout than was recorded.")
    record = Record(
        states=np.concatenate([r.states for r in recorded]),
        things=np.concatenate([r.things for r in recorded]),
        actions=np.concatenate([r.actions for r in recorded]),
        episode=np.repeat(np.arange(len(recorded)), [len(r.actions) for r in recorded]),
        frame=np.concatenate(frames),
        owner=owner,
    )
    write_arrays(path, vars(record))


def read_record(folder: Path) -> Record:
    """The demonstrations of a task, from its folder."""
    with np.load(folder / RECORD) as kept:
        return Record(**{field.name: kept[field.name] for field in fields(Record)})


def read_facts(folder: Path) -> Facts:
    """What the demonstrations of a task are, from its folder."""
    kept: dict[str, Any] = json.loads((folder / FACTS).read_text(encoding="utf-8"))
    many = {name: tuple(value) for name, value in kept.items() if name != "time"}
    return Facts(**many, time=int(kept["time"]))
