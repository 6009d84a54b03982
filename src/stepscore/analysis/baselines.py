"""The baselines over the episodes of another judge, at the times it sampled: computed in memory, no video read."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from stepscore.analysis.agreement import JudgeAgreement, success_agreement
from stepscore.analysis.episode_metrics import EpisodeCurve, EpisodeMetrics, EpisodeRow, measure_rows
from stepscore.episodes import Episode
from stepscore.errors import UnknownNameError
from stepscore.judges import BASELINES
from stepscore.runs import finite_or_none
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


def measure_baselines(metrics: EpisodeMetrics, names: Sequence[str]) -> list[BaselineResult]:
    """Score the episodes of another judge with baselines, and measure these as that judge is measured.

    Each episode is scored at the times at which the other judge sampled it, or at 32 times over its duration
    where it has no curve; one without either is left out. Stages and the success label are those it has there.

    Args:
        metrics: Of the other judge.
        names: Baselines: ``linear-time``, ``constant``, ``random-monotone``.
    """
    for name in names:
        if name not in BASELINES:
            raise UnknownNameError("baseline", name, BASELINES)
    sampled = _sampled_episodes(metrics)
    results = []
    for name in names:
        scored = measure_rows(_score(name, sampled), revision=metrics.revision)
        results.append(BaselineResult(name, scored, success_agreement(name, scored)))
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
        yield {**row, **by_baseline}, (times, judgement.curve.progress)
