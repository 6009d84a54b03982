"""The test set: just as many simulated rollouts as the figures need, made round by round.

First every policy meets the same few scenes of a trained task, the first two of them under both cameras; of a
held-out task each policy meets one scene. Then, until a trained task has enough pairs of a success and a failure
of the same length, further scenes are played by the policies that mostly gave what is missing. The
simulator's labels alone decide when there are enough; no judge takes part.

A round is written as some datasets. One that is complete is never made again, so that the work can be stopped
and continued, and several checkpoints can be scored on the same videos.
"""

from __future__ import annotations

import json
import math
import shutil
import sys
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Protocol

from stepscore import open_episodes
from stepscore.episodes import Episode
from stepscore.episodes.perturbations.length_matching import match_lengths
from stepscore.sim import RenderOptions, RolloutPlan, write_dataset
from stepscore.training.embedded.tasks import FIRST_TEST_SEED, SECOND_VIEW, SIZE, VIEW

POLICIES = (
    "expert",
    "slow",
    "hesitate",
    "noisy:0.5",
    "noisy:1",
    "freeze",
    "short:1",
    "short:2",
    "short:4",
    "retreat",
    "undo",
    "drop",
    "wrong-target",
)
SPARE = 1.04
"""Pairs to aim for, over those wanted: not every success finds a failure of its length."""
USUAL = 0.4
"""Share of a policy's rollouts that must end as is wanted for it to be played for that."""
LONG = ("hesitate", "undo")
"""Policies whose rollouts take the longest; the shared scenes have enough of them."""
MAX_ROLLOUTS_PER_DATASET = 160
"""Rollouts that are lost if the work is stopped, at most."""


@dataclass(frozen=True)
class Wanted:
    """The size of a test set, by task.

    Attributes:
        seed: The block of seeds.
        pairs: Pairs of matched length that are enough; 0 for the shared scenes alone.
        per_task: Episodes at most.
        scenes: Scenes that every policy meets.
        dealt: The policies are dealt out over these scenes instead, so that each plays one of them.
        two_views: How many of them, the first ones, are rendered by both cameras.
        fps: Frames a second.
        workers: Processes.
    """

    seed: int = FIRST_TEST_SEED
    pairs: int = 50
    per_task: int = 140
    scenes: int = 3
    two_views: int = 2
    dealt: bool = False
    fps: int = 10
    workers: int = 2


def make_tests(folder: Path, tasks: Sequence[str], wanted: Wanted) -> list[Episode]:
    """Read the episodes of these tasks, made where missing; those of a task stand next to each other.

    Raises:
        SystemExit: The folder holds a test set of other tasks, seeds or sizes.
    """
    _check_same(folder, tasks, wanted)
    both = min(wanted.two_views, wanted.scenes)
    episodes = _round(folder / "round-0", _shared(tasks, wanted, range(both)), (VIEW, SECOND_VIEW), wanted)
    rest = _shared(tasks, wanted, range(both, wanted.scenes))
    episodes += _round(folder / "round-1", rest, (VIEW,), wanted)
    number = 2
    while plans := [plan for task in tasks for plan in top_up(_of_task(episodes, task), task, wanted)]:
        episodes += _round(folder / f"round-{number}", plans, (VIEW,), wanted)
        number += 1
    return [episode for task in tasks for episode in _of_task(episodes, task)]


def top_up(episodes: Sequence[Episode], task: str, wanted: Wanted) -> list[RolloutPlan]:
    """Plan the rollouts that a task still needs: none where there are enough pairs, or the most episodes."""
    room = wanted.per_task - len(episodes)
    if room <= 0 or not wanted.pairs or len(match_lengths(main_view(episodes)).pairs) >= wanted.pairs:
        return []
    ended: Mapping[str, list[bool]] = defaultdict(list)
    for episode in episodes:
        ended[str(episode.policy)].append(bool(episode.labels.success))
    first = 1 + max(scene_of(episode) for episode in episodes)
    plans: list[RolloutPlan] = []
    for kind in (True, False):
        there = sum(ends.count(kind) for ends in ended.values())
        shares = {
            policy: ended[policy].count(kind) / len(ended[policy]) for policy in POLICIES if ended[policy]
        }
        usual = {policy: share for policy, share in shares.items() if share >= USUAL and policy not in LONG}
        missing = math.ceil(SPARE * wanted.pairs) - there
        if missing > 0 and usual:
            count = math.ceil(missing / (sum(usual.values()) / len(usual)))
            plans += _played(task, tuple(usual), first, count, wanted.seed)
    # Where there are enough of both and their lengths do not fit, whatever comes may fit.
    plans = plans or _played(task, POLICIES, first, len(POLICIES), wanted.seed)
    # A scene is played in one go: a policy that is usual for both kinds plays it once.
    return sorted(dict.fromkeys(plans), key=lambda plan: plan.scene)[:room]


