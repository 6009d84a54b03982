"""The rollouts: annotated demonstrations to train on, other scenes to test on, and scenes that begin elsewhere.

Every split is made from its seed. A scene counts as usual where its object starts in the lower two thirds of where
the simulator puts it, along the axis on which it varies most; the training and the main test split are usual scenes.
The others, whose starts lie beyond all of these, are a test split of their own.
"""

from __future__ import annotations

import json
import os
import shutil
import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path

import numpy as np

from stepscore import open_episodes
from stepscore.episodes import Episode
from stepscore.episodes.labels.label_intervals import POTENTIAL
from stepscore.episodes.labels.labels import Label, Labels, read_labels
from stepscore.errors import OptionError
from stepscore.procedures.labels_table import write_labels
from stepscore.sim import (
    LABELS_FILE,
    SUBGOALS_FILE,
    RenderOptions,
    RolloutPlan,
    SimEnv,
    get_task,
    seed_entropy,
    write_dataset,
)
from stepscore.training.embedded.tasks import FPS, SIZE, VIEW
from stepscore.types import FloatArray

TASKS = ("peg-insert-side", "soccer", "push", "basketball", "bin-picking")
"""Of the tasks the embedded judge knows, the five whose stages' shares of the time vary most between successes."""
MOVED_VIEW = "corner"
"""The main camera, 20 cm further away."""
POLICIES = (
    "expert",
    "short:2",
    "slow",
    "retreat",
    "hesitate",
    "undo",
    "noisy:0.5",
    "freeze",
    "slow",
    "drop",
    "noisy:1",
    "wrong-target",
)
"""Two play each scene: one that mostly succeeds, and one that mostly fails."""
TRAIN_SEED, TEST_SEED = 70001, 70002
USUAL = 2 / 3
"""Share of the starts that are usual."""
SURVEYED = 60
"""Scenes of the training seed that define the usual starts."""
ELAPSED = "elapsed"
"""Frame-index labels of successes alone: time over duration, which failures do not get."""


@dataclass(frozen=True)
class SplitSizes:
    """Sizes of the splits.

    Attributes:
        tasks: Names of tasks.
        demonstrations: Episodes per task to train on, rising; the largest is the main training split.
        test: Episodes per task to test on.
        elsewhere: Episodes per task that begin elsewhere.
        workers: Simulator processes.
    """

    tasks: tuple[str, ...] = TASKS
    demonstrations: tuple[int, ...] = (5, 10, 20, 50)
    test: int = 32
    elsewhere: int = 12
    workers: int = 1


@dataclass(frozen=True)
class Scenes:
    """The scenes of one task, by their numbers.

    Attributes:
        train: Usual scenes of the training seed.
        test: Usual scenes of the test seed.
        elsewhere: Scenes of the test seed that begin elsewhere.
        beyond_m: How far beyond the usual starts these begin, in metres, on average.
    """

    train: tuple[int, ...]
    test: tuple[int, ...]
    elsewhere: tuple[int, ...]
    beyond_m: float


def training_sets(out: Path, sizes: SplitSizes) -> dict[int, tuple[Path, ...]]:
    """Return the datasets to train on, by demonstrations per task: the larger hold the smaller."""
    parts, datasets = [], {}
    for first, end in pairwise((0, *sizes.demonstrations)):
        plans = [
            plan
            for task, scenes in find_scenes(out, sizes).items()
            for plan in plans_of(task, scenes.train, TRAIN_SEED, end)[first:]
        ]
        parts.append(
            write_split(out / "sets" / f"train-{first:02d}-{end:02d}", plans, (VIEW,), sizes.workers)
        )
        datasets[end] = tuple(parts)
    for folder in parts:
        add_elapsed(folder)
    return datasets


def test_episodes(out: Path, sizes: SplitSizes) -> list[Episode]:
    """Return episodes of other usual scenes, from both cameras."""
    plans = [
        plan
        for task, scenes in find_scenes(out, sizes).items()
        for plan in plans_of(task, scenes.test, TEST_SEED, sizes.test)
    ]
    return read(write_split(out / "sets" / "test", plans, (VIEW, MOVED_VIEW), sizes.workers))


def elsewhere_episodes(out: Path, sizes: SplitSizes) -> list[Episode]:
    """Return episodes of scenes whose object starts where none of the others does."""
    plans = [
        plan
        for task, scenes in find_scenes(out, sizes).items()
        for plan in plans_of(task, scenes.elsewhere, TEST_SEED, sizes.elsewhere)
    ]
    return read(write_split(out / "sets" / "elsewhere", plans, (VIEW,), sizes.workers))


