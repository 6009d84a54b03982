"""Agreement of a trial with labels: one number over the questions posed by the labelled episodes.

All trials answer the same questions, so they can be compared question by question. Unknown answers count as
wrong, so that no trial wins by answering only easy questions.

=========================  ========================================================================================
metric                     definition; what unknown counts as
=========================  ========================================================================================
subgoal-balanced-accuracy  mean of the shares right among true and among false subgoals; not right
subgoal-f1                 F1 of yes over all subgoals; not yes
subgoal-accuracy           share of subgoals judged right; not right
success-balanced-accuracy  mean of the shares right among successes and among failures; not right
success-auc                share of (success, failure) pairs in which the success scores higher, ties half; lost
progress-mae               mean distance to labelled progress; a distance of 1
=========================  ========================================================================================
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np

from stepscore.analysis import EpisodeMetrics, measure_episodes
from stepscore.audit.tune.scene_split import scene_of, task_of
from stepscore.episodes import Episode
from stepscore.errors import OptionError, UnknownNameError
from stepscore.metrics import roc_auc
from stepscore.metrics.stats import compare_paired, mean_estimate, rate_estimate, statistic_estimate
from stepscore.runs import Run
from stepscore.types import Estimate, FloatArray

Kind = Literal["subgoal", "success", "progress"]
UNKNOWN = -1.0
"""Value of an unknown answer in this module's arrays."""


@dataclass(frozen=True)
class Metric:
    """A metric of agreement.

    Attributes:
        kind: The kind of labels the metric needs.
        func: Function of answers and labels, NaN if undefined; ``None`` for a mean over questions.
    """

    name: str
    kind: Kind
    better: Literal["higher", "lower"]
    func: Callable[[FloatArray, FloatArray], float] | None = None


@dataclass(frozen=True)
class Outcomes:
    """A trial's answers to the questions of a split, in order.

    Attributes:
        answers: 1, 0 or -1 (unknown); ranks of scores for AUC; distances for progress.
        labels: 1 or 0; always 0 for progress.
        known: Share of questions that were answered.
    """

    answers: FloatArray
    labels: FloatArray
    known: float
    tasks: tuple[str, ...]
    scenes: tuple[str, ...]


def balanced_share_right(answers: FloatArray, labels: FloatArray) -> float:
    """Return the mean of the accuracies for labels 1 and 0; NaN unless both labels occur."""
    right, true = answers == labels, labels == 1
    n, positives = len(labels), np.count_nonzero(true)
    if not 0 < positives < n:
        return math.nan
    found = np.count_nonzero(right & true)
    return (found / positives + (np.count_nonzero(right) - found) / (n - positives)) / 2


def f1_of_yes(answers: FloatArray, labels: FloatArray) -> float:
    """Return 2 tp / (yes answers + true labels); NaN without either."""
    yes, true = answers == 1, labels == 1
    return float(2 * (yes & true).sum() / (yes.sum() + true.sum())) if yes.any() or true.any() else math.nan


METRICS = {
    metric.name: metric
    for metric in (
        Metric("subgoal-balanced-accuracy", "subgoal", "higher", balanced_share_right),
        Metric("subgoal-f1", "subgoal", "higher", f1_of_yes),
        Metric("subgoal-accuracy", "subgoal", "higher"),
        Metric("success-balanced-accuracy", "success", "higher", balanced_share_right),
        Metric("success-auc", "success", "higher", roc_auc),
        Metric("progress-mae", "progress", "lower"),
    )
}


def choose_kind(episodes: Sequence[Episode], metric: str | None, *, subgoals: bool) -> Kind:
    """Return the kind of label to use: the metric's kind, else subgoals (if judged), success or progress.

    Raises:
        OptionError: No episode has a label of that kind.
    """
    if metric is not None and metric not in METRICS:
        raise UnknownNameError("metric", metric, METRICS)
    kinds: list[Kind] = [METRICS[metric].kind] if metric is not None else ["success", "progress"]
    if metric is None and subgoals:
        kinds.insert(0, "subgoal")
    for kind in kinds:
        if any(is_labelled(episode, kind) for episode in episodes):
            return kind
    raise OptionError(
        f"None of the {len(episodes)} episodes has a label of {' or '.join(kinds)} to choose by. "
        "Give labels: --labels FILE"
    )


def is_labelled(episode: Episode, kind: Kind) -> bool:
    """Return whether an episode has labels of a kind."""
    labels = episode.labels
    if kind == "subgoal":
        return any(labels.subgoal(goal.name) is not None for goal in episode.subgoals)
    if kind == "success":
        return labels.success is not None
    return bool(labels.potentials or labels.stages)


def choose_metric(kind: Kind, runs: Sequence[Run]) -> Metric:
    """Return the default metric.

    The default is balanced accuracy. For success labels, AUC is used instead if the trials have no verdict
    rule or different rules (for example, if only some are calibrated).
    """
    if kind != "success":
        return METRICS["subgoal-balanced-accuracy" if kind == "subgoal" else "progress-mae"]
    rules = [set(measure_episodes(run).verdict_rules) - {None} for run in runs]
    same = all(found == rules[0] and len(found) == 1 for found in rules)
    return METRICS["success-balanced-accuracy" if same else "success-auc"]


