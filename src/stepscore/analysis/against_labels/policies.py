"""Which policies a judge favours, and whether it ranks them as labels do.

A judge that makes the same errors on every policy does not change their ranking. The *differential error*
measures the rest: the judge's success rate minus the label's, of one policy minus that of another, over the
episodes that have both; likewise for the final progress, if labelled.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import combinations
from typing import Any, Literal

import numpy as np

from stepscore._progress import track
from stepscore.analysis.against_labels.curves import level_estimate
from stepscore.analysis.episode_metrics import EpisodeMetrics, measure_episodes, task_of
from stepscore.analysis.estimates import Group, GroupEstimate, episode_groups
from stepscore.analysis.table_rows import EpisodeRow
from stepscore.metrics import PolicyRanking, rank_policies
from stepscore.metrics.stats import adjust_p_values, compare_errors, error_estimate, rate_estimate
from stepscore.runs import Run
from stepscore.types import Estimate, FloatArray

ALPHA = 0.05
Quantity = Literal["success", "progress"]


@dataclass(frozen=True)
class PolicyError:
    """A judge's success rate, or mean final progress, of one policy, and the same by label.

    Attributes:
        error: By judge minus by label, -1..1; above 0 the judge is too lenient.
    """

    policy: str
    by_judge: Estimate
    by_label: Estimate
    error: Estimate


@dataclass(frozen=True)
class PolicyDifference:
    """How much more lenient a judge is to one policy than to another, against labels.

    Attributes:
        difference: Error on ``favoured`` minus error on ``other``; paired on shared scenes.
        p_value: Two-sided; at most 0.05 exactly if the interval of the difference excludes 0.
        q_value: Adjusted for all ``pairs`` of policies.
    """

    favoured: str
    other: str
    difference: Estimate
    p_value: float
    q_value: float
    pairs: int = 1

    @property
    def flagged(self) -> bool:
        """Whether the judge favours the policy significantly."""
        return self.q_value < ALPHA

    def sentence(self, quantity: Quantity) -> str:
        """Return it as a sentence about the judge's success verdicts or its final progress."""
        d, who = self.difference, f"{self.favoured} over {self.other}"
        amount = f"{100 * d.value:.1f} points{_interval(d)}"
        subject = {"success": "The judge", "progress": "The judge's final progress"}[quantity]
        if self.flagged:
            return f"{subject} favours {who} by {amount} against the labels."
        where = {"success": "", "progress": " by its final progress"}[quantity]
        return (
            f"No policy is shown to be favoured{where}: the largest difference is {amount} ({who}), "
            f"{self._chance()}."
        )

    def _chance(self) -> str:
        """Return the p-value of the interval, and the one adjusted for all pairs of policies."""
        if math.isnan(self.p_value) or self.pairs == 1:
            return f"p {_p(self.p_value)}"
        return f"p {_p(self.p_value)}, adjusted for {self.pairs} pairs of policies q {_p(self.q_value)}"


@dataclass(frozen=True)
class PolicyAgreement:
    """A judge against labels, policy by policy.

    Attributes:
        differences: Of every pair of policies, the largest first.
        group: The fields that the episodes share; empty for all.
    """

    judge: str
    errors: tuple[PolicyError, ...]
    differences: tuple[PolicyDifference, ...]
    ranking: PolicyRanking
    quantity: Quantity = "success"
    group: Group = field(default_factory=dict)

    @property
    def flagged(self) -> tuple[PolicyDifference, ...]:
        """Pairs of policies of which the judge favours one significantly."""
        return tuple(one for one in self.differences if one.flagged)

    @property
    def sentences(self) -> tuple[str, ...]:
        """Return whom the judge favours, and whether it ranks the policies as the labels do."""
        found = self.flagged or self.differences[:1]
        where = ", ".join("unknown" if part is None else part for part in self.group.values())
        said = [
            *(one.sentence(self.quantity) for one in found),
            _ranking_sentence(self.ranking, self.quantity),
        ]
        return tuple(f"{where}: {text}" for text in said) if where else tuple(said)

    def rows(self) -> Iterator[GroupEstimate]:
        """Iterate over every number as a row of ``metrics --json``."""
        of = "" if self.quantity == "success" else " of progress"
        for one in self.errors:
            group = {"judge": self.judge, **self.group, "policy": one.policy}
            yield GroupEstimate(group, f"judge:{self.quantity} by judge", one.by_judge)
            yield GroupEstimate(group, f"judge:{self.quantity} by label", one.by_label)
            yield GroupEstimate(group, f"judge:error{of}", one.error)
        for pair in self.differences:
            group = {"judge": self.judge, **self.group, "policy": pair.favoured, "against": pair.other}
            yield GroupEstimate(group, f"judge:differential error{of}", pair.difference)
        everyone = {"judge": self.judge, **self.group}
        yield GroupEstimate(everyone, f"judge:tau of the policy ranking{of}", self.ranking.tau)
        yield GroupEstimate(everyone, f"judge:same best policy{of}", self.ranking.same_best)
        yield GroupEstimate(everyone, f"judge:same policy ranking{of}", self.ranking.same_order)


