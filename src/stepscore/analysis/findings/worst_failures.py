"""The worst failures, and the time to look at in each: the largest drop, the longest stall, or the end.

``web/src/worst.ts`` finds the same times on the page; ``tests/web/test_overview.py`` compares the two.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike

from stepscore.analysis.episode_metrics import EpisodeMetrics, task_of
from stepscore.analysis.findings.phrases import percent

DROP = 0.1
"""Fall below the best so far that counts as undone, as in the failure modes."""
GAIN = 0.05
"""Largest rise of the best so far in a stall, as in the failure modes."""
STALL_SHARE = 0.33
"""Share of the time from which a stall is the problem."""
AGAIN = {"policy and task": 0.4, "policy": 0.75, "task": 0.9}
"""Factors on the severity of additional failures of the same policy, task or both."""

FailureKind = Literal["undone", "stalls", "ends"]


@dataclass(frozen=True)
class WorstTime:
    """The time to look at in an episode's curve.

    Attributes:
        kind: ``undone`` (the largest drop is .1 or more), ``stalls`` (the best so far rises by .05 or less
            over a third
        of the time or more), or ``ends`` (neither).
        time_s: The lowest point of the drop, the start of the stall, or the last known sample.
        severity: 0..1: the depth of the drop; the stall's share of the time, times what was left to do; or a
            tenth of
        what was left to do.
        text: E.g. ``undone at 2.4 s``.
    """

    kind: FailureKind
    time_s: float
    severity: float
    text: str


@dataclass(frozen=True)
class WorstFailure:
    """A failed episode worth looking at; ``worst`` is ``None`` without a known curve."""

    run: str
    episode_id: str
    policy: str | None
    task: str
    source: Literal["label", "judge"]
    worst: WorstTime | None

    @property
    def text(self) -> str:
        """Return a description of the failure: ``undone at 2.4 s``."""
        return self.worst.text if self.worst is not None else f"fails, by {self.source}"


def worst_time(times: ArrayLike, progress: ArrayLike) -> WorstTime | None:
    """Return the time to look at in a curve; ``None`` with fewer than two known samples."""
    # Ignore differences beyond the 9 decimals that the page stores, so that both find the same times.
    values = np.round(np.asarray(progress, dtype=np.float64), 6)
    known = ~np.isnan(values)
    seconds, values = np.asarray(times, dtype=np.float64)[known], values[known]
    if len(values) < 2:
        return None
    best = np.maximum.accumulate(values)
    falls = np.round(best - values, 6)
    lowest = int(np.argmax(falls))
    if falls[lowest] >= DROP:
        at = float(seconds[lowest])
        return WorstTime("undone", at, float(falls[lowest]), f"undone at {at:.1f} s")
    left = 1.0 - float(best[-1])
    # A stall from a sample on ends where the best so far first exceeds that sample's by more than the gain.
    ends = np.searchsorted(best, np.round(best + GAIN, 6), side="right") - 1
    spans = np.round(seconds[ends] - seconds, 6)
    start = int(np.argmax(spans))
    share = float(spans[start] / (seconds[-1] - seconds[0]))
    if share >= STALL_SHARE:
        at = float(seconds[start])
        text = "stalls from the start" if start == 0 else f"stalls at {at:.1f} s"
        return WorstTime("stalls", at, share * left, text)
    return WorstTime("ends", float(seconds[-1]), 0.1 * left, f"ends at {percent(float(values[-1]))}")


def worst_failures(metrics: EpisodeMetrics, most: int = 6) -> tuple[WorstFailure, ...]:
    """Return the worst failures by label, else by judge, spread over policies and tasks.

    The most severe one comes next, where each one taken lowers the severity of others with its policy or task
    (:data:`AGAIN`).
    """
    source: Literal["label", "judge"] = (
        "label" if np.any(~np.isnan(metrics.values["success_label"])) else "judge"
    )
    failed = np.flatnonzero(metrics.values[f"success_{source}"] == 0).tolist()
    found = []
    for i in failed:
        row = metrics.episodes[i]
        worst = worst_time(*metrics.curves[i])
        found.append(WorstFailure(row["run"], row["episode_id"], row["policy"], task_of(row), source, worst))
    # Equally severe failures have a fixed order.
    left = sorted(found, key=lambda f: (f.policy is None, f.policy or "", f.task, f.episode_id, f.run))
    severity = {id(f): f.worst.severity if f.worst is not None else 0.0 for f in left}
    chosen: list[WorstFailure] = []
    while left and len(chosen) < most:
        chosen.append(max(left, key=lambda f: (severity[id(f)] + 1e-6) * _worth(f, chosen)))
        left.remove(chosen[-1])
    return tuple(chosen)


def _worth(failure: WorstFailure, chosen: list[WorstFailure]) -> float:
    same_policy = [other for other in chosen if other.policy == failure.policy]
    both = sum(other.task == failure.task for other in same_policy)
    task = sum(other.task == failure.task for other in chosen)
    return math.prod(
        [AGAIN["policy and task"] ** both, AGAIN["policy"] ** len(same_policy), AGAIN["task"] ** task]
    )