def plans_of(task: str, scenes: Sequence[int], seed: int, count: int) -> list[RolloutPlan]:
    """Return plans of this many episodes, two to a scene, the policies in turn."""
    return [
        RolloutPlan(task, POLICIES[number % len(POLICIES)], scenes[number // 2], seed)
        for number in range(count)
    ]


def find_scenes(out: Path, sizes: SplitSizes) -> dict[str, Scenes]:
    """Return the scenes of each task; found once and kept in a file."""
    path = out / "scenes.json"
    known = json.loads(path.read_text(encoding="utf-8")) if path.is_file() else {}
    for task in (task for task in sizes.tasks if task not in known):
        known[task] = vars(_survey(task, sizes))
        path.parent.mkdir(parents=True, exist_ok=True)
        temporary = path.with_name(f".{path.name}.tmp")
        temporary.write_text(json.dumps(known, indent=1) + "\n", encoding="utf-8")
        os.replace(temporary, path)
    found = {task: Scenes(**known[task]) for task in sizes.tasks}
    for task, scenes in found.items():
        if tuple(map(len, (scenes.train, scenes.test, scenes.elsewhere))) != _need(sizes):
            raise OptionError(
                f"{path} holds another number of scenes of {task}. Choose another --out or --sets."
            )
    return found


def _need(sizes: SplitSizes) -> tuple[int, int, int]:
    """Return the numbers of a task's scenes to train on, to test on, and that begin elsewhere; two episodes each."""
    return -(-sizes.demonstrations[-1] // 2), -(-sizes.test // 2), -(-sizes.elsewhere // 2)


def _survey(task: str, sizes: SplitSizes) -> Scenes:
    """Find which scenes of a task are usual, and which begin elsewhere."""
    world = SimEnv(get_task(task))
    need = _need(sizes)
    usual = [start_of(world, TRAIN_SEED, scene) for scene in range(max(SURVEYED, 2 * need[0]))]
    axis = int(np.ptp(usual, axis=0).argmax())
    border = float(np.quantile([start[axis] for start in usual], USUAL))
    train = [scene for scene, start in enumerate(usual) if start[axis] <= border]
    test: list[int] = []
    elsewhere: list[tuple[int, float]] = []
    scene = 0
    while len(test) < need[1] or len(elsewhere) < need[2]:
        beyond = float(start_of(world, TEST_SEED, scene)[axis]) - border
        if beyond <= 0:
            test.append(scene)
        else:
            elsewhere.append((scene, beyond))
        scene += 1
    world.close()
    new = elsewhere[: need[2]]
    far = float(np.mean([beyond for _, beyond in new]))
    return Scenes(tuple(train[: need[0]]), tuple(test[: need[1]]), tuple(n for n, _ in new), round(far, 4))


def start_of(world: SimEnv, seed: int, scene: int) -> FloatArray:
    """Return where the object of a scene starts, in metres, (3,)."""
    drawn = np.random.default_rng(seed_entropy(seed, world.task.name, scene))
    return world.reset(int(drawn.integers(2**31))).points["object"]


def write_split(root: Path, plans: Sequence[RolloutPlan], views: tuple[str, ...], workers: int) -> Path:
    """Render a dataset unless it is there, and return its folder; a dataset under its name is complete."""
    if not root.exists():
        part = root.with_name(f".{root.name}.part")
        shutil.rmtree(part, ignore_errors=True)
        part.parent.mkdir(parents=True, exist_ok=True)
        print(f"{root}: {len(plans)} rollouts", file=sys.stderr, flush=True)
        write_dataset(part, plans, RenderOptions(views, SIZE, FPS), workers=workers)
        part.rename(root)
    return root


def add_elapsed(dataset: Path) -> None:
    """Add time over duration to the labels of the dataset's successes, where it is not there yet."""
    rows = read_labels(dataset / LABELS_FILE)
    if any(row.name == ELAPSED for labels in rows.values() for row in labels):
        return
    more: dict[str, list[Label]] = {}
    for name, labels in rows.items():
        at, _ = Labels(labels).progress(POTENTIAL)
        timed = at if Labels(labels).success else at[:0]
        shares = timed / max(float(at[-1]), 1e-9)
        clock = zip(timed.tolist(), shares.tolist(), strict=True)
        more[name] = [*labels, *(Label("progress", ELAPSED, t, value=share) for t, share in clock)]
    write_labels(dataset / LABELS_FILE, more)


def read(dataset: Path) -> list[Episode]:
    """Read the episodes of a simulated dataset, with the simulator's names of their tasks."""
    found = open_episodes(dataset, labels=dataset / LABELS_FILE, subgoals=dataset / SUBGOALS_FILE)
    return [replace(e, id=f"{dataset.name}/{e.id}", task=str(e.pair).partition("/")[0]) for e in found]
