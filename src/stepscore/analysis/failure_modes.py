"""How each policy fails: the failure modes of its episodes, across tasks, and compared with other policies.

Success is taken from labels where there are any, else from the judge; ``source`` says which.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from stepscore._progress import track
from stepscore.analysis.episode_metrics import EpisodeMetrics, task_of
from stepscore.analysis.estimates import GroupEstimate, policy_metrics
from stepscore.analysis.pooling import baseline_note, is_baseline
from stepscore.analysis.table_rows import EpisodeRow
from stepscore.metrics import (
    NO_FAILURE_MODE,
    UNKNOWN_FAILURE_MODE,
    FailureMode,
    SubgoalEvidence,
    done_time,
    failure_mode,
    failure_mode_advice,
    policy_z_scores,
    summarize_failure_modes,
)
from stepscore.types import Estimate, FloatArray

COMPARED_AMONG_FAILURES = ("MC50", "MC75", "MP", "PPL", "CRA", "STR")
"""Metrics whose mean among failures is compared over policies."""
ENOUGH = 4
"""Successes of a task from which its usual time is known."""


@dataclass(frozen=True)
class PolicyFailureModes:
    """The failure modes of one policy.

    Attributes:
        policy: Its name; ``None`` for episodes whose policy is unknown.
        failures: Number of failed episodes.
        shares: Failure mode to its share among the failures, 0 of a mode that only other policies' failures have;
            empty where no failure has a known mode.
        stability: Similarity of these shares over its tasks, 0..1; NaN with fewer than two tasks.
        slow: Share of its successes that were too slow.
        advice: What to look at first, for its most common failure mode; empty without a failure.
        successes: Number of successful episodes.
    """

    policy: str | None
    failures: int
    shares: Mapping[str, Estimate]
    stability: float
    slow: Estimate
    advice: str
    successes: int = 0


@dataclass(frozen=True)
class FailureModes:
    """The failure modes of episodes and of policies.

    Attributes:
        source: Where success is from, ``"label"`` or ``"judge"``.
        by_episode: One per episode, in the order of ``EpisodeMetrics.episodes``.
        policies: One per policy, unknown last.
        z_scores: Policy to metric to z-score of its mean among failures; NaN with fewer than
            three policies.
        unseen: Why no mode is known, where the judge looked at no frame; else empty.
    """

    source: Literal["label", "judge"]
    by_episode: tuple[FailureMode, ...]
    policies: tuple[PolicyFailureModes, ...]
    z_scores: Mapping[str | None, Mapping[str, float]]
    unseen: str = ""

    def to_dicts(self) -> list[dict[str, Any]]:
        """Return rows of ``metrics --json``."""
        rows = []
        for policy in self.policies:
            group = {"policy": policy.policy}
            named = [(f"fingerprint:{name}|failure:{self.source}", e) for name, e in policy.shares.items()]
            named.append((f"fingerprint:too slow|success:{self.source}", policy.slow))
            rows += [GroupEstimate(group, name, estimate).to_dict() for name, estimate in named]
        return rows


def failure_modes_by_policy(metrics: EpisodeMetrics) -> FailureModes:
    """Find the failure mode of every episode, and their shares by policy.

    No mode is known of an episode that a baseline judged: see :func:`policy_metrics`.
    """
    metrics = policy_metrics(metrics)
    source: Literal["label", "judge"] = (
        "label" if np.any(~np.isnan(metrics.values["success_label"])) else "judge"
    )
    success = metrics.values[f"success_{source}"]
    usual = _usual_times(metrics, success)
    modes = tuple(
        failure_mode(
            values,
            times,
            success=None if np.isnan(known) else bool(known),
            subgoals=subgoal_evidence(row),
            usual_s=usual.get(task_of(row), np.nan),
        )
        for row, (times, values), known in track(
            zip(metrics.episodes, metrics.curves, success, strict=True), "Finding failure modes", len(metrics)
        )
    )
    members: dict[str | None, list[int]] = defaultdict(list)
    for i, row in enumerate(metrics.episodes):
        members[row["policy"]].append(i)
    order = sorted(members, key=lambda policy: (policy is None, policy or ""))
    # Of all policies: a mode that only the others' failures have is a share of 0, not an unknown one.
    names = list(summarize_failure_modes({"": [modes[i].name for i in np.flatnonzero(success == 0)]}).shares)
    policies = tuple(
        _policy(policy, members[policy], names, modes, success, metrics)
        for policy in track(order, "Failure modes by policy", len(order))
    )
    failed_means = {p: _failed_means(members[p], success, metrics) for p in order}
    scores = policy_z_scores({str(p): means for p, means in failed_means.items()})
    unseen = baseline_note(metrics.episodes) if all(map(is_baseline, metrics.episodes)) else ""
    return FailureModes(source, modes, policies, {p: scores[str(p)] for p in order}, unseen)


def subgoal_evidence(row: EpisodeRow) -> SubgoalEvidence:
    """Return what an episode's labels say of its subgoals: how many, the furthest reached, the furthest kept."""
    labels = [goal["label"] for goal in row["subgoals"]]
    known = bool(labels) and None not in labels
    reached = max((n for n, label in enumerate(labels, 1) if label), default=0) if known else None
    procedure = row["truth"].procedure if "truth" in row else ()
    stages = [name for name, *_ in row["truth"].stages] if "truth" in row else []
    # Stages from elsewhere than the procedure, such as another source of labels, say nothing of its steps.
    if not stages or len(procedure) != len(labels) or not set(stages) <= set(procedure):
        return SubgoalEvidence(len(labels) or None, reached)
    places = [procedure.index(name) for name in stages]
    # The stage that is being worked on is the first one that is not done.
    return SubgoalEvidence(len(labels), max(*places, reached or 0), places[-1])


