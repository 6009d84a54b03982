"""A run into subgoal tables: which subgoals are reached, and which fails first.

Verdicts of the judge and labels are never mixed: every row names its source.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from stepscore._options import SceneChoice
from stepscore._progress import track
from stepscore.analysis.estimates import GROUP_KEYS, Group, GroupEstimate
from stepscore.analysis.pooling import fixed_scenes
from stepscore.analysis.table_rows import table_rows
from stepscore.metrics import conditional_success_indicator, first_failed_subgoal, order_violation_indicator
from stepscore.metrics.stats import estimate_within_scenes, rate_estimate
from stepscore.runs import Run
from stepscore.types import Estimate, FloatArray

VerdictSource = Literal["judge", "label"]
"""Whose verdicts: the judge's, or those of labels."""


@dataclass(frozen=True)
class SubgoalTable:
    """The subgoals of one task in one group, by one source of verdicts.

    Attributes:
        group: The shared fields, including the task.
        reviewed: Whether a person has approved all of them.
        reached: Share of episodes that reached each subgoal.
        given_previous: The same among episodes that reached the previous subgoal.
        fails_first: Share of episodes whose first failure it is.
        violations: Share of episodes that reached a later subgoal without an earlier one.
        fixed_scenes: Number of fixed scenes that the rates are about; 0 if they generalise to similar scenes.
    """

    group: Group
    source: VerdictSource
    names: tuple[str, ...]
    reviewed: bool
    reached: tuple[Estimate, ...]
    given_previous: tuple[Estimate, ...]
    fails_first: tuple[Estimate, ...]
    violations: Estimate
    fixed_scenes: int = 0

    def estimates(self) -> list[GroupEstimate]:
        """Return every Estimate of the table."""
        fixed = self.fixed_scenes
        violations = f"subgoals out of order:{self.source}"
        rows = [GroupEstimate(self.group, violations, self.violations, fixed_scenes=fixed)]
        columns = (
            ("reached", self.reached),
            ("reached given previous", self.given_previous),
            ("fails first", self.fails_first),
        )
        for word, estimates in columns:
            for name, estimate in zip(self.names, estimates, strict=True):
                metric = f"{word}:{name}:{self.source}"
                rows.append(GroupEstimate(self.group, metric, estimate, fixed_scenes=fixed))
        return rows


def subgoal_tables(
    runs: Run | Sequence[Run],
    by: Sequence[str] = ("policy",),
    *,
    left_out: Collection[tuple[str, str]] = (),
    scenes: SceneChoice = "auto",
) -> list[SubgoalTable]:
    """Return one table per task, group and source of verdicts with a known value.

    Args:
        by: Groups besides the task; see :func:`stepscore.measure`.
        left_out: Run folder and id of episodes that do not count, like ``EpisodeMetrics.repeated``.
        scenes: What rates are about; see :func:`stepscore.analysis.measure_episodes`.
    """
    keys = tuple(dict.fromkeys(("task", *by)))
    rows: dict[tuple[Any, ...], list[tuple[Mapping[str, Any], FloatArray]]] = defaultdict(list)
    for run in [runs] if isinstance(runs, Run) else runs:
        for episode, names, source, row in track(verdict_rows(run), "Reading verdicts", None):
            if (str(run.path), episode["episode_id"]) in left_out:
                continue
            group = tuple(episode[key] for key in keys)
            rows[(group, names, source)].append((episode, row))
    tables = []
    found = sorted(rows.items(), key=lambda item: repr(item[0]))
    for (group, names, source), members in track(found, "Estimating subgoals", len(found)):
        if any(np.any(~np.isnan(row)) for _, row in members):
            tables.append(_table(dict(zip(keys, group, strict=True)), source, names, members, scenes))
    return tables


def _table(
    group: Group,
    source: VerdictSource,
    names: tuple[str, ...],
    members: Sequence[tuple[Mapping[str, Any], FloatArray]],
    choice: SceneChoice,
) -> SubgoalTable:
    matrix = np.array([row for _, row in members])
    scenes = [episode["pair"] for episode, _ in members]
    fixed = fixed_scenes(choice, scenes, [(episode["policy"], episode["protocol"]) for episode, _ in members])

    def rate(values: FloatArray) -> Estimate:
        return (
            estimate_within_scenes(values, scenes=scenes) if fixed else rate_estimate(values, clusters=scenes)
        )

    first = first_failed_subgoal(matrix)
    every = range(len(names))
    return SubgoalTable(
        group,
        source,
        names,
        reviewed=all(goal["reviewed"] for episode, _ in members for goal in episode["subgoals"]),
        reached=tuple(rate(matrix[:, k]) for k in every),
        given_previous=tuple(rate(conditional_success_indicator(matrix, k)) for k in every),
        fails_first=tuple(rate(np.where(np.isnan(first), np.nan, first == k)) for k in every),
        violations=rate(order_violation_indicator(matrix)),
        fixed_scenes=fixed,
    )


def verdict_rows(run: Run) -> Iterator[tuple[Mapping[str, Any], tuple[str, ...], VerdictSource, FloatArray]]:
    """Iterate over episodes and sources: episode, subgoal names, source, and 1, 0 or NaN for each subgoal."""
    answers: dict[str, dict[str, str]] = defaultdict(dict)
    for row in table_rows(run.verdicts().select(["episode_id", "subgoal", "answer"])):
        answers[row["episode_id"]][row["subgoal"]] = row["answer"]
    columns = [name for name in GROUP_KEYS if name not in ("judge", "model", "protocol")]
    table = run.episodes().select(["episode_id", "pair", "instruction", "subgoals", *columns])
    for episode in table_rows(table):
        episode |= {"judge": run.judge, "model": run.model, "protocol": run.protocol.hash}
        judged = answers.get(episode["episode_id"], {})
        names = tuple(goal["name"] for goal in episode["subgoals"]) or tuple(judged)
        if names and judged:
            values = {"yes": 1.0, "no": 0.0}
            yield episode, names, "judge", np.array([values.get(judged.get(n, ""), np.nan) for n in names])
        labels = [goal["label"] for goal in episode["subgoals"]]
        if any(label is not None for label in labels):
            yield episode, names, "label", np.array([np.nan if v is None else float(v) for v in labels])
