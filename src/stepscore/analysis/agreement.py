"""A judge's agreement with labels, and its cost: diagnostics of the judge.

As in StepEval they are kept apart from a policy's numbers: neither says how good the other is.
"""

from __future__ import annotations

import json
from array import array
from collections import defaultdict
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from stepscore.analysis.against_labels import PolicyAgreement
from stepscore.analysis.episode_metrics import EpisodeMetrics, measure_episodes
from stepscore.analysis.estimates import Group, GroupEstimate, episode_groups
from stepscore.analysis.ranking import score_ranking
from stepscore.analysis.subgoals import verdict_rows
from stepscore.analysis.table_rows import EpisodeRow
from stepscore.metrics import OF_COUNTS, Confusion, balanced_accuracy, cohen_kappa, confusion, f1, mcc
from stepscore.metrics.stats import influence_by_kind, rate_estimate, statistic_estimate
from stepscore.runs import Run
from stepscore.types import Estimate, FloatArray


@dataclass(frozen=True)
class Agreement:
    """A judge's answers to one question compared with labels.

    Attributes:
        question: ``"success"``, or a subgoal with its task.
        table: Counts of right and wrong answers; ``unknown`` are labelled episodes without an answer.
        balanced: Mean of the accuracy on true and on false labels.
        fpr: Share of false labels that are answered yes.
        fnr: Share of true labels that are answered no.
        group: The fields that its episodes share, like ``{"task": "open"}``; empty for all.
        baseline_for: The judge that this baseline is reported with; ``None`` for a judge.
    """

    judge: str
    question: str
    table: Confusion
    accuracy: Estimate
    balanced: Estimate
    mcc: Estimate
    precision: Estimate
    recall: Estimate
    f1: Estimate
    fpr: Estimate
    fnr: Estimate
    kappa: Estimate
    group: Group = field(default_factory=dict)
    baseline_for: str | None = None

    def named(self) -> Mapping[str, Estimate]:
        """Return its estimates by their names in tables and JSON."""
        return {
            "accuracy": self.accuracy,
            "balanced accuracy": self.balanced,
            "precision": self.precision,
            "recall": self.recall,
            "F1": self.f1,
            "MCC": self.mcc,
        }

    def errors(self) -> Mapping[str, Estimate]:
        """Return its error rates and kappa by their names in tables and JSON."""
        return {"FPR": self.fpr, "FNR": self.fnr, "kappa": self.kappa}


@dataclass(frozen=True)
class Cost:
    """A judge's cost per episode, and the savings of a cascade.

    Attributes:
        p50_s: Median latency of a call in seconds; NaN without calls.
        cost: Money; NaN if a price is unknown.
        escalated: Share of episodes that a cascade passed to its expensive judge; n is 0 for other judges.
        saved: Tokens saved, as a share of using the expensive judge on every episode; NaN if unknown.
    """

    judge: str
    episodes: int
    calls: float
    images: float
    tokens: float
    p50_s: float
    p95_s: float
    cost: float
    escalated: Estimate
    saved: float


@dataclass(frozen=True)
class JudgeAgreement:
    """Agreement with labels, and cost, of one or more judges.

    Attributes:
        ranking: ROC-AUC of the judge's scores against the success label.
        policies: Whom each judge favours, from :func:`stepscore.analysis.agreement_with_baselines`.
        curves: Its curves against labelled progress and stages, from the same.
    """

    agreements: tuple[Agreement, ...]
    ranking: tuple[GroupEstimate, ...]
    costs: tuple[Cost, ...]
    policies: tuple[PolicyAgreement, ...] = ()
    curves: tuple[GroupEstimate, ...] = ()

    def to_dicts(self) -> list[dict[str, Any]]:
        """Return rows of ``metrics --json``."""
        rows = []
        for a in self.agreements:
            beside = {} if a.baseline_for is None else {"baseline_for": a.baseline_for}
            group = {"judge": a.judge, "question": a.question, **a.group, **beside}
            estimates = {**a.named(), **a.errors()}
            rows += [GroupEstimate(group, f"judge:{name}", e).to_dict() for name, e in estimates.items()]
        further = [row for one in self.policies for row in one.rows()]
        return rows + [row.to_dict() for row in (*self.ranking, *self.curves, *further)]


def judge_agreement(
    runs: Run | Sequence[Run],
    by: Sequence[str] = (),
    *,
    held_out: bool = False,
    measured: Sequence[EpisodeMetrics] | None = None,
) -> JudgeAgreement:
    """Compare each run's judge with the labels of its episodes, and sum up its cost.

    Args:
        by: Groups for success, as in :func:`grouped_estimates`.
        held_out: Leave out success of episodes that the judge's calibration map was fitted on.
        measured: Metrics of each run, if already measured.
    """
    agreements: list[Agreement] = []
    ranking: list[GroupEstimate] = []
    opened = [runs] if isinstance(runs, Run) else list(runs)
    for place, run in enumerate(opened):
        metrics = measure_episodes(run, held_out=held_out) if measured is None else measured[place]
        on_success = success_agreement(run.judge, metrics, by)
        agreements += on_success.agreements
        agreements += [question.agreement(run.judge) for question in subgoal_questions(run)]
        ranking += on_success.ranking
    return JudgeAgreement(tuple(agreements), tuple(ranking), judge_costs(opened))


def judge_costs(runs: Sequence[Run]) -> tuple[Cost, ...]:
    """Return the cost of each run's judge."""
    return tuple(_cost(run) for run in runs)


