"""The episodes that the diagnosis is tested on, each with what happened and what the diagnosis says."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq

from benchmarks.diagnosis.truth import Episode, RecordingEnv, play_episode, truth
from stepscore.analysis import failure_modes_by_policy, measure_episodes
from stepscore.metrics import SubgoalEvidence, done_time, failure_mode
from stepscore.runs import open_run
from stepscore.sim import RolloutPlan, all_tasks, get_task

TUNED_ON = frozenset(list(all_tasks())[:50:2])
"""Tasks on which the rules were chosen: every other of Meta-World's by name. The rest, chains too, only test them."""
ENOUGH = 4


@dataclass(frozen=True)
class Named:
    """An episode with two names.

    Attributes:
        task: Its task.
        policy: Its policy.
        success: Whether it succeeded.
        truth: What happened, by the simulator's state.
        found: What the diagnosis says; empty for a success without a name.
    """

    task: str
    policy: str
    success: bool
    truth: str
    found: str

    @property
    def right(self) -> bool:
        """Return whether both are the same."""
        return self.truth == self.found


def replay(plans: Iterable[RolloutPlan]) -> Iterator[Episode]:
    """Play the plans without rendering, those of a task one after the other."""
    by_task: dict[str, list[RolloutPlan]] = defaultdict(list)
    for plan in plans:
        by_task[plan.task].append(plan)
    for task, members in by_task.items():
        env = RecordingEnv(get_task(task))
        for plan in members:
            yield play_episode(env, plan)
        env.close()


def from_labels(episodes: Sequence[Episode]) -> list[Named]:
    """Diagnose the episodes by their labelled curves, subgoals and stages."""
    times: dict[str, list[float]] = defaultdict(list)
    for episode in episodes:
        if episode.rollout.success[-1]:
            times[episode.task.name].append(done_time(episode.rollout.potential, _clock(episode)))
    usual = {
        t: float(np.quantile([v for v in each if v > 0], 0.25))
        for t, each in times.items()
        if sum(v > 0 for v in each) >= ENOUGH
    }
    named = []
    for episode in episodes:
        rollout, task = episode.rollout, episode.task.name
        found = failure_mode(
            rollout.potential,
            _clock(episode),
            success=bool(rollout.success[-1]),
            subgoals=_evidence(episode),
            usual_s=usual.get(task, np.nan),
        ).name
        named.append(_named(episode, found))
    return named


def names_by_run(run: Path) -> dict[str, str]:
    """Return the failure mode of each episode of a judge's run, as ``stepscore metrics`` finds it."""
    metrics = measure_episodes(open_run(run))
    return {
        str(row["episode_id"]): mode.name
        for row, mode in zip(metrics.episodes, failure_modes_by_policy(metrics).by_episode, strict=True)
    }


def from_run(
    episodes: Sequence[Episode], plans: Mapping[str, RolloutPlan], found: Mapping[str, str]
) -> list[Named]:
    """Diagnose episodes of a dataset by a judge's run of it.

    Args:
        episodes: The dataset's episodes, played again.
        plans: The plan of each episode of the dataset, by id.
        found: The failure mode of each, by id.
    """
    ids = {plan: name for name, plan in plans.items()}
    return [_named(e, found[ids[e.rollout.plan]]) for e in episodes if ids[e.rollout.plan] in found]


def dataset_plans(dataset: Path) -> Mapping[str, RolloutPlan]:
    """Return the plan of each episode of a dataset of ``stepscore sim``, by episode id."""
    columns = ["episode_index", "sim_task", "policy", "scene", "seed"]
    rows: list[dict[str, Any]] = []
    for path in sorted((dataset / "meta" / "episodes").glob("*/*.parquet")):
        rows += pq.read_table(path, columns=columns).to_pylist()
    return {
        f"episode_{r['episode_index']:06d}": RolloutPlan(r["sim_task"], r["policy"], r["scene"], r["seed"])
        for r in rows
    }


def _clock(episode: Episode) -> np.ndarray[Any, np.dtype[np.float64]]:
    return np.arange(len(episode.rollout.potential)) / episode.rollout.fps


def _evidence(episode: Episode) -> SubgoalEvidence:
    rollout, count = episode.rollout, len(episode.task.milestones)
    # Milestones of mode `ever` count once they were true; the last one, success, must hold at the end.
    ever = [*np.any(rollout.truths, axis=0).tolist()[:-1], rollout.success[-1]]
    working = np.minimum(rollout.stages, count - 1)
    reached = max((n for n, true in enumerate(ever, 1) if true), default=0)
    return SubgoalEvidence(count, max(reached, int(working.max())), int(working[-1]))


def _named(episode: Episode, found: str) -> Named:
    plan, success = episode.rollout.plan, bool(episode.rollout.success[-1])
    return Named(plan.task, plan.policy, success, truth(episode), "" if found == "none" else found)