def _usual_times(metrics: EpisodeMetrics, success: FloatArray) -> dict[str, float]:
    """Return the time of each task's faster successes, their lower quartile, where it has enough of them."""
    times: dict[str, list[float]] = defaultdict(list)
    for row, (clock, values), known in zip(metrics.episodes, metrics.curves, success, strict=True):
        if known == 1 and len(values):
            times[task_of(row)].append(done_time(values, clock))
    found = {task: [time for time in each if time > 0] for task, each in times.items()}
    return {task: float(np.quantile(each, 0.25)) for task, each in found.items() if len(each) >= ENOUGH}


def _policy(
    policy: str | None,
    members: list[int],
    names: list[str],
    modes: tuple[FailureMode, ...],
    success: np.ndarray[Any, Any],
    metrics: EpisodeMetrics,
) -> PolicyFailureModes:
    failed = [i for i in members if success[i] == 0]
    succeeded = [i for i in members if success[i] == 1]
    by_task: dict[str, list[str]] = defaultdict(list)
    for i in failed:
        by_task[task_of(metrics.episodes[i])].append(modes[i].name)
    summary = summarize_failure_modes(by_task)
    common = max(
        (name for name in summary.shares if name != NO_FAILURE_MODE),
        key=summary.shares.__getitem__,
        default=NO_FAILURE_MODE,
    )
    return PolicyFailureModes(
        policy,
        len(failed),
        {name: _share(name, failed, modes, metrics, members) for name in names if summary.episodes},
        summary.stability,
        _share("too slow", succeeded, modes, metrics, members),
        failure_mode_advice(common if summary.episodes else UNKNOWN_FAILURE_MODE) if failed else "",
        len(succeeded),
    )


def _share(
    name: str, chosen: list[int], modes: tuple[FailureMode, ...], metrics: EpisodeMetrics, members: list[int]
) -> Estimate:
    known = [
        np.nan if modes[i].name == UNKNOWN_FAILURE_MODE else float(modes[i].name == name) for i in chosen
    ]
    return metrics.rate(np.array(known), chosen, members)


def _failed_means(
    members: list[int], success: np.ndarray[Any, Any], metrics: EpisodeMetrics
) -> dict[str, float]:
    failed = [i for i in members if success[i] == 0]
    means = {}
    for name in COMPARED_AMONG_FAILURES:
        known = metrics.values[name][failed]
        known = known[~np.isnan(known)]
        means[name] = float(np.mean(known)) if len(known) else np.nan
    return means
