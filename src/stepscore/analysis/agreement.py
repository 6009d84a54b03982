"""How far a judge agrees with labels, and what it takes: diagnostics of the judge, apart from the evaluation.

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

from stepscore.analysis.measures import GroupEstimate, measure_episodes
from stepscore.analysis.subgoals import verdict_rows
from stepscore.metrics import Confusion, balanced_accuracy, confusion, mcc, roc_auc
from stepscore.metrics.stats import rate_estimate, statistic_estimate
from stepscore.runs import Run
from stepscore.types import Estimate, FloatArray


@dataclass(frozen=True)
class Agreement:
    """A judge's answers to one question held against labels.

    Attributes:
        judge: Who judged.
        question: ``"success"``, or a subgoal with its task.
        table: Counts of right and wrong answers; ``unknown`` are labelled episodes without an answer.
        accuracy: Share of right answers.
        balanced: Mean of the shares among true and among false labels.
        mcc: Matthews correlation.
    """

    judge: str
    question: str
    table: Confusion
    accuracy: Estimate
    balanced: Estimate
    mcc: Estimate


@dataclass(frozen=True)
class Cost:
    """What a judge took per episode, and how a cascade saved.

    Attributes:
        judge: Who judged.
        episodes: Episodes judged.
        calls: Calls per episode.
        images: Pictures per episode.
        tokens: Tokens read and written per episode.
        p50_s: Half of the calls took at most this.
        p95_s: 19 of 20 calls took at most this.
        cost: Money per episode; NaN where the price is not known.
        escalated: Share of episodes a cascade passed on; NaN interval and n 0 for other judges.
        saved: Share of what asking the dear judge of every episode would have cost; NaN where not known.
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
    """Agreement, ranking of successes above failures, and cost, by judge."""

    agreements: tuple[Agreement, ...]
    ranking: tuple[GroupEstimate, ...]
    costs: tuple[Cost, ...]

    def rows(self) -> list[dict[str, Any]]:
        """As rows of ``metrics --json``."""
        found = []
        for a in self.agreements:
            group = {"judge": a.judge, "question": a.question}
            for name, estimate in (
                ("accuracy", a.accuracy),
                ("balanced accuracy", a.balanced),
                ("MCC", a.mcc),
            ):
                found.append(GroupEstimate(group, f"judge:{name}", estimate).row())
        return found + [m.row() for m in self.ranking]


def judge_agreement(runs: Run | Sequence[Run]) -> JudgeAgreement:
    """How far each run's judge agrees with the labels of its episodes, and what it took."""
    opened = [runs] if isinstance(runs, Run) else list(runs)
    agreements = [a for run in opened for a in (*_success(run), *_subgoals(run))]
    return JudgeAgreement(
        tuple(agreements),
        tuple(m for run in opened for m in _ranking(run)),
        tuple(_cost(run) for run in opened),
    )


def _success(run: Run) -> list[Agreement]:
    values = measure_episodes(run).values
    labels, answers = values["success_label"], values["success_judge"]
    return [_agreement(run, "success", answers, labels)] if np.any(~np.isnan(labels)) else []


def _subgoals(run: Run) -> list[Agreement]:
    """One agreement per task and subgoal that is both judged and labelled."""
    rows: dict[tuple[str, str], dict[str, dict[str, float]]] = defaultdict(lambda: defaultdict(dict))
    for episode, names, source, row in verdict_rows(run):
        for name, value in zip(names, row, strict=True):
            rows[str(episode["task"]), name][episode["episode_id"]][source] = float(value)
    found = []
    for (task, name), episodes in sorted(rows.items()):
        labels = np.array([e.get("label", np.nan) for e in episodes.values()])
        answers = np.array([e.get("judge", np.nan) for e in episodes.values()])
        if np.any(~np.isnan(labels)) and np.any(~np.isnan(answers)):
            found.append(_agreement(run, f"{task}: {name}", answers, labels))
    return found


def _agreement(run: Run, question: str, answers: FloatArray, labels: FloatArray) -> Agreement:
    known = ~np.isnan(labels)
    answers, labels = answers[known], labels[known]
    right = np.where(np.isnan(answers), np.nan, answers == labels)
    return Agreement(
        run.judge,
        question,
        confusion(answers, labels),
        rate_estimate(right),
        statistic_estimate(balanced_accuracy, (answers, labels)),
        statistic_estimate(mcc, (answers, labels)),
    )


def _ranking(run: Run) -> list[GroupEstimate]:
    """ROC-AUC of what the judge says against the success label: no threshold, so nothing to tune."""
    measures = measure_episodes(run)
    labels = measures.values["success_label"]
    if not np.any(labels == 1) or not np.any(labels == 0):
        return []
    last = [values[-1] if len(values) else np.nan for _, values in measures.curves]
    said = [row["success_score"] for row in measures.episodes]
    scores: Mapping[str, FloatArray] = {
        "success score": np.array([np.nan if v is None else v for v in said], dtype=np.float64),
        "best progress": measures.values["MP"],
        "last progress": np.array(last, dtype=np.float64),
    }
    return [
        GroupEstimate(
            {"judge": run.judge}, f"judge:AUC of {name}", statistic_estimate(roc_auc, (values, labels))
        )
        for name, values in scores.items()
        if np.any(~np.isnan(values))
    ]


def _cost(run: Run) -> Cost:
    usage = run.usage().to_pylist()
    facts = [json.loads(text) if text else {} for text in run.judgements().column("facts").to_pylist()]
    n = len(usage) or np.nan
    waits = [wait for row in usage for wait in row["latencies_s"]]
    costs = np.array([np.nan if row["cost"] is None else row["cost"] for row in usage], dtype=np.float64)
    escalated = np.array([fact.get("escalated", np.nan) for fact in facts], dtype=np.float64)
    p50, p95 = np.quantile(waits, [0.5, 0.95]) if waits else (np.nan, np.nan)
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
    """Tokens not spent, as a share of what it would take to pass every episode on."""
    tokens = np.array([row["tokens_in"] + row["tokens_out"] for row in usage], dtype=np.float64)
    if not np.any(escalated == 1) or not np.any(escalated == 0):
        return float("nan")
    everything = float(np.mean(tokens[escalated == 1])) * len(tokens)
    return 1.0 - float(tokens.sum()) / everything if everything > 0 else float("nan")
