"""Plan a tuning: what it will judge and what that costs, before anything is asked."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated

from stepscore._options import MANY, MAX_SEED, Range
from stepscore.audit.tune.grid import Grid, MakeJudge, make_grid
from stepscore.audit.tune.metric import METRICS, Kind, choose_kind, is_labelled
from stepscore.audit.tune.rewrite import MAX_REWRITES, check_rewritable
from stepscore.audit.tune.scene_split import Split, split_scenes
from stepscore.episodes import Episode
from stepscore.errors import CapabilityError, EpisodeError, OptionError, StepScoreError
from stepscore.judges import JudgeTraits, check_subgoals
from stepscore.runs import CallOptions, Engine, dry_run

BOTH_CLASSES = ("subgoal-balanced-accuracy", "success-balanced-accuracy", "success-auc")
"""Metrics that need both kinds of labels."""


@dataclass(frozen=True)
class TuneOptions:
    """Options of a tuning; ``workers`` and ``engine`` are those of :func:`stepscore.score`.

    Attributes:
        metric: Such as ``subgoal-f1`` or ``progress-mae``. Default: one that fits labels and judge.
        potential: Name of the true progress labels, if there are several.
        share: Share of the scenes to choose on.
        views: Cameras of trials that name none; ``None`` for all.
        max_trials: Most trials, including the default.
        rewrite: Number of rewordings of the best template to request from the model.
        seed: Random seed.
        call_options: Its budget covers the whole tuning.
    """

    metric: str | None = None
    potential: str | None = None
    share: Annotated[float, Range(0, 1)] = 0.5
    seed: Annotated[int, Range(0, MAX_SEED)] = 0
    views: Sequence[str] | None = None
    max_trials: Annotated[int | None, Range(1, MANY)] = None
    rewrite: Annotated[int, Range(0, 50)] = 0
    workers: int | None = None
    engine: str | Engine = "auto"
    call_options: CallOptions | None = None


@dataclass(frozen=True)
class TunePlan:
    """What a tuning will judge: the deciding kind of label, the labelled episodes, and the trials."""

    kind: Kind
    split: Split
    grid: Grid


@dataclass(frozen=True)
class PlannedCalls:
    """Approximate calls of all trials on the choosing split, without rewordings and the test split.

    Attributes:
        cached: Calls answered from the cache.
        tokens: Input tokens.
        cost: Of uncached calls; ``None`` if a price is unknown.
        per_episode: Calls and cost of one episode by the most expensive trial, for the test split.
    """

    calls: int
    cached: int
    tokens: int
    cost: float | None
    per_episode: tuple[float, float]


def plan_tuning(
    episodes: Sequence[Episode],
    make: MakeJudge,
    over: Mapping[str, Sequence[object]],
    options: TuneOptions,
) -> TunePlan:
    """Plan a tuning; reject what cannot be tuned before anything is asked.

    Args:
        episodes: Those without a label of the deciding kind are left out.
        over: Values of each option; ``views`` are lists of cameras.
    """
    if not over and not options.rewrite:
        raise OptionError("There is nothing to tune. Pass values to try, e.g. frames=8,16, or -T rewrite=N.")
    if not 0 <= options.rewrite <= MAX_REWRITES:
        raise OptionError(f"rewrite (-T rewrite) must be from 0 to {MAX_REWRITES}, got {options.rewrite}.")
    grid = make_grid(make, over, views=options.views, max_trials=options.max_trials, seed=options.seed)
    judge = grid.trials[0].judge
    if options.rewrite:
        check_rewritable(judge)
    check_subgoals(judge, episodes)
    judges_subgoals = JudgeTraits.of(judge).needs_subgoals
    kind = choose_kind(episodes, options.metric, subgoals=judges_subgoals)
    labelled = [episode for episode in episodes if episode.error is None and is_labelled(episode, kind)]
    split = split_scenes(labelled, options.share, options.seed)
    _check_labels(kind, options.metric, split)
    _check_views(grid, split)
    return TunePlan(kind, split, grid)


def planned_calls(plan: TunePlan, call_options: CallOptions) -> PlannedCalls:
    """Count the calls of a plan; a trial that its model cannot answer makes none."""
    calls = cached = tokens = 0
    costs: list[float | None] = []
    most_calls = most_cost = 0.0
    n = len(plan.split.choose)
    for trial in plan.grid.trials:
        try:
            counted = dry_run(plan.split.choose, trial.judge, call_options, views=trial.views)
        except CapabilityError:
            continue
        calls, cached = calls + counted.calls, cached + counted.cached
        tokens += counted.tokens_in
        costs.append(counted.cost)
        most_calls = max(most_calls, counted.calls / n)
        most_cost = max(most_cost, (counted.cost or 0.0) / n)
    known = [cost for cost in costs if cost is not None]
    total = math.fsum(known) if len(known) == len(costs) else None
    return PlannedCalls(calls, cached, tokens, total, (most_calls, most_cost))


def _check_labels(kind: Kind, metric: str | None, split: Split) -> None:
    """Raise OptionError if all labels of a split are alike, so that nothing can be measured on it."""
    if kind == "progress" or (metric is not None and metric not in BOTH_CLASSES):
        return
    for name, episodes in (("choosing", split.choose), ("test", split.test)):
        found = {
            value
            for episode in episodes
            for value in (
                [episode.labels.success]
                if kind == "success"
                else [episode.labels.subgoal(goal.name) for goal in episode.subgoals]
            )
            if value is not None
        }
        if len(found) < 2:
            stated = "true" if True in found else "false"
            raise OptionError(
                f"All {kind} labels of the {name} split ({len(episodes)} episodes) are {stated}; "
                f"{'balanced accuracy' if metric is None else METRICS[metric].name} needs both. "
                "Label more scenes, or try another -T seed."
            )


def _check_views(grid: Grid, split: Split) -> None:
    """Raise the error of cameras that no episode has."""
    for views in dict.fromkeys(trial.views for trial in grid.trials if trial.views is not None):
        errors: list[StepScoreError] = []
        for episode in (*split.choose, *split.test):
            try:
                episode.with_views(views)
                break
            except StepScoreError as error:
                errors.append(error)
        else:
            raise errors[0] if errors else EpisodeError("No labelled episode can be read.")
