"""ROC-AUC with an interval that resamples scenes, over all pairs or only pairs within a task."""

from __future__ import annotations

import math
from collections.abc import Hashable, Sequence
from typing import Any

import numpy as np

from stepscore.metrics import average_ranks
from stepscore.metrics.stats import is_missing, statistic_estimate
from stepscore.types import Estimate, FloatArray, IntArray

DRAWN_APART = 3
"""Smallest number of scenes for which a task's scenes are resampled separately."""


def auc_estimate(
    scores: FloatArray,
    labels: FloatArray,
    *,
    tasks: Sequence[Hashable],
    scenes: Sequence[Hashable],
    within_tasks: bool = False,
    resamples: int = 2000,
) -> Estimate:
    """Estimate how often a success scores higher than a failure; ties count one half.

    Args:
        scores: Scores, NaN if unknown.
        scenes: Scene of each episode; ``None`` if the episode shares its scene with no other.
        within_tasks: Compare a success only with failures of the same task. Over all pairs, a judge gains
            from knowing which
        tasks are easy.
    """
    codes = {task: code for code, task in enumerate(dict.fromkeys(tasks))}
    task_codes = np.array([codes[task] if within_tasks else 0 for task in tasks], dtype=np.float64)
    columns: tuple[FloatArray, ...] = (_ranks(scores), labels, task_codes)
    if within_tasks:
        scenes, whole = _tasks_drawn_whole(~np.isnan(columns[0] + labels), task_codes, scenes)
        columns = (*columns, whole)
    return statistic_estimate(
        auc_within_tasks, columns, clusters=scenes, strata=tasks, influence=auc_influence, resamples=resamples
    )


def _tasks_drawn_whole(
    known: np.ndarray[Any, Any], tasks: FloatArray, scenes: Sequence[Hashable]
) -> tuple[list[Hashable], FloatArray]:
    """Return the scenes to draw, and the size of each episode's task if that task is drawn as a whole, else 0.

    A task with fewer than :data:`DRAWN_APART` scenes is drawn as a whole.
    """
    units = [("episode", i) if is_missing(scene) else ("scene", scene) for i, scene in enumerate(scenes)]
    by_task: dict[float, list[Hashable]] = {}
    for i in np.flatnonzero(known).tolist():
        by_task.setdefault(tasks[i], []).append(units[i])
    sizes = {task: len(found) for task, found in by_task.items() if len(set(found)) < DRAWN_APART}
    # A missing scene stays missing, so that draws do not depend on the order of episodes.
    drawn = ["whole" if task in sizes else scene for task, scene in zip(tasks.tolist(), scenes, strict=True)]
    return drawn, np.array([sizes.get(task, 0) for task in tasks.tolist()], dtype=np.float64)


def auc_within_tasks(
    scores: FloatArray, labels: FloatArray, tasks: FloatArray, whole: FloatArray | None = None
) -> float:
    """Return the share of (success, failure) pairs of one task in which the success scores higher (ties: 0.5).

    A task with one or two scenes is drawn as a whole. A task drawn m times counts m times its pairs. Merging
    the copies into one task would give m^2 times as many, and the interval would be far too wide.

    Args:
        scores: Scores in 0..0.5.
        whole: Number of episodes in the episode's task before drawing, if that task is drawn as a whole; else 0.
    """
    ranks, codes, counts = _ranks_in_tasks(scores, tasks)
    positives = np.bincount(codes, weights=labels)
    ranked = np.bincount(codes, weights=ranks * labels)
    drawn = np.ones(len(counts))
    if whole is not None:
        once = np.zeros(len(counts))
        once[codes] = whole
        drawn = np.where(once > 0, counts / np.where(once > 0, once, 1.0), 1.0)
        drawn = np.where(drawn > 0, drawn, 1.0)
    pairs = float(np.sum(positives * (counts - positives) / drawn))
    if not pairs:
        return math.nan
    return float(np.sum((ranked - positives * (positives + 1) / 2) / drawn)) / pairs


def auc_influence(
    scores: FloatArray, labels: FloatArray, tasks: FloatArray, whole: FloatArray | None = None
) -> FloatArray:
    """Return the derivative of :func:`auc_within_tasks` with respect to the weight of each episode, at weight 1.

    ``(placement - AUC m) / pairs``: an episode's placement is the number of its m opposites in the task that
    are ranked on the correct side, with ties counted half (DeLong, DeLong and Clarke-Pearson 1988). The
    result is halved for a task drawn as a whole, because both episodes of a pair carry the task's weight but
    the pair counts it once.
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
    influence = (placement - auc * opposites) / pairs
    return np.asarray(influence if whole is None else np.where(whole > 0, influence / 2, influence))


def _ranks_in_tasks(scores: FloatArray, tasks: FloatArray) -> tuple[FloatArray, IntArray, IntArray]:
    """Return each episode's rank within its task, its task code, and the number of episodes of each task."""
    # Scores lie within half a step of the task's number, so one ranking keeps the tasks apart.
    ranks = average_ranks(tasks + scores)
    codes = tasks.astype(np.int64)
    counts = np.bincount(codes)
    ranks -= (np.cumsum(counts) - counts)[codes]
    return ranks, codes, counts


def _ranks(scores: FloatArray) -> FloatArray:
    """Return scores as ranks in 0..0.5; equal scores get equal ranks, and infinite scores are ranked too."""
    known = ~np.isnan(scores)
    found = np.full(len(scores), np.nan)
    if known.any():
        distinct, code = np.unique(scores[known], return_inverse=True)
        found[known] = 0.5 * code / max(len(distinct) - 1, 1)
    return found
