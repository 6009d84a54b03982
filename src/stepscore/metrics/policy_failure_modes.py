"""Failure modes of a policy: their shares, their stability across tasks, and z-scores over policies."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np

from stepscore.metrics.failure_modes import FAILURE_MODES, UNKNOWN_FAILURE_MODE


@dataclass(frozen=True)
class FailureModeSummary:
    """The failure modes of a policy's episodes.

    Attributes:
        shares: Share of each failure mode among the episodes where it is known, pooled over tasks.
        stability: Similarity of the tasks, 0..1; see `failure_mode_stability`. NaN with fewer than two tasks.
        episodes: Number of episodes whose failure mode is known.
        tasks: Number of tasks they come from.
        coverage: Share of all episodes whose failure mode is known; NaN without episodes.
    """

    shares: Mapping[str, float]
    stability: float
    episodes: int
    tasks: int
    coverage: float


def summarize_failure_modes(names_by_task: Mapping[str, Sequence[str]]) -> FailureModeSummary:
    """Summarize the failure modes of one policy: their shares and stability.

    Args:
        names_by_task: The failure modes of its episodes, by task.
    """
    everything = [name for names in names_by_task.values() for name in names]
    known = {task: _known(names) for task, names in names_by_task.items() if _known(names)}
    pooled = [name for names in known.values() for name in names]
    return FailureModeSummary(
        shares=_shares(pooled),
        stability=failure_mode_stability(names_by_task),
        episodes=len(pooled),
        tasks=len(known),
        coverage=len(pooled) / len(everything) if everything else math.nan,
    )


def failure_mode_stability(names_by_task: Mapping[str, Sequence[str]]) -> float:
    """Return how similar a policy's failure modes are across tasks.

    1 - mean over pairs of tasks of the total variation distance (1/2) sum |a - b| between their shares of
    failure modes: 1 when every task shows the same mixture, 0 when no two share a failure mode. With few
    episodes per task it stays below 1 by chance. ``"unknown"`` is ignored.

    Returns:
        0..1, or NaN with fewer than two tasks that have a known failure mode.
    """
    tables = [_shares(known) for names in names_by_task.values() if (known := _known(names))]
    if len(tables) < 2:
        return math.nan
    # A union of keys has no fixed order, so that a plain sum would differ in its last digit between processes.
    distances = [
        math.fsum(abs(a.get(name, 0.0) - b.get(name, 0.0)) for name in a.keys() | b.keys()) / 2
        for a, b in combinations(tables, 2)
    ]
    return 1.0 - sum(distances) / len(distances)


def policy_z_scores(
    values_by_policy: Mapping[str, Mapping[str, float]],
) -> dict[str, dict[str, float]]:
    """Return how many standard deviations each policy is above the mean of the policies.

    z = (x - mean) / sd with the sample standard deviation (n - 1) over the policies whose value is known. After the
    diagnosis figure of PRM-as-a-Judge, which turns the sign where lower is better.

    Args:
        values_by_policy: For each policy, its value of each metric; NaN or absent where unknown.

    Returns:
        The same policies, each with every metric; NaN where the value is unknown, where fewer than three
        policies have one, or where they do not differ.
    """
    metrics = list(dict.fromkeys(name for values in values_by_policy.values() for name in values))
    scores: dict[str, dict[str, float]] = {policy: {} for policy in values_by_policy}
    for metric in metrics:
        column = np.array([values.get(metric, math.nan) for values in values_by_policy.values()], dtype=float)
        known = column[~np.isnan(column)]
        spread = float(np.std(known, ddof=1)) if len(known) >= 3 else 0.0
        # Equal values may differ by rounding in their mean; that is not spread.
        flat = spread <= 1e-12 * max(1.0, float(np.abs(known).max(initial=0.0)))
        for policy, value in zip(values_by_policy, column, strict=True):
            scores[policy][metric] = math.nan if flat else float((value - known.mean()) / spread)
    return scores


def _known(names: Sequence[str]) -> list[str]:
    return [name for name in names if name != UNKNOWN_FAILURE_MODE]


def _shares(names: Sequence[str]) -> dict[str, float]:
    """Return the share of each name, in the order of the rules, then ``none`` and any other."""
    counts = Counter(names)
    order = [rule.name for rule in FAILURE_MODES]
    ordered = sorted(counts, key=lambda name: (order.index(name) if name in order else len(order), name))
    return {name: counts[name] / len(names) for name in ordered}
