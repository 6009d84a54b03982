"""Baselines over the episodes of another judge, at the times it sampled: computed in memory, without video."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from stepscore._progress import track
from stepscore.analysis.against_labels import curve_agreement, judged_stages, policies_by_protocol
from stepscore.analysis.agreement import (
    Agreement,
    JudgeAgreement,
    judge_costs,
    subgoal_questions,
    success_agreement,
)
from stepscore.analysis.episode_metrics import EpisodeMetrics, measure_episodes, measure_rows
from stepscore.analysis.estimates import GroupEstimate, episode_groups
from stepscore.analysis.ranking import finer_ranking
from stepscore.analysis.table_rows import EpisodeCurve, EpisodeRow
from stepscore.episodes import Episode
from stepscore.errors import UnknownNameError
from stepscore.judges import BASELINES
from stepscore.runs import Run, finite_or_none
from stepscore.types import FloatArray

POINTS_WITHOUT_CURVE = 32
"""Points at which an episode is scored if the other judge has no curve for it."""


@dataclass(frozen=True)
class BaselineResult:
    """One baseline over the episodes of another judge, sorted by source and id; it has no cost."""

    judge: str
    metrics: EpisodeMetrics
    agreement: JudgeAgreement


BESIDE = ("linear-time", "constant")
"""The baselines reported with every judge: the clock, and one answer for all."""


def agreement_with_baselines(
    runs: Sequence[Run],
    by: Sequence[str] = (),
    *,
    held_out: bool = False,
    only: Collection[str] | None = None,
    measured: EpisodeMetrics | None = None,
) -> JudgeAgreement:
    """Compare each run's judge, the clock and the constant with the labels of the same episodes.

    For subgoals, both baselines answer yes: a clock takes everything for done at the end. The result includes
    the judge's curves against labels and the policies it favours.

    Args:
        by: Groups for success; see :func:`judge_agreement`.
        held_out: Leave out success of episodes that the judge's calibration map was fitted on.
        only: Ids of the episodes to compare; all by default.
        measured: Default metrics of the run, if there is one run and it is already measured.
    """
    agreements: list[Agreement] = []
    ranking: list[GroupEstimate] = []
    curves: list[GroupEstimate] = []
    measured_runs: list[EpisodeMetrics] = []
    for run in runs:
        metrics = measured
        if metrics is None:
            metrics = measure_episodes(run, held_out=held_out, only=only)
        measured_runs.append(metrics)
        names = [run.judge, *(name for name in BESIDE if name != run.judge)]
        for judge in track(names, "Against labels", len(names)):
            beside = None if judge == run.judge else run.judge
            # One baseline at a time: each is as large as the judge's own.
            own = metrics if beside is None else _measure_baseline(metrics, judge)
            part = success_agreement(judge, own, by)
            agreements += [replace(a, baseline_for=beside) for a in part.agreements]
            finer = [
                row
                for group, chosen in episode_groups(own, by)
                for row in finer_ranking(judge, own.select(chosen), group)
            ]
            marked = {} if beside is None else {"baseline_for": beside}
            ranking += [replace(row, group={**row.group, **marked}) for row in (*part.ranking, *finer)]
            stages = judged_stages(run) if beside is None else {}
            on_curves = curve_agreement(judge, own, by, stages)
            curves += [replace(row, group={**row.group, **marked}) for row in on_curves]
            del own, part
        questions = subgoal_questions(run, only=only)
        for question in track(questions, "Subgoals against labels", len(questions)):
            always_yes = replace(question.agreement("constant", always_yes=True), baseline_for=run.judge)
            agreements += [question.agreement(run.judge), always_yes]
    policies = policies_by_protocol(runs, by, held_out=held_out, measured=measured_runs, only=only)
    return JudgeAgreement(_by_group(agreements), tuple(ranking), judge_costs(runs), policies, tuple(curves))


def _by_group(agreements: Sequence[Agreement]) -> tuple[Agreement, ...]:
    """Order the agreements so that each judge is followed by its baselines on the same question and group."""
    keys = [(a.baseline_for or a.judge, a.question, tuple(a.group.values())) for a in agreements]
    order = {key: place for place, key in reversed(list(enumerate(keys)))}
    places = sorted(range(len(keys)), key=lambda i: (order[keys[i]], i))
    return tuple(agreements[i] for i in places)


def measure_baselines(
    metrics: EpisodeMetrics, names: Sequence[str], by: Sequence[str] = ()
) -> list[BaselineResult]:
    """Score the episodes of another judge with baselines, and measure these like that judge.

    Episodes are scored at the times that the other judge sampled, or at 32 times over their duration without
    a curve; an episode without either is left out.

    Args:
        names: ``linear-time``, ``constant``, ``random-monotone``.
        by: Groups of their agreement with success labels.
    """
    for name in names:
        if name not in BASELINES:
            raise UnknownNameError("baseline", name, BASELINES)
    measured = [_measure_baseline(metrics, name) for name in names]
    return [
        BaselineResult(name, scored, success_agreement(name, scored, by))
        for name, scored in zip(names, measured, strict=True)
    ]


def _measure_baseline(metrics: EpisodeMetrics, name: str) -> EpisodeMetrics:
    sampled = track(_sampled_episodes(metrics), f"Measuring {name}", len(metrics))
    return measure_rows(_score(name, sampled), revision=metrics.revision)


def _sampled_episodes(metrics: EpisodeMetrics) -> list[tuple[str, EpisodeRow, FloatArray]]:
    """Return each episode once, sorted by source and id, with its row and the times to score."""
    sampled: dict[str, tuple[str, EpisodeRow, FloatArray]] = {}
    for row, (times, _) in zip(metrics.episodes, metrics.curves, strict=True):
        if not len(times) and row["duration_s"]:
            times = np.linspace(0.0, row["duration_s"], POINTS_WITHOUT_CURVE)
        if len(times):
            # Episodes of several sources may share an id.
            name = f"{row['source']}:{row['episode_id']}"
            sampled.setdefault(name, (name, row, times))
    return [sampled[name] for name in sorted(sampled)]


def _score(
    name: str, sampled: Iterable[tuple[str, EpisodeRow, FloatArray]]
) -> Iterator[tuple[EpisodeRow, EpisodeCurve]]:
    for episode_id, row, times in sampled:
        judgement = BASELINES[name].judge_at(Episode(episode_id, row["instruction"] or ""), times)
        assert judgement.curve is not None
        score = finite_or_none(judgement.success_score)
        by_baseline = {"judge": name, "model": None, "protocol": None, "success_score": score, "error": None}
        by_baseline |= {
            "success_probability": None,
            "success_calibrated": False,
            "success_map": None,
            "facts": None,
        }
        yield {**row, **by_baseline, "episode_id": episode_id}, (times, judgement.curve.progress)
