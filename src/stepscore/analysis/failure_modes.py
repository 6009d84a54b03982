"""How each policy fails: fingerprints of its episodes, how they hold across tasks, and how policies compare.

Success is taken from labels where there are any, else from the judge; ``source`` says which.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from stepscore.analysis.measures import EpisodeMetrics, GroupEstimate
from stepscore.metrics import (
    NO_FAILURE_MODE,
    UNKNOWN_FAILURE_MODE,
    FailureMode,
    failure_mode,
    failure_mode_advice,
    policy_z_scores,
    summarize_failure_modes,
)
from stepscore.types import Estimate

COMPARED = ("MC50", "MC75", "MP", "PPL", "CRA", "STR")
"""Metrics whose mean among failures is compared over policies."""


@dataclass(frozen=True)
class PolicyFailureModes:
    """How one policy fails.

    Attributes:
        policy: Its name; ``None`` for episodes whose policy is unknown.
        failures: Failed episodes.
        shares: Share of each mechanism among the failures, with its interval.
        stability: How alike its tasks are in that, 0..1; NaN with fewer than two tasks.
        inefficient: Share of its successes that came by detours.
        advice: What to look at first, for its commonest mechanism.
    """

    policy: str | None
    failures: int
    shares: Mapping[str, Estimate]
    stability: float
    inefficient: Estimate
    advice: str


@dataclass(frozen=True)
class FailureModes:
    """How policies fail.

    Attributes:
        source: Where success is from, ``"label"`` or ``"judge"``.
        fingerprints: One an episode, in the order of the measures.
        policies: One a policy.
        z_scores: Policy to metric to z-score among failures, better upwards; NaN under three policies.
    """

    source: Literal["label", "judge"]
    fingerprints: tuple[FailureMode, ...]
    policies: tuple[PolicyFailureModes, ...]
    z_scores: Mapping[str | None, Mapping[str, float]]

    def rows(self) -> list[dict[str, Any]]:
        """As rows of ``metrics --json``."""
        found = []
        for policy in self.policies:
            group = {"policy": policy.policy}
            named = [(f"fingerprint:{name}|failure:{self.source}", e) for name, e in policy.shares.items()]
            named.append((f"fingerprint:inefficient success|success:{self.source}", policy.inefficient))
            found += [GroupEstimate(group, name, estimate).row() for name, estimate in named]
        return found


def failure_modes_by_policy(measures: EpisodeMetrics) -> FailureModes:
    """Fingerprints of every episode and of every policy."""
    source: Literal["label", "judge"] = (
        "label" if np.any(~np.isnan(measures.values["success_label"])) else "judge"
    )
    success = measures.values[f"success_{source}"]
    prints = tuple(
        failure_mode(values, times, success=None if np.isnan(known) else bool(known))
        for (times, values), known in zip(measures.curves, success, strict=True)
    )
    members: dict[str | None, list[int]] = defaultdict(list)
    for i, row in enumerate(measures.episodes):
        members[row["policy"]].append(i)
    order = sorted(members, key=lambda policy: (policy is None, policy or ""))
    policies = tuple(_policy(policy, members[policy], prints, success, measures) for policy in order)
    failed_means = {p: _failed_means(members[p], success, measures) for p in order}
    scores = policy_z_scores({str(p): means for p, means in failed_means.items()})
    return FailureModes(source, prints, policies, {p: scores[str(p)] for p in order})


def _policy(
    policy: str | None,
    members: list[int],
    prints: tuple[FailureMode, ...],
    success: np.ndarray[Any, Any],
    measures: EpisodeMetrics,
) -> PolicyFailureModes:
    failed = [i for i in members if success[i] == 0]
    by_task: dict[str, list[str]] = defaultdict(list)
    for i in failed:
        by_task[str(measures.episodes[i]["task"] or measures.episodes[i]["instruction"])].append(
            prints[i].name
        )
    found = summarize_failure_modes(by_task)
    common = max(
        (name for name in found.shares if name != NO_FAILURE_MODE),
        key=found.shares.__getitem__,
        default=NO_FAILURE_MODE,
    )
    return PolicyFailureModes(
        policy,
        len(failed),
        {name: _share(name, failed, prints, measures) for name in found.shares},
        found.stability,
        _share("inefficient success", [i for i in members if success[i] == 1], prints, measures),
        failure_mode_advice(common if found.episodes else UNKNOWN_FAILURE_MODE) if failed else "",
    )


def _share(
    name: str, chosen: list[int], prints: tuple[FailureMode, ...], measures: EpisodeMetrics
) -> Estimate:
    known = [
        np.nan if prints[i].name == UNKNOWN_FAILURE_MODE else float(prints[i].name == name) for i in chosen
    ]
    return measures.rate(np.array(known), chosen)


def _failed_means(
    members: list[int], success: np.ndarray[Any, Any], measures: EpisodeMetrics
) -> dict[str, float]:
    failed = [i for i in members if success[i] == 0]
    means = {}
    for name in COMPARED:
        known = measures.values[name][failed]
        known = known[~np.isnan(known)]
        means[name] = float(np.mean(known)) if len(known) else np.nan
    return means
