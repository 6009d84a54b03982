"""How far each policy gets: the share of its episodes that reach each subgoal, over all tasks."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from stepscore._options import SceneChoice
from stepscore.analysis.episode_metrics import EpisodeMetrics
from stepscore.analysis.pooling import fixed_scenes
from stepscore.analysis.subgoals import VerdictSource, verdict_rows
from stepscore.metrics.stats import estimate_within_scenes, rate_estimate
from stepscore.runs import Run
from stepscore.types import Estimate, FloatArray


@dataclass(frozen=True)
class SubgoalRows:
    """The verdicts on subgoals of one policy's episodes.

    Attributes:
        source: Labels if any episode of the run has them, else the judge.
        rows: Per episode: the subgoals' names in order, and 1, 0 or NaN for each.
    """

    source: VerdictSource
    rows: tuple[tuple[tuple[str, ...], FloatArray], ...]
    scenes: tuple[str | None, ...]
    tasks: tuple[str, ...]


@dataclass(frozen=True)
class Funnel:
    """How many of a policy's episodes reach each subgoal, from the first.

    Attributes:
        names: The subgoals, if all episodes have the same; else ``subgoal 1`` and so on.
        tasks: Number of tasks.
        left_out: Episodes of tasks with another number of subgoals.
    """

    policy: str | None
    source: VerdictSource
    names: tuple[str, ...]
    reached: tuple[Estimate, ...]
    tasks: int
    left_out: int


def subgoal_rows(runs: Run | Sequence[Run], metrics: EpisodeMetrics) -> dict[str | None, SubgoalRows]:
    """Return the subgoal verdicts of each policy, by label if the runs have such labels, else by judge."""
    wanted = {(row["run"], row["episode_id"]) for row in metrics.episodes}
    found: dict[VerdictSource, dict[str | None, list[Any]]] = {
        "label": defaultdict(list),
        "judge": defaultdict(list),
    }
    for run in [runs] if isinstance(runs, Run) else runs:
        for episode, goals, source, values in verdict_rows(run):
            if (str(run.path), episode["episode_id"]) in wanted and np.any(~np.isnan(values)):
                task = str(episode["task"] or episode["instruction"])
                found[source][episode["policy"]].append(((goals, values), episode["pair"], task))
    used: VerdictSource = "label" if found["label"] else "judge"
    return {
        policy: SubgoalRows(
            used,
            tuple(row for row, _, _ in members),
            tuple(scene for _, scene, _ in members),
            tuple(task for _, _, task in members),
        )
        for policy, members in found[used].items()
    }


def subgoal_funnels(runs: Run | Sequence[Run], metrics: EpisodeMetrics) -> tuple[Funnel, ...]:
    """Return one funnel per policy with verdicts or labels of subgoals.

    Tasks are pooled by place: the first subgoal of each is the first. If they differ in number, tasks with
    the most common number are pooled, the same for every policy.
    """
    by_policy = subgoal_rows(runs, metrics)
    lengths = Counter(len(goals) for rows in by_policy.values() for goals, _ in rows.rows)
    if not lengths:
        return ()
    # Of numbers that are as common, the larger: it shows more.
    length = max(lengths, key=lambda k: (lengths[k], k))
    order = sorted(by_policy, key=lambda policy: (policy is None, policy or ""))
    funnels = [_funnel(policy, by_policy[policy], length, metrics.scenes) for policy in order]
    return tuple(funnel for funnel in funnels if funnel is not None)


def _funnel(policy: str | None, rows: SubgoalRows, length: int, choice: SceneChoice) -> Funnel | None:
    inside = [i for i, (goals, _) in enumerate(rows.rows) if len(goals) == length]
    if not inside:
        return None
    matrix = np.array([rows.rows[i][1] for i in inside])
    scenes, tasks = [rows.scenes[i] for i in inside], [rows.tasks[i] for i in inside]
    within = [None if scene is None else (task, scene) for task, scene in zip(tasks, scenes, strict=True)]
    fixed = fixed_scenes(choice, within)

    def rate(values: FloatArray) -> Estimate:
        if fixed:
            return estimate_within_scenes(values, scenes=within)
        return rate_estimate(values, clusters=scenes, strata=tasks)

    names = {rows.rows[i][0] for i in inside}
    return Funnel(
        policy,
        rows.source,
        names.pop() if len(names) == 1 else tuple(f"subgoal {k + 1}" for k in range(length)),
        tuple(rate(matrix[:, k]) for k in range(length)),
        len(set(tasks)),
        len(rows.rows) - len(inside),
    )
