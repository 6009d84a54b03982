"""Where each policy fails first, in one short phrase: the subgoal that is missed, or how the work is lost."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from stepscore.analysis.episode_metrics import EpisodeMetrics
from stepscore.analysis.failure_modes import FailureModes, failure_modes_by_policy
from stepscore.analysis.findings.funnel import SubgoalRows, subgoal_rows
from stepscore.analysis.findings.phrases import plural
from stepscore.metrics import FAILURE_MODES, UNKNOWN_FAILURE_MODE, first_failed_subgoal
from stepscore.runs import Run

MOST_NAMED = 2
"""Subgoals that a phrase names."""

ORDINALS = ("first", "second", "third", "fourth", "fifth", "sixth", "seventh", "eighth", "ninth", "tenth")

LOST = ("object lost", "undone at the end")
"""Failure modes in which what was reached is lost again: the subgoal that is missing does not show that."""
PHRASES = {rule.name: rule.name for rule in FAILURE_MODES} | {
    UNKNOWN_FAILURE_MODE: "fails, and its curves do not show how",
}
"""A failure mode is its own phrase, so that tables, the page and the demo use the same words."""


@dataclass(frozen=True)
class FirstFailure:
    """Where one policy fails first.

    Attributes:
        policy: Its name; ``None`` for episodes whose policy is unknown.
        phrase: E.g. ``misses the last subgoal in 5 of 8, the first subgoal in 3``.
        source: What it rests on: verdicts on subgoals by ``label`` or ``judge``, or the failure ``modes`` of curves.
        n: Episodes whose outcome is known.
        counts: Subgoal, or failure mode, to the episodes that fail there first.
    """

    policy: str | None
    phrase: str
    source: Literal["label", "judge", "modes"]
    n: int
    counts: dict[str, int]


def first_failures(
    runs: Run | Sequence[Run], metrics: EpisodeMetrics, modes: FailureModes | None = None
) -> tuple[FirstFailure, ...]:
    """Return where each policy fails first, the policies in the order of their names, unknown last.

    Args:
        runs: The runs of one protocol.
        metrics: Of these runs, each episode once.
        modes: Their failure modes, where they are known already.
    """
    found = failure_modes_by_policy(metrics) if modes is None else modes
    verdicts = subgoal_rows(runs, metrics)
    by_policy: dict[str | None, Counter[str]] = defaultdict(Counter)
    known: Counter[str | None] = Counter()
    success = metrics.values[f"success_{found.source}"]
    for row, mode, succeeded in zip(metrics.episodes, found.by_episode, success, strict=True):
        known[row["policy"]] += not np.isnan(succeeded)
        if succeeded == 0:
            by_policy[row["policy"]][mode.name] += 1
    return tuple(
        _of_policy(
            one.policy,
            verdicts.get(one.policy),
            by_policy[one.policy],
            known[one.policy],
            unseen=bool(found.unseen),
        )
        for one in found.policies
    )


def _of_policy(
    policy: str | None, verdicts: SubgoalRows | None, modes: Counter[str], known: int, *, unseen: bool
) -> FirstFailure:
    common = modes.most_common(1)[0] if modes else ("", 0)
    lost = common[0] in LOST and 2 * common[1] > sum(modes.values())
    if verdicts is None and unseen:
        phrase = f"fails in {modes.total()} of {known}" if modes else _by_modes(modes, known)
        return FirstFailure(policy, phrase, "label", known, {})
    if verdicts is None:
        return FirstFailure(policy, _by_modes(modes, known), "modes", known, dict(modes))
    counts, n, unknown = _missed(verdicts)
    phrase = _by_subgoals(counts, n, unknown)
    if lost and counts:
        goal = counts.most_common(1)[0][0]
        phrase = f"{PHRASES[common[0]]} in {common[1]} of {known}, missing {goal}"
    return FirstFailure(policy, phrase, verdicts.source, n, dict(counts))


def _missed(verdicts: SubgoalRows) -> tuple[Counter[str], int, int]:
    """Return how often each subgoal is missed first, and in how many episodes that is known and unknown."""
    missed: dict[str, list[str]] = defaultdict(list)
    n = unknown = 0
    for goals, values in verdicts.rows:
        at = float(first_failed_subgoal(values[None, :])[0])
        if np.isnan(at):
            unknown += 1
            continue
        n += 1
        if at < len(goals):
            missed[_place(int(at), len(goals))].append(goals[int(at)])
    # A place in the order is named by its subgoal where there is only one there.
    counts = Counter(
        {f"“{goals[0]}”" if len(set(goals)) == 1 else place: len(goals) for place, goals in missed.items()}
    )
    return counts, n, unknown


def _place(at: int, length: int) -> str:
    if at == length - 1:
        return "the last subgoal" if length > 1 else "the only subgoal"
    return f"the {ORDINALS[at]} subgoal" if at < len(ORDINALS) else f"subgoal {at + 1}"


def _by_subgoals(counts: Counter[str], n: int, unknown: int) -> str:
    more = f" ({unknown} unknown)" if unknown else ""
    if not n:
        return "no verdict on its subgoals is known"
    if not counts:
        return (
            f"reaches every subgoal in {plural(n, 'rollout')}{more}" if unknown else "reaches every subgoal"
        )
    first, *others = counts.most_common(MOST_NAMED)
    phrase = f"misses {first[0]} in {first[1]} of {n}"
    for goal, count in others:
        phrase += f", {goal} in {count}"
    return phrase + more


def _by_modes(modes: Counter[str], known: int) -> str:
    if not known:
        return "no outcome is known"
    if not modes:
        return f"no failure in {plural(known, 'rollout')}"
    (name, count), *others = modes.most_common(MOST_NAMED)
    phrase = f"{PHRASES[name]} in {count} of {known}"
    return phrase + (f"; {PHRASES[others[0][0]]} in {others[0][1]}" if others else "")
