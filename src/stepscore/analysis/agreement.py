"""A judge's agreement with labels, and its cost: diagnostics of the judge, apart from those of a policy.

StepEval keeps the two apart: a policy's numbers never show how good the judge is, and these never show how
good a policy is.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from stepscore.analysis.episode_metrics import EpisodeMetrics, measure_episodes
from stepscore.analysis.estimates import GroupEstimate
from stepscore.analysis.subgoals import verdict_rows
from stepscore.metrics import Confusion, balanced_accuracy, confusion, mcc, roc_auc
from stepscore.metrics.stats import rate_estimate, statistic_estimate
from stepscore.runs import Run
from stepscore.types import Estimate, FloatArray


@dataclass(frozen=True)
class Agreement:
    """A judge's answers to one question compared with labels.

    Attributes:
        judge: The judge's name.
        question: ``"success"``, or a subgoal with its task.
        table: Counts of right and wrong answers; ``unknown`` are labelled episodes without an answer.
        accuracy: Share of right answers.
        balanced: Mean of the shares among true and among false labels.
        mcc: Matthews correlation coefficient, -1..1.
    """

    judge: str
    question: str
    table: Confusion
    accuracy: Estimate
    balanced: Estimate
    mcc: Estimate


@dataclass(frozen=True)
class Cost:
    """A judge's cost per episode, and what a cascade saved.

    Attributes:
        judge: The judge's name.
        episodes: Number of episodes judged.
        calls: Calls per episode.
        images: Images per episode.
        tokens: Tokens read and written per episode.
        p50_s: Median latency of a call, in seconds; NaN without calls.
        p95_s: 95th percentile of the latency, in seconds.
        cost: Money per episode; NaN where the price is not known.
        escalated: Share of episodes that a cascade passed to its expensive judge; n is 0 for other judges.
        saved: Tokens saved, as a share of what the expensive judge would have used on every episode; NaN where
            not known.
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
    """Agreement with labels, and cost, of one judge or several.

    Attributes:
        agreements: One per judge and question.
        ranking: ROC-AUC of the judge's scores against the success label, by judge and kind of score.
        costs: One per run.
    """

    agreements: tuple[Agreement, ...]
    ranking: tuple[GroupEstimate, ...]
    costs: tuple[Cost, ...]

    def to_dicts(self) -> list[dict[str, Any]]:
        """Return rows of ``metrics --json``."""
        rows = []
        for a in self.agreements:
            group = {"judge": a.judge, "question": a.question}
            for name, estimate in (
                ("accuracy", a.accuracy),
                ("balanced accuracy", a.balanced),
                ("MCC", a.mcc),
            ):
                rows.append(GroupEstimate(group, f"judge:{name}", estimate).to_dict())
        return rows + [row.to_dict() for row in self.ranking]


def judge_agreement(runs: Run | Sequence[Run]) -> JudgeAgreement:
    """Compare each run's judge with the labels of its episodes, and sum up what it cost."""
    agreements: list[Agreement] = []
    ranking: list[GroupEstimate] = []
    opened = [runs] if isinstance(runs, Run) else list(runs)
    for run in opened:
        on_success = success_agreement(run.judge, measure_episodes(run))
        agreements += [*on_success.agreements, *_subgoals(run)]
        ranking += on_success.ranking
    return JudgeAgreement(tuple(agreements), tuple(ranking), tuple(_cost(run) for run in opened))


def success_agreement(judge: str, metrics: EpisodeMetrics) -> JudgeAgreement:
    """Compare a judge with the success labels: its answers, and the ranking by its scores.

    Args:
        judge: The judge's name.
        metrics: Of its run.
    """
    labels, answers = metrics.values["success_label"], metrics.values["success_judge"]
    labelled = bool(np.any(~np.isnan(labels)))
    agreements = (_agreement(judge, "success", answers, labels),) if labelled else ()
    return JudgeAgreement(agreements, tuple(_ranking(judge, metrics)), ())


