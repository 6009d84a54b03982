"""Success: is a video that shows the task done scored above one that does not?"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from benchmarks.embedded.figures import Figure, Units, average, over_points, plain
from benchmarks.embedded.rows import Scored
from benchmarks.embedded.variants import ARRIVED, Match, Matched
from stepscore.metrics.success import roc_auc
from stepscore.types import Estimate, FloatArray

GROUP = "Success, lengths matched"
ENOUGH = 50
"""Pairs of a task from which its own figure is held against the target."""

Index = Mapping[tuple[str, str], Scored]


def index(rows: Sequence[Scored]) -> dict[tuple[str, str], Scored]:
    """Rows by recorded episode and variant."""
    return {(row.id, row.variant): row for row in rows}


@dataclass(frozen=True)
class ScoredVideos:
    """Videos with known outcome, and a score of each."""

    rows: tuple[Scored, ...]
    labels: FloatArray
    scores: FloatArray

    @classmethod
    def of(cls, pairs: Sequence[tuple[Scored, Scored]]) -> ScoredVideos:
        """Successes and failures of pairs, each video once, scored at its end."""
        rows = tuple({(r.id, r.variant): r for pair in pairs for r in pair}.values())
        good = {(pair[0].id, pair[0].variant) for pair in pairs}
        labels = np.array([float((r.id, r.variant) in good) for r in rows])
        return cls(rows, labels, np.array([r.final for r in rows]))

    def auc(self) -> Estimate:
        """Area under the ROC curve over all videos, scenes resampled."""
        if not len(self.rows):
            return plain(math.nan, 0, "no pairs")
        return over_points(
            fast_auc, ([[s] for s in self.scores], [[y] for y in self.labels]), Units.of(self.rows)
        )

    def baselines(self) -> dict[str, float]:
        """The same for judges that look at nothing."""
        length = np.array([-round(r.duration_s, 6) for r in self.rows])
        still = np.zeros(len(self.rows))
        names = {"length alone": length, "linear time": still + 1.0, "constant": still}
        return {name: roc_auc(values, self.labels) for name, values in names.items()}


def fast_auc(scores: FloatArray, labels: FloatArray) -> float:
    """As ``roc_auc``, without its checks: it is called on thousands of resamples."""
    positive = labels > 0.5
    good, bad = np.sort(scores[positive]), np.sort(scores[~positive])
    if not len(good) or not len(bad):
        return math.nan
    below, to = np.searchsorted(bad, good, "left"), np.searchsorted(bad, good, "right")
    return float((below + to).sum() / (2.0 * len(good) * len(bad)))


def macro_auc(scores: FloatArray, labels: FloatArray, tasks: FloatArray) -> float:
    """Mean over tasks of their AUC; a task with one class alone does not enter."""
    found = [fast_auc(scores[tasks == task], labels[tasks == task]) for task in np.unique(tasks)]
    known = [value for value in found if not math.isnan(value)]
    return float(np.mean(known)) if known else math.nan


def pairs_of(
    rows: Index, found: Sequence[Match], success: str = "recorded", failure: str = "{}"
) -> list[tuple[Scored, Scored]]:
    """The rows of matched pairs; ``failure`` names the failure's variant, with ``{}`` for its cut."""
    names = [((m.success, success), (m.failure, failure.format(m.variant))) for m in found]
    return [(rows[a], rows[b]) for a, b in names if a in rows and b in rows]


def success_figures(rows: Sequence[Scored], matched: Matched) -> list[Figure]:
    """AUC pooled, macro, by task and over prefixes; near misses, retreats and transient successes."""
    by = index(rows)
    pairs = pairs_of(by, matched.all)
    videos = ScoredVideos.of(pairs)
    figures = [
        Figure(GROUP, "success AUC, pooled", videos.auc(), 0.98, baselines=videos.baselines()),
        _macro(videos),
        _product(videos),
        _reworded(pairs),
        _prefixes([row for row in rows if row.variant == "recorded"]),
        *_by_task(pairs),
        *_near_misses(by, matched, pairs),
        *_lost(pairs, [row for row in rows if row.variant == "recorded"]),
    ]
    accuracy = average((videos.scores > 0) == (videos.labels > 0.5), Units.of(videos.rows))
    figures.insert(3, Figure(GROUP, "accuracy at P = 0.5", accuracy))
    return figures


def _macro(videos: ScoredVideos) -> Figure:
    codes = {task: float(number) for number, task in enumerate(sorted({r.task for r in videos.rows}))}
    columns = (
        [[s] for s in videos.scores],
        [[y] for y in videos.labels],
        [[codes[r.task]] for r in videos.rows],
    )
    estimate = over_points(macro_auc, columns, Units.of(videos.rows), resamples=500)
    return Figure(GROUP, f"success AUC, mean of {len(codes)} tasks", estimate, baselines=videos.baselines())