def outcomes(metric: Metric, episodes: Sequence[Episode], run: Run, potential: str | None = None) -> Outcomes:
    """Return a run's answers to the questions about these episodes."""
    if metric.kind == "subgoal":
        asked = [
            (episode, goal.name, float(label))
            for episode in episodes
            for goal in episode.subgoals
            if (label := episode.labels.subgoal(goal.name)) is not None
        ]
        verdicts = {(row["episode_id"], row["subgoal"]): row["answer"] for row in run.verdicts().to_pylist()}
        given = {"yes": 1.0, "no": 0.0}
        found = [given.get(verdicts.get((episode.id, name), ""), math.nan) for episode, name, _ in asked]
        return _outcomes([episode for episode, _, _ in asked], found, [label for _, _, label in asked])
    metrics = measure_episodes(run, potential=potential)
    place = {row["episode_id"]: i for i, row in enumerate(metrics.episodes)}
    values = _success_scores(metrics) if metric.name == "success-auc" else _per_episode(metric, metrics)
    found = [float(values[place[e.id]]) if e.id in place else math.nan for e in episodes]
    if metric.kind == "progress":
        return _distances(episodes, found, metrics, place)
    labels = [float(bool(episode.labels.success)) for episode in episodes]
    if metric.name == "success-auc":
        return _ranked(episodes, found, labels)
    return _outcomes(episodes, found, labels)


def value(metric: Metric, given: Outcomes) -> float:
    """Return the metric's value; NaN if undefined."""
    if metric.func is not None:
        return metric.func(given.answers, given.labels)
    per_question = given.answers if metric.kind == "progress" else given.answers == given.labels
    return float(np.mean(per_question)) if len(per_question) else math.nan


def estimate(metric: Metric, given: Outcomes) -> Estimate:
    """Estimate the metric; intervals resample scenes within tasks. Coverage is the share of known answers."""
    resampling: dict[str, Any] = {"clusters": given.scenes, "strata": given.tasks}
    if metric.func is not None:
        made = statistic_estimate(metric.func, (given.answers, given.labels), **resampling)
    elif metric.kind == "progress":
        made = mean_estimate(given.answers, **resampling)
    else:
        made = rate_estimate((given.answers == given.labels).astype(np.float64), **resampling)
    return replace(made, coverage=given.known)


def difference(metric: Metric, a: Outcomes, b: Outcomes) -> Estimate:
    """Estimate A's metric minus B's, with both computed on the same resamples."""
    resampling: dict[str, Any] = {"clusters": a.scenes, "strata": a.tasks}
    func = metric.func
    if func is not None:
        columns = (a.answers, b.answers, a.labels)
        return statistic_estimate(lambda x, y, true: func(x, true) - func(y, true), columns, **resampling)
    if metric.kind == "progress":
        return compare_paired(a.answers, b.answers, **resampling).difference
    right = [(each.answers == each.labels).astype(np.float64) for each in (a, b)]
    return compare_paired(*right, **resampling).difference


def _outcomes(episodes: Sequence[Episode], found: Sequence[float], labels: Sequence[float]) -> Outcomes:
    answers = np.array(found, dtype=np.float64)
    known = float(np.mean(~np.isnan(answers))) if len(answers) else math.nan
    return Outcomes(
        np.where(np.isnan(answers), UNKNOWN, answers),
        np.array(labels, dtype=np.float64),
        known,
        tuple(map(task_of, episodes)),
        tuple(map(scene_of, episodes)),
    )


def _ranked(episodes: Sequence[Episode], found: Sequence[float], labels: Sequence[float]) -> Outcomes:
    """Return scores as ranks from 0; an unknown score ranks lowest for a success and highest for a failure."""
    plain = _outcomes(episodes, found, labels)
    scores = np.array(found, dtype=np.float64)
    unknown = np.isnan(scores)
    ranks = np.where(plain.labels == 1, -1.0, float(len(scores)))
    ranks[~unknown] = np.unique(scores[~unknown], return_inverse=True)[1]
    return replace(plain, answers=ranks)


def _distances(
    episodes: Sequence[Episode], found: Sequence[float], metrics: EpisodeMetrics, place: dict[str, int]
) -> Outcomes:
    """Return each episode's mean distance to true progress; unknown points count as a distance of 1."""
    coverage = np.array([metrics.values["coverage"][place[e.id]] if e.id in place else 0.0 for e in episodes])
    known = np.where(np.isnan(coverage), 0.0, coverage)
    errors = np.array(found, dtype=np.float64)
    known[np.isnan(errors)] = 0.0
    distances = known * np.nan_to_num(errors) + (1 - known)
    plain = _outcomes(episodes, list(distances), [0.0] * len(episodes))
    return replace(plain, known=float(known.mean()) if len(known) else math.nan)


def _per_episode(metric: Metric, metrics: EpisodeMetrics) -> FloatArray:
    return metrics.values["stage_MAE" if metric.kind == "progress" else "success_judge"]


def _success_scores(metrics: EpisodeMetrics) -> FloatArray:
    """Return the success scores; the highest progress if the judge gives no score."""
    given = [row["success_score"] for row in metrics.episodes]
    scores = np.array([math.nan if score is None else score for score in given], dtype=np.float64)
    return metrics.values["MP"] if np.all(np.isnan(scores)) else scores