def policy_agreement(judge: str, metrics: EpisodeMetrics, by: Sequence[str] = ()) -> list[PolicyAgreement]:
    """Compare a judge with labels by policy; empty unless two policies have answers and labels.

    Groups are those of :func:`stepscore.analysis.grouped_estimates`, without policy.
    """
    groups = list(episode_groups(metrics, [name for name in by if name != "policy"]))
    found = []
    quantities = _quantities(metrics)
    for quantity, (answers, labels) in track(quantities.items(), "Policies against labels", len(quantities)):
        known = ~np.isnan(answers + labels) & np.array(
            [row["policy"] is not None for row in metrics.episodes]
        )
        for group, chosen in groups:
            inside = known & chosen
            rows = [metrics.episodes[i] for i in np.flatnonzero(inside)]
            one = _agreement(judge, quantity, rows, answers[inside], labels[inside])
            found += [] if one is None else [replace(one, group=group)]
    return found


def _quantities(metrics: EpisodeMetrics) -> dict[Quantity, tuple[FloatArray, FloatArray]]:
    """Return success and final progress, each by judge and by label."""
    judged, labelled = np.full(len(metrics), np.nan), np.full(len(metrics), np.nan)
    for i, (row, (times, progress)) in enumerate(zip(metrics.episodes, metrics.curves, strict=True)):
        if len(times) and row["truth"].source is not None:
            judged[i], labelled[i] = progress[-1], row["truth"].at(times[-1:])[0]
    return {
        "success": (metrics.values["success_judge"], metrics.values["success_label"]),
        "progress": (judged, labelled),
    }


def _agreement(
    judge: str, quantity: Quantity, rows: Sequence[EpisodeRow], answers: FloatArray, labels: FloatArray
) -> PolicyAgreement | None:
    ranking = rank_policies(
        [str(row["policy"]) for row in rows],
        answers,
        labels,
        clusters=[row["pair"] for row in rows],
        strata=[task_of(row) for row in rows],
    )
    if ranking is None:
        return None
    errors = tuple(_error(name, rows, answers, labels, quantity) for name in ranking.policies)
    differences = _differences(ranking.policies, rows, answers - labels, quantity)
    return PolicyAgreement(judge, errors, differences, ranking, quantity)


def policies_by_protocol(
    runs: Sequence[Run],
    by: Sequence[str] = (),
    *,
    held_out: bool = False,
    measured: Sequence[EpisodeMetrics] | None = None,
    only: Collection[str] | None = None,
) -> tuple[PolicyAgreement, ...]:
    """Return whom each judge favours; runs of one protocol are combined.

    Args:
        held_out: Leave out the episodes that a calibration map was fitted on.
        measured: Metrics of each run, if already measured.
        only: Ids of the episodes to compare; all by default.
    """
    together: dict[str, list[int]] = {}
    for place, run in enumerate(runs):
        together.setdefault(run.protocol.hash, []).append(place)
    found: list[PolicyAgreement] = []
    for places in together.values():
        if measured is not None and len(places) == 1:
            metrics = measured[places[0]]
        else:
            metrics = measure_episodes([runs[place] for place in places], held_out=held_out)
        if only is not None:
            chosen = [row["episode_id"] in only for row in metrics.episodes]
            metrics = metrics.select(np.array(chosen, dtype=bool))
        found += policy_agreement(runs[places[0]].judge, metrics, by)
    return tuple(found)