def _subgoals(run: Run) -> list[Agreement]:
    """Return one agreement per task and subgoal that is both judged and labelled."""
    rows: dict[tuple[str, str], dict[str, dict[str, float]]] = defaultdict(lambda: defaultdict(dict))
    for episode, names, source, row in verdict_rows(run):
        for name, value in zip(names, row, strict=True):
            rows[str(episode["task"]), name][episode["episode_id"]][source] = float(value)
    agreements = []
    for (task, name), episodes in sorted(rows.items()):
        labels = np.array([e.get("label", np.nan) for e in episodes.values()])
        answers = np.array([e.get("judge", np.nan) for e in episodes.values()])
        if np.any(~np.isnan(labels)) and np.any(~np.isnan(answers)):
            agreements.append(_agreement(run.judge, f"{task}: {name}", answers, labels))
    return agreements


def _agreement(judge: str, question: str, answers: FloatArray, labels: FloatArray) -> Agreement:
    known = ~np.isnan(labels)
    answers, labels = answers[known], labels[known]
    right = np.where(np.isnan(answers), np.nan, answers == labels)
    return Agreement(
        judge,
        question,
        confusion(answers, labels),
        rate_estimate(right),
        statistic_estimate(balanced_accuracy, (answers, labels)),
        statistic_estimate(mcc, (answers, labels)),
    )


def _ranking(judge: str, metrics: EpisodeMetrics) -> list[GroupEstimate]:
    """Return the ROC-AUC of each score against the success label: no threshold, so nothing to tune."""
    labels = metrics.values["success_label"]
    if not np.any(labels == 1) or not np.any(labels == 0):
        return []
    last = [values[-1] if len(values) else np.nan for _, values in metrics.curves]
    success_scores = [row["success_score"] for row in metrics.episodes]
    scores: Mapping[str, FloatArray] = {
        "success score": np.array([np.nan if s is None else s for s in success_scores], dtype=np.float64),
        "best progress": metrics.values["MP"],
        "last progress": np.array(last, dtype=np.float64),
    }
    return [
        GroupEstimate({"judge": judge}, f"judge:AUC of {name}", statistic_estimate(roc_auc, (values, labels)))
        for name, values in scores.items()
        if np.any(~np.isnan(values))
    ]


def _cost(run: Run) -> Cost:
    usage = run.usage().to_pylist()
    facts = [json.loads(text) if text else {} for text in run.judgements().column("facts").to_pylist()]
    n = len(usage) or np.nan
    latencies = [latency for row in usage for latency in row["latencies_s"]]
    costs = np.array([np.nan if row["cost"] is None else row["cost"] for row in usage], dtype=np.float64)
    escalated = np.array([fact.get("escalated", np.nan) for fact in facts], dtype=np.float64)
    p50, p95 = np.quantile(latencies, [0.5, 0.95]) if latencies else (np.nan, np.nan)
    return Cost(
        run.judge,
        len(usage),
        sum(row["calls"] for row in usage) / n,
        sum(row["images"] for row in usage) / n,
        sum(row["tokens_in"] + row["tokens_out"] for row in usage) / n,
        float(p50),
        float(p95),
        float(np.mean(costs)) if len(costs) else np.nan,
        rate_estimate(escalated),
        _saved(usage, escalated),
    )


def _saved(usage: Sequence[Mapping[str, Any]], escalated: FloatArray) -> float:
    """Return the tokens saved, as a share of what it would take to pass every episode on."""
    tokens = np.array([row["tokens_in"] + row["tokens_out"] for row in usage], dtype=np.float64)
    if not np.any(escalated == 1) or not np.any(escalated == 0):
        return float("nan")
    everything = float(np.mean(tokens[escalated == 1])) * len(tokens)
    return 1.0 - float(tokens.sum()) / everything if everything > 0 else float("nan")
