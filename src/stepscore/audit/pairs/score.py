"""Score a judge on pairs: share of right signs by span, with intervals, ties and the smallest span resolved."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np

from stepscore.audit.judge_answers import Judged
from stepscore.audit.pairs.pair import SPANS, Pair
from stepscore.episodes import Episode, perturb
from stepscore.errors import ManifestError
from stepscore.judges import BASELINES
from stepscore.metrics import roc_auc
from stepscore.metrics.stats import mean_estimate, statistic_estimate
from stepscore.types import Estimate, FloatArray

By = Literal["curve", "compare"]

RESOLVED = 0.75
"""Accuracy from which a span is resolved, by the lower end of its interval."""


@dataclass(frozen=True)
class SpanScore:
    """A judge on the pairs of one span, or of ``"all"``.

    Attributes:
        accuracy: Share of right signs, a tie one half; ``advances`` and ``regressions`` likewise.
        auroc: How often an advance is judged higher than a regression.
        ties: Share of pairs judged as no change.
    """

    span: str
    accuracy: Estimate
    advances: Estimate
    regressions: Estimate
    auroc: Estimate
    ties: Estimate

    def named(self) -> Mapping[str, Estimate]:
        """Return its estimates by their names in tables and JSON."""
        return {
            "accuracy": self.accuracy,
            "advances": self.advances,
            "regressions": self.regressions,
            "AUROC": self.auroc,
            "ties": self.ties,
        }


@dataclass(frozen=True)
class PairResult:
    """A judge on a file of pairs.

    Attributes:
        resolved: The smallest resolved span; ``None`` if there is none.
        by: ``"curve"`` over the whole video, or ``"compare"``: the answer about the two frames.
    """

    judge: str
    spans: tuple[SpanScore, ...]
    resolved: str | None
    by: By = "curve"

    def to_dicts(self) -> list[dict[str, Any]]:
        """Return a row for each span and number."""
        return [
            estimate_row({"judge": self.judge, "by": self.by, "span": score.span}, f"pairs:{name}", e)
            for score in self.spans
            for name, e in score.named().items()
        ]


def pair_videos(pairs: Sequence[Pair], episodes: Mapping[str, Episode]) -> dict[str, Episode]:
    """Return the video of every pair by its id: the episode as recorded or reversed.

    Raises:
        ManifestError: A pair names an unknown episode.
    """
    backwards: dict[str, Episode] = {}
    videos = {}
    for pair in pairs:
        if pair.episode not in episodes:
            raise ManifestError(
                f"Pair {pair.id} names episode {pair.episode!r}, which is not in the source. "
                "Pass the source that the pairs were made from."
            )
        episode = episodes[pair.episode]
        if pair.played == "backwards":
            episode = backwards.setdefault(pair.episode, perturb(episode, "reversed"))
        videos[pair.id] = episode
    return videos


def score_pairs(
    judge: str, pairs: Sequence[Pair], videos: Mapping[str, Episode], judged: Mapping[str, Judged]
) -> PairResult:
    """Compare the judged change of every pair with the true one.

    Args:
        videos: The video of each pair, by its id.
        judged: The judge's answers, by id of the videos' episodes.
    """
    return score_changes(
        judge, pairs, [judged_change(pair, judged.get(videos[pair.id].id)) for pair in pairs]
    )


def score_changes(
    judge: str, pairs: Sequence[Pair], changes: Sequence[float], *, by: By = "curve"
) -> PairResult:
    """Compare judged changes, NaN where unknown, with the true ones."""
    change = np.asarray(changes, dtype=np.float64)
    spans = [_span(name, pairs, change, [p.span == name for p in pairs]) for name in SPANS]
    spans.append(_span("all", pairs, change, [True] * len(pairs)))
    resolved = next(
        (one.span for one in spans[:-1] if not math.isnan(one.accuracy.lo) and one.accuracy.lo >= RESOLVED),
        None,
    )
    return PairResult(judge, tuple(spans), resolved, by)


def trivial_results(pairs: Sequence[Pair], videos: Mapping[str, Episode]) -> list[PairResult]:
    """Return the scores of the clock and the constant on the same pairs."""
    results = []
    for name in ("linear-time", "constant"):
        judged: dict[str, Judged] = {}
        for video in videos.values():
            if video.id not in judged:
                times = video.view(video.main_view).timestamps()
                curve = BASELINES[name].judge_at(video, times).curve
                judged[video.id] = Judged() if curve is None else Judged(curve.times, curve.progress)
        results.append(score_pairs(name, pairs, videos, judged))
    return results


def trivial_comparisons(pairs: Sequence[Pair]) -> list[PairResult]:
    """Return the scores of two constant answers: always an advance (a clock), and always no change."""
    answers = {"linear-time": 1.0, "constant": 0.0}
    return [score_changes(name, pairs, [each] * len(pairs), by="compare") for name, each in answers.items()]


def judged_change(pair: Pair, judged: Judged | None) -> float:
    """Return the change of a judge's curve between a pair's timestamps; NaN if unknown."""
    if judged is None:
        return math.nan
    return float(judged.at(pair.after_s) - judged.at(pair.before_s))


def _span(name: str, pairs: Sequence[Pair], change: FloatArray, chosen: Sequence[bool]) -> SpanScore:
    inside = [pair for pair, one in zip(pairs, chosen, strict=True) if one]
    judged = change[np.array(chosen, dtype=bool)] if len(pairs) else change
    advances = np.array([pair.change > 0 for pair in inside], dtype=bool)
    right, tied = right_signs(judged, inside)
    return SpanScore(
        name,
        _mean(right, inside),
        _mean(right[advances], [p for p in inside if p.change > 0]),
        _mean(right[~advances], [p for p in inside if p.change < 0]),
        statistic_estimate(
            lambda j, a: roc_auc(j, a.astype(bool)), (judged, advances.astype(float)), **resampling(inside)
        ),
        _mean(tied, inside),
    )


def right_signs(judged: FloatArray, pairs: Sequence[Pair]) -> tuple[FloatArray, FloatArray]:
    """Return per pair whether its sign is right (a tie is one half) and whether it is a tie; NaN if unknown."""
    advances = np.array([pair.change > 0 for pair in pairs], dtype=bool)
    right = np.where(judged == 0, 0.5, (judged > 0) == advances)
    tied = (judged == 0).astype(np.float64)
    unknown = np.isnan(judged)
    return np.where(unknown, np.nan, right), np.where(unknown, np.nan, tied)


def _mean(values: FloatArray, pairs: Sequence[Pair]) -> Estimate:
    return mean_estimate(values, **resampling(pairs))


def resampling(pairs: Sequence[Pair]) -> dict[str, Any]:
    """Return what is resampled, within tasks; see :attr:`Pair.cluster`."""
    return {"clusters": [pair.cluster for pair in pairs], "strata": [pair.task for pair in pairs]}


@dataclass(frozen=True)
class Measure:
    """A number about a judge's answers, with its names.

    Attributes:
        metric: Its name in JSON: ``consistency:order``.
        title: Display name.
        code: Its number in the published definitions, M1 to M5 and R1 to R5, if any.
        ideal: The value of a perfect judge, in words, if there is one.
        group: What distinguishes it from others of its name.
    """

    metric: str
    title: str
    code: str
    ideal: str
    estimate: Estimate
    group: Mapping[str, str] = field(default_factory=dict)

    def to_dict(self, judge: str, by: str) -> dict[str, Any]:
        """Return it as a row of JSON."""
        return estimate_row({"judge": judge, "by": by, **self.group}, self.metric, self.estimate)


def estimate_row(group: Mapping[str, str], metric: str, e: Estimate) -> dict[str, Any]:
    """Return an estimate as a row of JSON."""
    return {"group": dict(group), "metric": metric, **e.to_dict()}


def counted(value: float, n: int, method: str) -> Estimate:
    """Return a count as an estimate without an interval."""
    return Estimate(value, math.nan, math.nan, n, n, 1.0 if n else math.nan, method)