def _played(task: str, policies: Sequence[str], first: int, count: int, seed: int) -> list[RolloutPlan]:
    """Plan ``count`` rollouts, the policies in turn on one scene after another."""
    return [
        RolloutPlan(task, policies[n % len(policies)], first + n // len(policies), seed)
        for n in range(max(count, 1))
    ]


def _shared(tasks: Sequence[str], wanted: Wanted, scenes: range) -> list[RolloutPlan]:
    """Plan the policies on these scenes: every one on each, or dealt out."""
    plans = []
    for task in tasks:
        mine = [
            RolloutPlan(task, policy, scene, wanted.seed)
            for scene in scenes
            for policy in (POLICIES[scene :: wanted.scenes] if wanted.dealt else POLICIES)
        ]
        plans += mine[: wanted.per_task]
    return plans


class InScene(Protocol):
    """An episode, or its scores."""

    @property
    def pair(self) -> str | None:
        """The key of its scene."""


def scene_of(episode: InScene) -> int:
    """Return the number of an episode's scene."""
    return int(str(episode.pair).rpartition("scene-")[2])


def main_view(episodes: Sequence[Episode]) -> list[Episode]:
    """Return the episodes with the main camera alone."""
    return [episode.with_views([VIEW]) for episode in episodes]


def read_any(dataset: Path) -> list[Episode]:
    """Read the episodes of a simulated dataset, with the simulator's names of their tasks; ids name the dataset."""
    found = open_episodes(dataset, labels=dataset / "labels.parquet", subgoals=dataset / "subgoals.yaml")
    where = "/".join(dataset.parts[-3:])
    return [replace(e, id=f"{where}/{e.id}", task=str(e.pair).partition("/")[0]) for e in found]


def _of_task(episodes: Sequence[Episode], task: str) -> list[Episode]:
    return [episode for episode in episodes if episode.task == task]


def _round(
    folder: Path, plans: Sequence[RolloutPlan], views: tuple[str, ...], wanted: Wanted
) -> list[Episode]:
    """Read the rollouts of these plans, made where missing, in datasets that end where a scene does."""
    parts: list[list[RolloutPlan]] = [[]]
    for plan in plans:
        if len(parts[-1]) >= MAX_ROLLOUTS_PER_DATASET and plan.pair != parts[-1][-1].pair:
            parts.append([])
        parts[-1].append(plan)
    render = RenderOptions(views, SIZE, wanted.fps)
    return [
        episode
        for number, part in enumerate(parts if plans else [])
        for episode in read_any(_dataset(folder / f"part-{number}", part, render, wanted.workers))
    ]


def _dataset(root: Path, plans: Sequence[RolloutPlan], render: RenderOptions, workers: int) -> Path:
    """Make the dataset under another name first, so that one that is there is complete."""
    if not root.exists():
        part = root.with_name(f".{root.name}.part")
        shutil.rmtree(part, ignore_errors=True)
        part.parent.mkdir(parents=True, exist_ok=True)
        print(f"{root}: {len(plans)} rollouts", file=sys.stderr, flush=True)
        write_dataset(part, plans, render, workers=workers)
        part.rename(root)
    return root


def _check_same(folder: Path, tasks: Sequence[str], wanted: Wanted) -> None:
    """Exit where the folder was made for other tasks, seeds or sizes; the number of processes does not matter."""
    config = {**asdict(wanted), "tasks": list(tasks)}
    del config["workers"]
    path = folder / "wanted.json"
    if not path.is_file():
        folder.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(config, indent=1) + "\n", encoding="utf-8")
    found = json.loads(path.read_text(encoding="utf-8"))
    if found != config:
        differ = ", ".join(
            f"{name} is {found.get(name)!r}" for name in config if found.get(name) != config[name]
        )
        sys.exit(f"{folder} holds another test set: {differ}. Give the same options, or another folder.")
