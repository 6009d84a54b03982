"""ROC-AUC with an interval that resamples scenes, over all pairs or over pairs of one task."""

from __future__ import annotations

import math
from collections.abc import Hashable, Sequence

import numpy as np

from stepscore.metrics import average_ranks
from stepscore.metrics.stats import statistic_estimate
from stepscore.types import Estimate, FloatArray, IntArray


def auc_estimate(
    scores: FloatArray,
    labels: FloatArray,
    *,
    tasks: Sequence[Hashable],
    scenes: Sequence[Hashable],
    within_tasks: bool = False,
) -> Estimate:
    """Estimate how often a success scores higher than a failure, a tie counting one half.

    Args:
        scores: A score per episode; NaN where unknown.
        labels: 1, 0 or NaN.
        tasks: Task of each episode: strata.
        scenes: Scene of each, ``None`` where it shares none: clusters.
        within_tasks: Compare a success only with failures of its task. Over all pairs, a judge that knows which
            tasks are easy gains from it.
    """
    codes = {task: code for code, task in enumerate(dict.fromkeys(tasks))}
    task_codes = np.array([codes[task] if within_tasks else 0 for task in tasks], dtype=np.float64)
    columns = (_ranks(scores), labels, task_codes)
    return statistic_estimate(
        auc_within_tasks, columns, clusters=scenes, strata=tasks, influence=auc_influence
    )


def auc_within_tasks(scores: FloatArray, labels: FloatArray, tasks: FloatArray) -> float:
    """Return the share of (success, failure) pairs of one task in which the success scores higher, ties half.

    Args:
        scores: Known scores in 0..0.5.
        labels: 1 or 0.
        tasks: The task of each as a whole number.
    """
    ranks, codes, counts = _ranks_in_tasks(scores, tasks)
    positives = np.bincount(codes, weights=labels)
    pairs = float(np.sum(positives * (counts - positives)))
    if not pairs:
        return math.nan
    won = float(np.sum(ranks * labels) - np.sum(positives * (positives + 1)) / 2)
    return won / pairs


def auc_influence(scores: FloatArray, labels: FloatArray, tasks: FloatArray) -> FloatArray:
    """Return how much :func:`auc_within_tasks` changes with the weight of each episode, at weight 1.

    ``(placement - AUC m) / pairs``: an episode's placement is the number of its m opposites in the task that it is on
    the right side of, ties half (DeLong, DeLong and Clarke-Pearson 1988).

    Args:
        scores: As there.
        labels: As there; both outcomes in at least one task.
        tasks: As there.
    """
    ranks, codes, counts = _ranks_in_tasks(scores, tasks)
    positives = np.bincount(codes, weights=labels)
    opposites = np.where(labels == 1, (counts - positives)[codes], positives[codes])
    below = np.empty(len(ranks))
    for outcome in (0.0, 1.0):
        own = labels == outcome
        below[own] = ranks[own] - _ranks_in_tasks(scores[own], tasks[own])[0]
    placement = np.where(labels == 1, below, opposites - below)
    pairs = float(np.sum(positives * (counts - positives)))
    auc = float(np.sum(placement[labels == 1])) / pairs
    return np.asarray((placement - auc * opposites) / pairs)


def _ranks_in_tasks(scores: FloatArray, tasks: FloatArray) -> tuple[FloatArray, IntArray, IntArray]:
    """Return the rank of each episode among those of its task, its task's code, and the episodes of each task."""
    # Scores lie within half a step of their task's number: one ranking orders every task's episodes apart.
    ranks = average_ranks(tasks + scores)
    codes = tasks.astype(np.int64)
    counts = np.bincount(codes)
    ranks -= (np.cumsum(counts) - counts)[codes]
    return ranks, codes, counts


def _ranks(scores: FloatArray) -> FloatArray:
    """Return scores as their ranks in 0..0.5, equal for equal scores; an infinite score is a rank too."""
    known = ~np.isnan(scores)
    found = np.full(len(scores), np.nan)
    if known.any():
        distinct, code = np.unique(scores[known], return_inverse=True)
        found[known] = 0.5 * code / max(len(distinct) - 1, 1)
    return found