def _error(
    policy: str, rows: Sequence[EpisodeRow], answers: FloatArray, labels: FloatArray, quantity: Quantity
) -> PolicyError:
    own = np.array([row["policy"] == policy for row in rows])
    members = [row for row, one in zip(rows, own, strict=True) if one]
    groups: dict[str, Any] = {
        "clusters": [row["pair"] for row in members],
        "strata": [task_of(row) for row in members],
    }
    judged, labelled = answers[own], labels[own]
    gaps = judged - labelled
    if quantity == "progress":
        return PolicyError(policy, *(level_estimate(values, groups) for values in (judged, labelled, gaps)))
    error = error_estimate(gaps, **groups)
    return PolicyError(policy, rate_estimate(judged, **groups), rate_estimate(labelled, **groups), error)


def _differences(
    policies: Sequence[str], rows: Sequence[EpisodeRow], gaps: FloatArray, quantity: Quantity
) -> tuple[PolicyDifference, ...]:
    places = {name: [i for i, row in enumerate(rows) if row["policy"] == name] for name in policies}
    keys = [None if row["pair"] is None else (task_of(row), row["pair"]) for row in rows]
    found = []
    for pair in combinations(policies, 2):
        first, second = pair if gaps[places[pair[0]]].mean() >= gaps[places[pair[1]]].mean() else pair[::-1]
        a, b = places[first], places[second]
        difference, test = compare_errors(
            gaps[a],
            gaps[b],
            keys=([keys[i] for i in a], [keys[i] for i in b]),
            strata=([task_of(rows[i]) for i in a], [task_of(rows[i]) for i in b]),
            clusters=([rows[i]["pair"] for i in a], [rows[i]["pair"] for i in b]),
            of_answers=quantity == "success",
        )
        found.append((first, second, difference, test.p_value))
    q_values = adjust_p_values([p for *_, p in found])
    differences = [
        PolicyDifference(a, b, difference, p, float(q), len(found))
        for (a, b, difference, p), q in zip(found, q_values, strict=True)
    ]
    return tuple(sorted(differences, key=lambda one: -np.nan_to_num(one.difference.value, nan=-2.0)))


def _ranking_sentence(ranking: PolicyRanking, quantity: Quantity) -> str:
    by_label, by_judge = (
        " > ".join(" = ".join(tied) for tied in ranking.order(rates))
        for rates in (ranking.by_label, ranking.by_judge)
    )
    sure = ranking.same_best
    often = "" if np.isnan(sure.value) else f"; the best is the same in {100 * sure.value:.0f} % of resamples"
    tau = "" if np.isnan(ranking.tau.value) else f" (tau {ranking.tau.value:.2f}{_bounds(ranking.tau)})"
    subject = {"success": "The judge", "progress": "Its final progress"}[quantity]
    if ranking.equal:
        return f"{subject} ranks the policies as the labels do: {by_label}{tau}{often}."
    return f"{subject} ranks the policies otherwise than the labels: {by_judge}, by label {by_label}{tau}{often}."


def _interval(estimate: Estimate) -> str:
    if np.isnan(estimate.lo):
        return f" (n {estimate.n}, no interval: {estimate.method})"
    lo, hi = (round(100 * end, 1) + 0.0 for end in (estimate.lo, estimate.hi))  # no -0.0
    return f" [{lo:.1f}, {hi:.1f}]"


def _bounds(estimate: Estimate) -> str:
    return "" if np.isnan(estimate.lo) else f" [{estimate.lo:.2f}, {estimate.hi:.2f}]"


def _p(value: float) -> str:
    if np.isnan(value):
        return "unknown"
    # Rounded up to 0.05, it would contradict an interval that excludes 0; and down to it, one that does not.
    return f"{value:.3f}" if round(value, 2) == ALPHA else f"{value:.2f}"
