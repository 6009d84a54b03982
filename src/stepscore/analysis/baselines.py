"""The baselines over the episodes of another judge, at the times it sampled: computed in memory, no video read."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from stepscore.analysis.against_labels import curve_agreement, judged_stages, policies_by_protocol
from stepscore.analysis.agreement import (
    Agreement,
    JudgeAgreement,
    judge_costs,
    subgoal_agreement,
    success_agreement,
)
from stepscore.analysis.episode_metrics import (
    EpisodeCurve,
    EpisodeMetrics,
    EpisodeRow,
    measure_episodes,
    measure_rows,
)
from stepscore.analysis.estimates import GroupEstimate, episode_groups
from stepscore.analysis.ranking import finer_ranking
from stepscore.analysis.table_rows import Watch, unwatched
from stepscore.episodes import Episode
from stepscore.errors import UnknownNameError
from stepscore.judges import BASELINES
from stepscore.runs import Run, finite_or_none
from stepscore.types import FloatArray

POINTS_WITHOUT_CURVE = 32
"""Points at which an episode is scored where the other judge has no curve of it."""


@dataclass(frozen=True)
class BaselineResult:
    """One baseline over the episodes of another judge.

    Attributes:
        judge: The baseline's name.
        metrics: The metrics of its curves, episodes sorted by source and id.
        agreement: Its agreement with the success labels; it costs nothing, so no cost is given.
    """

    judge: str
    metrics: EpisodeMetrics
    agreement: JudgeAgreement


BESIDE = ("linear-time", "constant")
"""The baselines that stand beside every judge: the clock, and one answer for all."""


def agreement_with_baselines(
    runs: Sequence[Run],
    by: Sequence[str] = (),
    *,
    held_out: bool = False,
    only: Collection[str] | None = None,
    watch: Watch[Any] = unwatched,
) -> JudgeAgreement:
    """Compare each run's judge with labels, and beside it the clock and the constant on the same episodes.

    To a subgoal the constant answers yes, and so does the clock, for which everything is done at the end. With it
    come the judge's curves against labels, and the policies it favours.

    Args:
        runs: The runs.
        by: What makes a group for the question of success; see :func:`judge_agreement`.
        held_out: Compare no success of an episode that the judge's calibration map was fitted on.
        only: Ids of the episodes to compare; all if not given.
        watch: Shows how far it is.
    """
    agreements: list[Agreement] = []
    ranking: list[GroupEstimate] = []
    curves: list[GroupEstimate] = []
    measured_runs: list[EpisodeMetrics] = []
    for run in runs:
        metrics = _chosen(measure_episodes(run, held_out=held_out, watch=watch), only)
        measured_runs.append(metrics)
        found = [(run.judge, metrics, success_agreement(run.judge, metrics, by))]
        found += [
            (result.judge, result.metrics, result.agreement)
            for result in measure_baselines(metrics, BESIDE, by)
            if result.judge != run.judge
        ]
        for judge, measured, part in watch(found, "Against labels", len(found)):
            beside = None if judge == run.judge else run.judge
            agreements += [replace(a, baseline_for=beside) for a in part.agreements]
            finer = [
                row
                for group, chosen in episode_groups(measured, by)
                for row in finer_ranking(judge, measured.select(chosen), group)
            ]
            marked = {} if beside is None else {"baseline_for": beside}
            ranking += [replace(row, group={**row.group, **marked}) for row in (*part.ranking, *finer)]
            stages = judged_stages(run) if beside is None else {}
            on_curves = curve_agreement(judge, measured, by, stages)
            curves += [replace(row, group={**row.group, **marked}) for row in on_curves]
        always_yes = subgoal_agreement(run, always_yes=True, only=only)
        for a, yes in zip(subgoal_agreement(run, only=only), always_yes, strict=True):
            agreements += [a, replace(yes, judge="constant", baseline_for=run.judge)]
    policies = policies_by_protocol(runs, by, held_out=held_out, measured=measured_runs, only=only)
    return JudgeAgreement(_by_group(agreements), tuple(ranking), judge_costs(runs), policies, tuple(curves))


def _chosen(metrics: EpisodeMetrics, only: Collection[str] | None) -> EpisodeMetrics:
    if only is None:
        return metrics
    return metrics.select(np.array([row["episode_id"] in only for row in metrics.episodes], dtype=bool))


def _by_group(agreements: Sequence[Agreement]) -> tuple[Agreement, ...]:
    """Return the agreements with those of one question and group together: the judge, then its baselines."""
    keys = [(a.baseline_for or a.judge, a.question, tuple(a.group.values())) for a in agreements]
    order = {key: place for place, key in reversed(list(enumerate(keys)))}
    places = sorted(range(len(keys)), key=lambda i: (order[keys[i]], i))
    return tuple(agreements[i] for i in places)


def measure_baselines(
    metrics: EpisodeMetrics, names: Sequence[str], by: Sequence[str] = ()
) -> list[BaselineResult]:
    """Score the episodes of another judge with baselines, and measure these as that judge is measured.

    Each episode is scored at the times at which the other judge sampled it, or at 32 times over its duration
    where it has no curve; one without either is left out. Stages and the success label are those it has there.

    Args:
        metrics: Of the other judge.
        names: Baselines: ``linear-time``, ``constant``, ``random-monotone``.
        by: What makes a group of their agreement with success labels.
    """
    for name in names:
        if name not in BASELINES:
            raise UnknownNameError("baseline", name, BASELINES)
    sampled = _sampled_episodes(metrics)
    results = []
    for name in names:
        scored = measure_rows(_score(name, sampled), revision=metrics.revision)
        results.append(BaselineResult(name, scored, success_agreement(name, scored, by)))
    return results


def _sampled_episodes(metrics: EpisodeMetrics) -> list[tuple[EpisodeRow, FloatArray]]:
    """Return each episode once, with the times to score, by source and id: what resampling draws from is sorted."""
    sampled: dict[str, tuple[EpisodeRow, FloatArray]] = {}
    for row, (times, _) in zip(metrics.episodes, metrics.curves, strict=True):
        if not len(times) and row["duration_s"]:
            times = np.linspace(0.0, row["duration_s"], POINTS_WITHOUT_CURVE)
        if len(times):
            # Episodes of several sources may share an id.
            name = f"{row['source']}:{row['episode_id']}"
            sampled.setdefault(name, ({**row, "episode_id": name}, times))
    return [sampled[name] for name in sorted(sampled)]


def _score(
    name: str, sampled: Sequence[tuple[EpisodeRow, FloatArray]]
) -> Iterator[tuple[EpisodeRow, EpisodeCurve]]:
    for row, times in sampled:
        judgement = BASELINES[name].judge_at(Episode(row["episode_id"], row["instruction"] or ""), times)
        assert judgement.curve is not None
        score = finite_or_none(judgement.success_score)
        by_baseline = {"judge": name, "model": None, "protocol": None, "success_score": score, "error": None}
        by_baseline |= {
            "success_probability": None,
            "success_calibrated": False,
            "success_map": None,
            "facts": None,
        }
        yield {**row, **by_baseline}, (times, judgement.curve.progress)
