"""The rankings of one judge, by each of its scores."""

from __future__ import annotations

from collections.abc import Collection, Mapping

import numpy as np

from stepscore.analysis.episode_metrics import EpisodeMetrics, task_of
from stepscore.analysis.estimates import Group, GroupEstimate
from stepscore.analysis.ranking.auc import auc_estimate
from stepscore.analysis.ranking.length_matched import length_matched_scores
from stepscore.types import FloatArray

SCORES = ("success probability", "success score", "best progress", "last progress")
"""The scores that a judge may have of a whole episode. A calibrated judge's verdict is by its success probability."""


def score_ranking(
    judge: str, metrics: EpisodeMetrics, group: Group, names: Collection[str] = SCORES
) -> list[GroupEstimate]:
    """Return the ROC-AUC of each score against the success label: no threshold, so nothing to tune.

    Args:
        judge: The judge's name.
        metrics: Of the episodes of the group.
        group: What they share.
        names: Of these scores.
    """
    if not _both_outcomes(metrics):
        return []
    scores = {name: values for name, values in _scores(metrics).items() if name in names}
    return [_row(judge, metrics, group, name, values) for name, values in scores.items()]


def finer_ranking(
    judge: str, metrics: EpisodeMetrics, group: Group, names: Collection[str] = SCORES
) -> list[GroupEstimate]:
    """Return what is left of the ranking among episodes of one task, and of one task and length.

    Args:
        judge: The judge's name.
        metrics: Of the episodes of the group.
        group: What they share; nothing is added by tasks where it is one of one task.
        names: Of these scores.
    """
    if not _both_outcomes(metrics):
        return []
    rows = []
    if len({task_of(row) for row in metrics.episodes}) > 1:
        rows = [
            _row(judge, metrics, group, f"{name} within tasks", values, within_tasks=True)
            for name, values in _scores(metrics).items()
            if name in names
        ]
    matched = length_matched_scores(metrics, judge)
    name = "last progress, length-matched"
    return [*rows, _row(judge, metrics, group, name, matched, within_tasks=True)]


def _row(
    judge: str,
    metrics: EpisodeMetrics,
    group: Group,
    name: str,
    values: FloatArray,
    *,
    within_tasks: bool = False,
) -> GroupEstimate:
    labels = metrics.values["success_label"]
    # Over what is labelled: an unlabelled episode is not one whose score is missing.
    known = ~np.isnan(labels)
    rows = [row for row, one in zip(metrics.episodes, known, strict=True) if one]
    estimate = auc_estimate(
        values[known],
        labels[known],
        tasks=[task_of(row) for row in rows],
        scenes=[row["pair"] for row in rows],
        within_tasks=within_tasks,
    )
    return GroupEstimate({"judge": judge, **group}, f"judge:AUC of {name}", estimate)


def _both_outcomes(metrics: EpisodeMetrics) -> bool:
    return {0.0, 1.0} <= set(metrics.values["success_label"].tolist())


def _scores(metrics: EpisodeMetrics) -> Mapping[str, FloatArray]:
    """Return the judge's scores of whole episodes by name, those of which something is known."""
    last = [values[-1] if len(values) else np.nan for _, values in metrics.curves]
    given = [row["success_score"] for row in metrics.episodes]
    calibrated = [
        row["success_probability"] if row.get("success_calibrated") else None for row in metrics.episodes
    ]
    scores: Mapping[str, FloatArray] = {
        "success probability": np.array([np.nan if p is None else p for p in calibrated], dtype=np.float64),
        "success score": np.array([np.nan if score is None else score for score in given], dtype=np.float64),
        "best progress": metrics.values["MP"],
        "last progress": np.array(last, dtype=np.float64),
    }
    return {name: values for name, values in scores.items() if np.any(~np.isnan(values))}
