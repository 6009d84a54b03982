"""Results: success and subgoals of every configuration, over all tasks and by task, against plain and shuffled.

A trial is paired with the trial of another configuration in the same scene with the same training seed. Trials of
one task and seed share the trained networks, so they are one cluster; tasks are strata. The demonstrations, and so
the weights, are one sample: the intervals hold for these demonstrations, not for others.

The best form is chosen from results: on the first half of the seeds, and reported on the other.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from examples.better_policy.configurations import PLAIN, SHUFFLED, Configuration, all_configurations
from examples.better_policy.setting import Setting
from examples.better_policy.trials import read_trials
from stepscore.metrics.stats import compare_paired, mean_estimate
from stepscore.types import Estimate, FloatArray

ALL = "all"
OUTCOMES = ("success", "subgoals")
CEILING = "truth"
"""The source that no judge can have: an upper bound."""


@dataclass(frozen=True)
class Outcomes:
    """Every trial of every configuration.

    Attributes:
        configs: The configurations.
        values: ``success`` and ``subgoals``, (configs, trials) each; columns are pairs.
        task: Task of each trial.
        seed: Training seed of each trial.
    """

    configs: tuple[Configuration, ...]
    values: Mapping[str, FloatArray]
    task: np.ndarray[Any, np.dtype[np.str_]]
    seed: np.ndarray[Any, np.dtype[np.int64]]

    def row(self, config: Configuration) -> int:
        """Return the configuration's row."""
        return self.configs.index(config)

    def only(self, chosen: np.ndarray[Any, np.dtype[np.bool_]]) -> Outcomes:
        """Return the chosen trials alone."""
        values = {name: value[:, chosen] for name, value in self.values.items()}
        return Outcomes(self.configs, values, self.task[chosen], self.seed[chosen])

    def clusters(self) -> list[str]:
        """Return task and seed of each trial."""
        return [f"{task}/{seed}" for task, seed in zip(self.task, self.seed, strict=True)]

    def estimate(self, outcome: str, config: Configuration) -> Estimate:
        """Return a configuration's mean outcome."""
        own = self.values[outcome][self.row(config)]
        return mean_estimate(own, clusters=self.clusters(), strata=self.task)

    def difference(self, outcome: str, config: Configuration, other: Configuration) -> Estimate:
        """Return how much better a configuration did than another in the same scenes."""
        own, others = (self.values[outcome][self.row(one)] for one in (config, other))
        return compare_paired(own, others, clusters=self.clusters(), strata=self.task).difference


@dataclass(frozen=True)
class Row:
    """One configuration in one group of trials.

    Attributes:
        group: ``all``, or a task.
        config: The configuration.
        estimates: Mean of each outcome.
        to_plain: Difference of each outcome to plain behaviour cloning; empty for that itself.
        to_shuffled: Difference to the shuffled weights of the same source; empty where there are none.
    """

    group: str
    config: Configuration
    estimates: Mapping[str, Estimate]
    to_plain: Mapping[str, Estimate] = field(default_factory=dict)
    to_shuffled: Mapping[str, Estimate] = field(default_factory=dict)


@dataclass(frozen=True)
class Best:
    """The form that did best on one half of the seeds, and how it did on the other.

    Attributes:
        among: The sources it was chosen among.
        config: The chosen one.
        chosen_on: Seeds it was chosen on.
        rows: The configuration over all tasks and for each, on the other seeds.
    """

    among: tuple[str, ...]
    config: Configuration
    chosen_on: tuple[int, ...]
    rows: tuple[Row, ...]


def read_outcomes(work: Path, setting: Setting) -> Outcomes:
    """Read all trials of an experiment."""
    configs = all_configurations(setting.sources)
    read = [
        (task, seed, read_trials(work / task, seed))
        for task in setting.tasks
        for seed in range(setting.seeds)
    ]
    return Outcomes(
        configs,
        {name: np.concatenate([getattr(t, name) for _, _, t in read], axis=1) for name in OUTCOMES},
        np.concatenate([np.full(len(t.scenes), task) for task, _, t in read]),
        np.concatenate([np.full(len(t.scenes), seed) for _, seed, t in read]),
    )


def compare_configurations(outcomes: Outcomes, configs: Sequence[Configuration] | None = None) -> list[Row]:
    """Return a row for every configuration, over all tasks and for each task."""
    rows = []
    for group in (ALL, *dict.fromkeys(outcomes.task.tolist())):
        own = outcomes if group == ALL else outcomes.only(outcomes.task == group)
        rows += [_row(group, config, own) for config in configs or outcomes.configs]
    return rows


def _row(group: str, config: Configuration, outcomes: Outcomes) -> Row:
    plain, shuffled = Configuration("", PLAIN), Configuration(config.source, SHUFFLED)
    return Row(
        group,
        config,
        {name: outcomes.estimate(name, config) for name in OUTCOMES},
        {} if config == plain else {name: outcomes.difference(name, config, plain) for name in OUTCOMES},
        {name: outcomes.difference(name, config, shuffled) for name in OUTCOMES}
        if shuffled in outcomes.configs and config != shuffled
        else {},
    )


def best_forms(outcomes: Outcomes) -> list[Best]:
    """Return the best form over all judges and of every source, chosen on the first half of the seeds."""
    sources = tuple(dict.fromkeys(config.source for config in outcomes.configs if config.source))
    judges = tuple(source for source in sources if source != CEILING)
    seeds = np.unique(outcomes.seed)
    first = tuple(seeds[: len(seeds) // 2].tolist())
    choosing, reporting = np.isin(outcomes.seed, first), ~np.isin(outcomes.seed, first)
    found = []
    for among in dict.fromkeys(group for group in (judges, *((s,) for s in sources)) if group):
        configs = [
            config for config in outcomes.configs if config.source in among and config.form != SHUFFLED
        ]
        scores = [outcomes.values["success"][outcomes.row(config)][choosing].mean() for config in configs]
        best = configs[int(np.argmax(scores))]
        rows = compare_configurations(outcomes.only(reporting), [best])
        found.append(Best(among, best, first, tuple(rows)))
    return found
