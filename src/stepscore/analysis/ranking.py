"""Rank successes above failures by each of a judge's scores: over all episodes, within tasks, at equal lengths.

Rollouts that stop after success reveal the answer by their length. :func:`stepscore.episodes.match_lengths`
pairs each success with a failure of its task cut to its length; the score of a cut failure is its curve's
value there.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from stepscore.analysis.auc import auc_estimate
from stepscore.analysis.episode_metrics import EpisodeMetrics, task_of
from stepscore.analysis.estimates import Group, GroupEstimate
from stepscore.analysis.table_rows import EpisodeRow
from stepscore.episodes import Episode, Label, Labels, ViewInfo, match_lengths
from stepscore.episodes.labels import LABEL_TOLERANCE_S, POTENTIAL
from stepscore.judges import BASELINES
from stepscore.types import FloatArray, Frames

SCORES = ("success probability", "success score", "best progress", "last progress")
"""A judge's possible scores of an episode; a calibrated judge's verdict is by its success probability."""


def score_ranking(
    judge: str, metrics: EpisodeMetrics, group: Group, names: Collection[str] = SCORES
) -> list[GroupEstimate]:
    """Return the ROC-AUC of each score against the success label: there is no threshold to tune."""
    if not _both_outcomes(metrics):
        return []
    scores = {name: values for name, values in _scores(metrics).items() if name in names}
    return [_row(judge, metrics, group, name, values) for name, values in scores.items()]


def finer_ranking(
    judge: str, metrics: EpisodeMetrics, group: Group, names: Collection[str] = SCORES
) -> list[GroupEstimate]:
    """Return the ranking among episodes of one task (if there are several), and of one task and length."""
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
    """Return the judge's scores of episodes by name, if any is known."""
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


@dataclass(frozen=True)
class _Timing:
    """The timestamps of an episode's frames, to match lengths without decoding."""

    times: FloatArray
    frame_s: float

    def info(self) -> ViewInfo:
        last = float(self.times[-1])
        return ViewInfo(len(self.times), 1.0 / self.frame_s, 0, 0, last + self.frame_s)

    def timestamps(self) -> FloatArray:
        return self.times

    def read(self, indices: Sequence[int], size: int | None = None) -> Frames:
        raise NotImplementedError("timestamps have no frames")

    def digest(self) -> bytes:
        return self.times.tobytes()

    def location(self) -> str:
        return ""


def length_matched_scores(metrics: EpisodeMetrics, judge: str) -> FloatArray:
    """Return the last progress of each success, and of each failure at the length of its success, shape (n,).

    NaN without a partner: a failure is cut only where its labels say that it still is one. For a baseline,
    the cut episode is scored again, since a clock depends on the end.
    """
    found = np.full(len(metrics), np.nan)
    known = [
        (i, timing)
        for i, (row, curve) in enumerate(zip(metrics.episodes, metrics.curves, strict=True))
        if row["success"] is not None and (timing := _timing(row, curve[0])) is not None
    ]
    matched = match_lengths(_episode(i, metrics.episodes[i], timing) for i, timing in known)
    last_s = {episode.id: float(episode.views["timing"].timestamps()[-1]) for episode in matched.episodes}
    for name in (name for pair in matched.pairs for name in pair):
        i = int(name.partition("~")[0])
        found[i] = _score_at(judge, metrics.episodes[i], *metrics.curves[i], last_s[name])
    return found


def _score_at(judge: str, row: EpisodeRow, times: FloatArray, values: FloatArray, last_s: float) -> float:
    shown = times <= last_s + LABEL_TOLERANCE_S
    if not shown.any():
        return np.nan
    if judge in BASELINES:
        curve = BASELINES[judge].judge_at(Episode(str(row["episode_id"]), ""), times[shown]).curve
        return float(curve.progress[-1]) if curve is not None else np.nan
    return float(values[shown][-1])


def _episode(number: int, row: EpisodeRow, timing: _Timing) -> Episode:
    """Return an episode with a row's outcome, length and potential, without frames."""
    labels = [Label("success", row["success_mode"] or "holds", value=float(row["success"]))]
    truth = row["truth"]
    if truth.potential == POTENTIAL and truth.labelled is not None:
        pairs = zip(*truth.labelled, strict=True)
        labels += [Label("progress", POTENTIAL, float(at), value=float(value)) for at, value in pairs]
    return Episode(
        str(number),
        row["instruction"] or "",
        task=task_of(row),
        views={"timing": timing},
        labels=Labels(tuple(labels)),
    )


def _timing(row: EpisodeRow, sampled: FloatArray) -> _Timing | None:
    if row["n_frames"] and row["fps"]:
        return _timing_of(row["n_frames"], row["fps"])
    if len(sampled) < 2:
        return None
    return _Timing(sampled, float(np.median(np.diff(sampled))))


@lru_cache(maxsize=4096)
def _timing_of(n_frames: int, fps: float) -> _Timing:
    """Return the timing of this many frames; cached for the many episodes of one length."""
    return _Timing(np.arange(n_frames) / fps, 1.0 / fps)