def success_agreement(judge: str, metrics: EpisodeMetrics, by: Sequence[str] = ()) -> JudgeAgreement:
    """Compare a judge with the success labels: its answers, and the ranking by its scores."""
    agreements: list[Agreement] = []
    ranking: list[GroupEstimate] = []
    for group, chosen in episode_groups(metrics, by):
        part = metrics.select(chosen)
        labels, answers = part.values["success_label"], part.values["success_judge"]
        if np.any(~np.isnan(labels)):
            agreements.append(agreement(judge, "success", answers, labels, part.episodes, group))
        ranking += score_ranking(judge, part, group)
    return JudgeAgreement(tuple(agreements), tuple(ranking), ())


@dataclass(frozen=True)
class SubgoalQuestion:
    """Whether episodes of a task reached a subgoal: 1, 0 or NaN per episode, by judge and by label."""

    question: str
    answers: FloatArray
    labels: FloatArray
    episodes: Sequence[EpisodeRow]

    def agreement(self, judge: str, *, always_yes: bool = False) -> Agreement:
        """Compare the answers with the labels; with ``always_yes``, the constant yes instead."""
        said = np.ones(len(self.answers)) if always_yes else self.answers
        return agreement(judge, self.question, said, self.labels, self.episodes, {})


def subgoal_questions(run: Run, *, only: Collection[str] | None = None) -> list[SubgoalQuestion]:
    """Return a question per task and subgoal that is both judged and labelled."""
    places: dict[tuple[str, str], dict[str, int]] = defaultdict(dict)
    known: dict[tuple[str, str], Mapping[str, array[float]]] = {}
    members: dict[str, EpisodeRow] = {}
    for episode, names, source, row in verdict_rows(run):
        episode_id = episode["episode_id"]
        if only is not None and episode_id not in only:
            continue
        members.setdefault(episode_id, {name: episode[name] for name in ("pair", "task", "instruction")})
        for name, value in zip(names, row, strict=True):
            key = str(episode["task"]), name
            columns = known.setdefault(key, {"judge": array("d"), "label": array("d")})
            place = places[key].setdefault(episode_id, len(places[key]))
            for column in columns.values():
                column.extend([np.nan] * (place + 1 - len(column)))
            columns[source][place] = float(value)
    found = []
    for (task, name), columns in sorted(known.items()):
        answers, labels = (np.array(columns[source], dtype=np.float64) for source in ("judge", "label"))
        if np.any(~np.isnan(labels)) and np.any(~np.isnan(answers)):
            rows = [members[episode_id] for episode_id in places[task, name]]
            found.append(SubgoalQuestion(f"{task}: {name}", answers, labels, rows))
    return found


def agreement(
    judge: str,
    question: str,
    answers: FloatArray,
    labels: FloatArray,
    episodes: Sequence[EpisodeRow],
    group: Group,
) -> Agreement:
    """Compare answers (1, 0 or NaN) with labels; intervals resample scenes within tasks.

    Episodes without a label are left out.
    """
    known = ~np.isnan(labels)
    rows = [row for row, one in zip(episodes, known, strict=True) if one]
    answers, labels = answers[known], labels[known]
    right = np.where(np.isnan(answers), np.nan, answers == labels)

    def rate(outcomes: FloatArray, chosen: np.ndarray[Any, Any]) -> Estimate:
        members = [row for row, one in zip(rows, chosen, strict=True) if one]
        return rate_estimate(outcomes[chosen], **_resampling(members))

    def over_all(func: Callable[..., float]) -> Estimate:
        return statistic_estimate(
            func,
            (answers, labels),
            influence=influence_by_kind(func),
            of_counts=OF_COUNTS[func],
            **_resampling(rows),
        )

    return Agreement(
        judge,
        question,
        confusion(answers, labels),
        rate(right, np.ones(len(rows), dtype=bool)),
        over_all(balanced_accuracy),
        over_all(mcc),
        rate(labels, answers == 1),
        rate(answers, labels == 1),
        over_all(f1),
        rate(answers, labels == 0),
        rate(1 - answers, labels == 1),
        over_all(cohen_kappa),
        group,
    )


def _resampling(rows: Sequence[EpisodeRow]) -> dict[str, Any]:
    return {
        "clusters": [row["pair"] for row in rows],
        "strata": [str(row["task"] or row["instruction"]) for row in rows],
    }


def _cost(run: Run) -> Cost:
    usage = run.usage()
    facts = run.judgements().column("facts").to_pylist()
    n = len(usage) or np.nan
    columns = ("calls", "images", "tokens_in", "tokens_out", "cost")
    calls, images, tokens_in, tokens_out, costs = (
        np.array(usage.column(name).to_pylist(), dtype=np.float64) for name in columns
    )
    tokens = tokens_in + tokens_out
    latencies = usage.column("latencies_s").combine_chunks().flatten().to_numpy(zero_copy_only=False)
    escalated = np.array(
        [json.loads(text).get("escalated", np.nan) if text else np.nan for text in facts], dtype=np.float64
    )
    p50, p95 = np.quantile(latencies, [0.5, 0.95]) if len(latencies) else (np.nan, np.nan)
    return Cost(
        run.judge,
        len(usage),
        float(calls.sum()) / n,
        float(images.sum()) / n,
        float(tokens.sum()) / n,
        float(p50),
        float(p95),
        float(np.mean(costs)) if len(costs) else np.nan,
        rate_estimate(escalated),
        _saved(tokens, escalated),
    )


def _saved(tokens: FloatArray, escalated: FloatArray) -> float:
    """Return the tokens saved, as a share of passing every episode on."""
    if not np.any(escalated == 1) or not np.any(escalated == 0):
        return float("nan")
    everything = float(np.mean(tokens[escalated == 1])) * len(tokens)
    return 1.0 - float(tokens.sum()) / everything if everything > 0 else float("nan")