def _product(videos: ScoredVideos) -> Figure:
    """The success score that ``topreward`` reports: the mean of P over the last three prefixes."""
    scores = np.array([row.chances[-3:].mean() for row in videos.rows])
    estimate = ScoredVideos(videos.rows, videos.labels, scores).auc()
    return Figure(
        GROUP, "success AUC of topreward's success score", estimate, note="mean of the last 3 prefixes"
    )


def _reworded(pairs: Sequence[tuple[Scored, Scored]]) -> Figure:
    """The instruction in words that were never trained."""
    reworded = [pair for pair in pairs if not any(math.isnan(row.reworded) for row in pair)]
    videos = ScoredVideos.of(reworded)
    scores = np.array([row.reworded for row in videos.rows])
    estimate = ScoredVideos(videos.rows, videos.labels, scores).auc()
    return Figure(GROUP, "success AUC, instruction in an unseen wording", estimate)


def _prefixes(rows: Sequence[Scored]) -> Figure:
    known = [row for row in rows if not np.isnan(row.own.truth).any()]
    units = Units.of(known)
    truth = [row.own.truth for row in known]
    estimate = over_points(fast_auc, ([row.own.margins for row in known], truth), units, resamples=300)
    labels = np.concatenate(truth)
    clocks = {
        "length alone": np.concatenate([row.times for row in known]),
        "linear time": np.concatenate([row.times / max(row.times[-1], 1e-9) for row in known]),
        "constant": np.zeros(len(labels)),
    }
    points = f"{len(labels)} prefixes, {labels.mean():.0%} of them after success"
    baselines = {name: roc_auc(values, labels) for name, values in clocks.items()}
    return Figure(GROUP, "success AUC over all prefixes", estimate, 0.98, baselines=baselines, note=points)


def _by_task(pairs: Sequence[tuple[Scored, Scored]]) -> list[Figure]:
    """The AUC of each task, and before them the lowest of those with enough pairs."""
    figures: dict[str, Figure] = {}
    counts: dict[str, int] = {}
    for task in sorted({pair[0].task for pair in pairs}):
        mine = [pair for pair in pairs if pair[0].task == task]
        videos = ScoredVideos.of(mine)
        note = "" if len(mine) >= ENOUGH else f"{len(mine)} pairs, under {ENOUGH}"
        name = f"success AUC, {task}"
        figures[task] = Figure(GROUP, name, videos.auc(), 0.9, baselines=videos.baselines(), note=note)
        counts[task] = len(mine)
    enough = [task for task in figures if counts[task] >= ENOUGH] or list(figures)
    known = [task for task in enough if not math.isnan(figures[task].estimate.value)]
    if not known:
        return list(figures.values())
    low = min(known, key=lambda task: figures[task].estimate.value)
    note = f"{low}; {len([t for t in figures if counts[t] >= ENOUGH])} of {len(figures)} tasks have {ENOUGH} pairs"
    worst = Figure(GROUP, "success AUC, worst task", figures[low].estimate, 0.9, note=note)
    return [worst, *figures.values()]


def _near_misses(by: Index, matched: Matched, everything: Sequence[tuple[Scored, Scored]]) -> list[Figure]:
    figures = []
    for policy, found in matched.short.items():
        near = [p for p in pairs_of(by, found) if p[1].potential[-1] >= p[1].peak - ARRIVED]
        videos = ScoredVideos.of(near)
        target = 0.9 if policy == "short:4" else None
        centimetres = policy.partition(":")[2]
        name = f"AUC of near misses, {centimetres} cm short, against successes of their length"
        figures.append(Figure(GROUP, name, videos.auc(), target, baselines=videos.baselines()))
    return figures


def _lost(pairs: Sequence[tuple[Scored, Scored]], recorded: Sequence[Scored]) -> list[Figure]:
    kinds: dict[str, Callable[[Scored], bool]] = {
        "retreats": lambda row: row.policy == "retreat",
        "transient successes": lambda row: row.ever == 1,
    }
    figures = []
    for name, chosen in kinds.items():
        videos = ScoredVideos.of([pair for pair in pairs if chosen(pair[1])])
        figures.append(
            Figure(
                GROUP,
                f"AUC of {name} against successes of their length",
                videos.auc(),
                baselines=videos.baselines(),
            )
        )
        whole = [row for row in recorded if row.success == 0 and chosen(row)]
        ends = average([row.chances[-1] for row in whole], Units.of(whole))
        figures.append(Figure(GROUP, f"P(True) at the end of {name}, whole", ends))
    lost = [row for row in recorded if row.success == 0 and row.ever == 1]
    fall = average([row.chances.max() - row.chances[-1] for row in lost], Units.of(lost))
    figures.append(Figure(GROUP, "fall of P(True) from its highest to the end, transient successes", fall))
    return figures
