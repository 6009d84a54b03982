"""What came out: success and subgoals of every arm, over all tasks and task by task, against plain and shuffled.

A trial is a pair with the trial of another arm in the same scene after training with the same seed. Trials of one
task and seed share the trained networks, so they are one cluster; tasks are strata. The demonstrations themselves,
and so the weights, are one draw: the intervals say how sure the comparison is on these, not on others.

The best form is a choice made after looking. It is chosen on the first half of the seeds and reported on the other.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from examples.better_policy.arms import PLAIN, SHUFFLED, Arm, all_arms
from examples.better_policy.setting import Setting
from examples.better_policy.trials import read_trials

from stepscore.metrics.stats.comparison import compare_paired
from stepscore.metrics.stats.intervals import mean_estimate
from stepscore.types import Estimate, FloatArray

ALL = "all"
OUTCOMES = ("success", "subgoals")
CEILING = "truth"
"""The source that no judge can have."""


@dataclass(frozen=True)
class Outcomes:
    """Every trial of every arm.

    Attributes:
        arms: The arms.
        values: ``success`` and ``subgoals``, (arms, trials) each; columns are pairs.
        task: Task of each trial.
        seed: Training seed of each trial.
    """

    arms: tuple[Arm, ...]
    values: Mapping[str, FloatArray]
    task: np.ndarray[Any, np.dtype[np.str_]]
    seed: np.ndarray[Any, np.dtype[np.int64]]

    def row(self, arm: Arm) -> int:
        """The arm's row."""
        return self.arms.index(arm)

    def only(self, chosen: np.ndarray[Any, np.dtype[np.bool_]]) -> Outcomes:
        """The chosen trials alone."""
        values = {name: value[:, chosen] for name, value in self.values.items()}
        return Outcomes(self.arms, values, self.task[chosen], self.seed[chosen])

    def clusters(self) -> list[str]:
        """Task and seed of each trial."""
        return [f"{task}/{seed}" for task, seed in zip(self.task, self.seed, strict=True)]

    def estimate(self, outcome: str, arm: Arm) -> Estimate:
        """An arm's mean outcome."""
        own = self.values[outcome][self.row(arm)]
        return mean_estimate(own, clusters=self.clusters(), strata=self.task)

    def difference(self, outcome: str, arm: Arm, other: Arm) -> Estimate:
        """How much better an arm did than another in the same scenes."""
        own, others = (self.values[outcome][self.row(one)] for one in (arm, other))
        return compare_paired(own, others, clusters=self.clusters(), strata=self.task).difference


@dataclass(frozen=True)
class Row:
    """One arm in one group of trials.

    Attributes:
        group: ``all``, or a task.
        arm: The arm.
        estimates: Mean of each outcome.
        to_plain: Difference of each outcome to plain behaviour cloning; empty for that itself.
        to_shuffled: Difference to the shuffled weights of the same source; empty where there are none.
    """

    group: str
    arm: Arm
    estimates: Mapping[str, Estimate]
    to_plain: Mapping[str, Estimate] = field(default_factory=dict)
    to_shuffled: Mapping[str, Estimate] = field(default_factory=dict)


@dataclass(frozen=True)
class Best:
    """The form that did best on one half of the seeds, and how it did on the other.

    Attributes:
        among: The sources it was chosen among.
        arm: The chosen one.
        chosen_on: Seeds it was chosen on.
        rows: The arm over all tasks and for each, on the other seeds.
    """

    among: tuple[str, ...]
    arm: Arm
    chosen_on: tuple[int, ...]
    rows: tuple[Row, ...]


def read_outcomes(work: Path, setting: Setting) -> Outcomes:
    """All trials of an experiment."""
    arms = all_arms(setting.sources)
    read = [
        (task, seed, read_trials(work / task, seed))
        for task in setting.tasks
        for seed in range(setting.seeds)
    ]
    return Outcomes(
        arms,
        {name: np.concatenate([getattr(t, name) for _, _, t in read], axis=1) for name in OUTCOMES},
        np.concatenate([np.full(len(t.scenes), task) for task, _, t in read]),
        np.concatenate([np.full(len(t.scenes), seed) for _, seed, t in read]),
    )


def compare_arms(outcomes: Outcomes, arms: Sequence[Arm] | None = None) -> list[Row]:
    """Every arm, over all tasks and for each task."""
    rows = []
    for group in (ALL, *dict.fromkeys(outcomes.task.tolist())):
        own = outcomes if group == ALL else outcomes.only(outcomes.task == group)
        rows += [_row(group, arm, own) for arm in arms or outcomes.arms]
    return rows


def _row(group: str, arm: Arm, outcomes: Outcomes) -> Row:
    plain, shuffled = Arm("", PLAIN), Arm(arm.source, SHUFFLED)
    return Row(
        group,
        arm,
        {name: outcomes.estimate(name, arm) for name in OUTCOMES},
        {} if arm == plain else {name: outcomes.difference(name, arm, plain) for name in OUTCOMES},
        {name: outcomes.difference(name, arm, shuffled) for name in OUTCOMES}
        if shuffled in outcomes.arms and arm != shuffled
        else {},
    )


def best_forms(outcomes: Outcomes) -> list[Best]:
    """The best form over all judges and of every source, chosen on the first half of the seeds."""
    sources = tuple(dict.fromkeys(arm.source for arm in outcomes.arms if arm.source))
    judges = tuple(source for source in sources if source != CEILING)
    seeds = np.unique(outcomes.seed)
    first = tuple(seeds[: len(seeds) // 2].tolist())
    choosing, reporting = np.isin(outcomes.seed, first), ~np.isin(outcomes.seed, first)
    found = []
    for among in dict.fromkeys(group for group in (judges, *((s,) for s in sources)) if group):
        arms = [arm for arm in outcomes.arms if arm.source in among and arm.form != SHUFFLED]
        scores = [outcomes.values["success"][outcomes.row(arm)][choosing].mean() for arm in arms]
        best = arms[int(np.argmax(scores))]
        rows = compare_arms(outcomes.only(reporting), [best])
        found.append(Best(among, best, first, tuple(rows)))
    return found
