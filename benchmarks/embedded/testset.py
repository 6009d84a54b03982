"""The test set: just as many simulated rollouts as the figures need, made chunk by chunk.

A chunk is some scenes of one task, a dataset of its own: one that is complete is never made again, so that the
work can be stopped and continued. The first two chunks of a task play every policy on every scene, the first
with both cameras. Further ones are made until there are enough pairs of a success and a failure of the same
length, and play the policies that mostly gave what is missing. What stops the work is the simulator's
truth alone; no judge has a say in it.
"""

from __future__ import annotations

import shutil
import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from stepscore import open_episodes
from stepscore.episodes import Episode
from stepscore.episodes.length_matching import match_lengths
from stepscore.sim import Filming, Plan, write_dataset
from stepscore.training.embedded_tasks import SECOND_VIEW, SIZE, VIEW

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
MIXED = 2
"""Chunks that play every policy."""


@dataclass(frozen=True)
class Wanted:
    """How much is made of each task.

    Attributes:
        seed: The block of seeds.
        pairs: Pairs of matched length that are enough.
        per_task: Episodes at most.
        scenes: Scenes of a chunk.
        fps: Frames a second.
        workers: Processes.
    """

    seed: int
    pairs: int = 50
    per_task: int = 234
    scenes: int = 3
    fps: int = 10
    workers: int = 2


def make_task(folder: Path, task: str, wanted: Wanted) -> list[Episode]:
    """The episodes of one task, made or found; ids begin with the task."""
    episodes: list[Episode] = []
    chunk = first = 0
    while len(episodes) < wanted.per_task:
        policies = _policies(episodes, chunk, wanted.pairs)
        if not policies:
            break
        scenes = -(-wanted.scenes * len(POLICIES) // len(policies))
        plans = [
            Plan(task, policy, scene, wanted.seed)
            for scene in range(first, first + scenes)
            for policy in policies
        ][: wanted.per_task - len(episodes)]
        views = (VIEW, SECOND_VIEW) if chunk == 0 else (VIEW,)
        made = _dataset(
            folder / task / f"chunk-{chunk}", plans, Filming(views, SIZE, wanted.fps), wanted.workers
        )
        episodes += read_chunk(made, task)
        chunk, first = chunk + 1, first + scenes
    return episodes


def read_chunk(dataset: Path, task: str) -> list[Episode]:
    """The episodes of a dataset under ids that name task and chunk."""
    found = open_episodes(dataset, labels=dataset / "labels.parquet", subgoals=dataset / "subgoals.yaml")
    return [replace(e, id=f"{task}/{dataset.name}/{e.id}", task=task) for e in found]


def read_any(dataset: Path) -> list[Episode]:
    """The episodes of any simulated dataset, with the simulator's names of their tasks."""
    found = open_episodes(dataset, labels=dataset / "labels.parquet", subgoals=dataset / "subgoals.yaml")
    return [
        replace(e, id=f"{dataset.parent.name}/{dataset.name}/{e.id}", task=str(e.pair).partition("/")[0])
        for e in found
    ]


def _policies(episodes: Sequence[Episode], chunk: int, pairs: int) -> tuple[str, ...]:
    """What the next chunk plays; nothing where there is enough."""
    if chunk < MIXED:
        return POLICIES
    if len(match_lengths(main_view(episodes)).pairs) >= pairs:
        return ()
    ended: dict[str, list[bool]] = {policy: [] for policy in POLICIES}
    for episode in episodes:
        ended[str(episode.policy)].append(bool(episode.labels.success))
    successes = sum(map(sum, ended.values()))
    wanted = successes < len(episodes) - successes
    if min(successes, len(episodes) - successes) >= 1.2 * pairs:
        return POLICIES  # there are enough of both, and their lengths do not fit
    usual = (policy for policy, ends in ended.items() if ends and 2 * ends.count(wanted) >= len(ends))
    return tuple(usual) or POLICIES


def main_view(episodes: Sequence[Episode]) -> list[Episode]:
    """The episodes as the main camera saw them."""
    return [episode.with_views([VIEW]) for episode in episodes]


def _dataset(root: Path, plans: Sequence[Plan], filming: Filming, workers: int) -> Path:
    """The chunk's dataset; made under another name first, so that one that is there is complete."""
    if not root.exists():
        part = root.with_name(f".{root.name}.part")
        shutil.rmtree(part, ignore_errors=True)
        part.parent.mkdir(parents=True, exist_ok=True)
        print(f"{root}: {len(plans)} rollouts", file=sys.stderr, flush=True)
        write_dataset(part, plans, filming, workers=workers)
        part.rename(root)
    return root
