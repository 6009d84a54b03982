"""The opening sentences of a report: which policy is best, and whether these rollouts show it.

They use the comparison of ``stepscore compare --by policy``: paired on shared scenes, or within a few fixed
scenes, which the first sentence then names; corrected over all pairs. A difference is stated if q < 0.05 and
it would remain if every unknown outcome went against it. Success is by label if every policy has labels, else
by the judge; without either, highest progress replaces it. The sentences say which.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from stepscore.analysis.comparison import GroupComparison, compare_groups
from stepscore.analysis.episode_metrics import EpisodeMetrics
from stepscore.analysis.estimates import episode_groups, policy_metrics
from stepscore.analysis.findings.phrases import (
    GETS_FURTHER,
    SUCCEEDS,
    Policy,
    begun,
    interval_text,
    later_ties,
    names,
    percent,
    plural,
    points,
    policy_name,
    rollouts_each,
    tier_sentences,
    tiers_of,
)
from stepscore.analysis.pooling import baseline_note, other_scenes_note, scope_text
from stepscore.metrics.stats import adjust_p_values, these_scenes
from stepscore.types import Estimate

ALPHA = 0.05
METRICS = ("success_label", "success_judge", "MP")
"""Metrics to compare policies on: the first that is known for each of them."""

BY_JUDGE = "By the judge, "

Pair = tuple[Policy, Policy]


@dataclass(frozen=True)
class Opening:
    """The opening of a report.

    Attributes:
        sentences: Which policy is best, and whether that is certain.
        notes: Limits of the sentences: the source of success, what is unknown, what so few rollouts can show.
        metric: ``success_label``, ``success_judge`` or ``MP``; empty if nothing is known.
        tiers: The policies, best first; every policy of a tier is shown to be better than those of later
            tiers.
    """

    sentences: tuple[str, ...]
    notes: tuple[str, ...] = ()
    metric: str = ""
    tiers: tuple[tuple[Policy, ...], ...] = ()
    estimates: Mapping[Policy, Estimate] | None = None
    comparisons: tuple[GroupComparison, ...] = ()

    @property
    def text(self) -> str:
        """Return sentences and notes in one paragraph."""
        return " ".join((*self.sentences, *self.notes))


def opening_sentences(metrics: EpisodeMetrics) -> Opening:
    """Return which policy is best, and whether these episodes show it."""
    found = _opening(policy_metrics(metrics))
    unseen = baseline_note(metrics.episodes)
    return replace(
        found,
        sentences=tuple(begun(sentence) for sentence in found.sentences),
        notes=tuple(dict.fromkeys([*([unseen] if unseen else ()), *map(begun, found.notes)])),
    )


def _opening(metrics: EpisodeMetrics) -> Opening:
    if not len(metrics):
        return Opening(("There are no rollouts yet.",))
    protocols = dict.fromkeys(row["protocol"] for row in metrics.episodes)
    if len(protocols) > 1:
        return _of_protocols(metrics, list(protocols))
    metric = _metric(metrics)
    if not metric:
        return Opening(
            (f"Nothing is known of {plural(len(metrics), 'rollout')}: no success and no progress.",)
        )
    if len(metrics) == 1:
        return _one_rollout(metrics, metric)
    return _of_policies(metrics, metric)


def _of_protocols(metrics: EpisodeMetrics, protocols: Sequence[str]) -> Opening:
    """Return the opening by label, which no protocol changes; without labels, one per protocol."""
    first = {(row["source"], row["episode_id"]): i for i, row in reversed(list(enumerate(metrics.episodes)))}
    once = metrics.select(np.isin(np.arange(len(metrics)), list(first.values())))
    if _metric(once) == "success_label":
        found = _of_policies(once, "success_label") if len(once) > 1 else _one_rollout(once, "success_label")
        note = f"The runs follow {len(protocols)} protocols; the labels are the same under each."
        return replace(found, notes=(*found.notes, note))
    parts = [
        (
            part := metrics.select(np.array([row["protocol"] == hash_ for row in metrics.episodes])),
            opening_sentences(part),
        )
        for hash_ in protocols
    ]
    sentences = [
        f"By {_judge_name(part)}: {found.sentences[0].removeprefix(BY_JUDGE)}" for part, found in parts
    ]
    note = (
        f"The runs follow {len(protocols)} protocols (judges, models or options), which are never averaged or "
        "compared with one another."
    )
    return Opening(tuple(sentences), (*dict.fromkeys(n for _, found in parts for n in found.notes), note))


def _judge_name(metrics: EpisodeMetrics) -> str:
    row = metrics.episodes[0]
    return " on ".join(filter(None, (row["judge"], row["model"])))


def _metric(metrics: EpisodeMetrics) -> str:
    """Return the first metric known for every policy, else the first known for any."""
    groups = [chosen for _, chosen in episode_groups(metrics, ("policy",))]
    known = {
        name: [bool(np.any(~np.isnan(metrics.values[name][chosen]))) for chosen in groups] for name in METRICS
    }
    everywhere = next((name for name in METRICS if all(known[name])), "")
    return everywhere or next((name for name in METRICS if any(known[name])), "")


def _one_rollout(metrics: EpisodeMetrics, metric: str) -> Opening:
    value, whose = float(metrics.values[metric][0]), policy_name(metrics.episodes[0]["policy"])
    if metric == "MP":
        sentence = f"One rollout, of {whose}: it reaches {percent(value)} of the task, by the judge."
    else:
        by = "label" if metric == "success_label" else "the judge"
        sentence = f"One rollout, of {whose}: it {'succeeded' if value else 'failed'}, by {by}."
    shows = "One rollout does not show how often the policy succeeds."
    return Opening((sentence, shows), tuple(_source_notes(metrics, metric)), metric)


def _of_policies(metrics: EpisodeMetrics, metric: str) -> Opening:
    lead: list[str] = []
    success = metrics.values[metric]
    if metric != "MP" and not np.any(success == 1) and np.any(~np.isnan(metrics.values["MP"])):
        by = "label" if metric == "success_label" else "the judge"
        n = int(np.sum(~np.isnan(success)))
        lead.append(f"None of {plural(n, 'rollout')} succeeds, by {by}.")
        metric = "MP"
    groups = {group["policy"]: chosen for group, chosen in episode_groups(metrics, ("policy",))}
    estimates = {policy: metrics.estimate(metric, chosen) for policy, chosen in groups.items()}
    known = {policy: e for policy, e in estimates.items() if e.n}
    notes = [*_source_notes(metrics, metric, succeeded=not lead), *_coverage_notes(metrics, metric, groups)]
    if len(known) == 1:
        ((policy, estimate),) = known.items()
        number = metrics.fixed_scenes(groups[policy])
        sentence = _one_policy(policy, estimate, metric, number)
        notes += [other_scenes_note(number)] if number else []
        return Opening((*lead, sentence), tuple(notes), metric, (tuple(known),), estimates)
    compared = compare_groups(metrics, ("policy",), names=[metric])
    why_not = next((c.why_not for c in compared if c.why_not), "")
    if why_not:
        refused = f"{BY_JUDGE}{names(list(known))} cannot be compared: {why_not}."
        return Opening((*lead, refused), tuple(notes), metric, (tuple(known),), estimates, tuple(compared))
    found, certain = _differences(metrics, metric, compared, groups)
    counts = {policy: e.n for policy, e in known.items()}
    order = sorted(known, key=lambda policy: (-known[policy].value, policy is None, policy or ""))
    verb = GETS_FURTHER if metric == "MP" else SUCCEEDS
    tiers = tiers_of(order, certain)
    numbers = {(c.a["policy"], c.b["policy"]): c.comparison.scenes for c in compared}
    where = scope_text(numbers.values())
    sentences = _by_judge(_ranked(tiers, certain, compared, counts, metric, where), metric)
    notes = [*notes, *later_ties(tiers, certain, counts, verb)]
    doubtful = [pair for pair in found if pair not in certain]
    if doubtful:
        listed = "; ".join(f"{policy_name(a)} {verb.one} than {policy_name(b)}" for a, b in doubtful[:3])
        notes.append(f"Among known outcomes {listed}: unknown ones could undo that.")
    notes += _could_show(tiers[0], compared, metric)
    notes += _other_scenes(numbers)
    return Opening((*lead, *sentences), tuple(notes), metric, tuple(tiers), estimates, tuple(compared))


def _other_scenes(numbers: Mapping[Pair, int]) -> list[str]:
    """Return which comparisons are about the tried scenes, and what it takes to generalise."""
    found = {number for number in numbers.values() if number}
    if not found:
        return []
    note = other_scenes_note(found.pop() if len(found) == 1 else 0)
    if all(numbers.values()):
        return [note]
    pairs = [f"{policy_name(a)} and {policy_name(b)}" for (a, b), number in numbers.items() if number]
    return [f"Compared on the scenes that both met: {'; '.join(pairs)}. {note}"]


def _ranked(
    tiers: Sequence[tuple[Policy, ...]],
    certain: Sequence[Pair],
    compared: Sequence[GroupComparison],
    counts: Mapping[Policy, int],
    metric: str,
    where: str,
) -> list[str]:
    """Return the sentences about policies in tiers, or that there are too few rollouts.

    The first sentence names the fixed scenes, if any: ``where``.
    """
    scope = f" {where}" if where else ""
    verb = GETS_FURTHER if metric == "MP" else SUCCEEDS
    if not certain and all(_too_few(c) for c in compared):
        each = rollouts_each(list(counts.values()))
        return [
            f"{names(tiers[0])} cannot be told apart{scope}: {each} are too few to show any difference, "
            "however large."
        ]
    first, *others = tier_sentences(tiers, certain, counts, verb)
    return [f"{first.removesuffix('.')}{scope}.", *others]


def _by_judge(sentences: list[str], metric: str) -> list[str]:
    """Say in the first sentence that success is the judge's verdict, unless it is by label."""
    return sentences if metric == "success_label" else [f"{BY_JUDGE}{sentences[0]}", *sentences[1:]]


def _one_policy(policy: Policy, e: Estimate, metric: str, scenes: int) -> str:
    where = f" {these_scenes(scenes)}" if scenes else ""
    if metric == "MP":
        reached = f"{policy_name(policy)} reaches {percent(e.value)} of the task on average"
        return f"{reached}{where} ({interval_text(e)})."
    by = "" if metric == "success_label" else ", by the judge"
    times = f"{round(e.value * e.n):,} of {plural(e.n, 'rollout')}"
    return f"{policy_name(policy)} succeeds in {times}{where}{by} ({interval_text(e)})."


def _differences(
    metrics: EpisodeMetrics,
    metric: str,
    compared: Sequence[GroupComparison],
    groups: Mapping[Policy, np.ndarray[Any, Any]],
) -> tuple[list[Pair], list[Pair]]:
    """Return the pairs (better, worse) shown among known outcomes, and those that no unknown outcome could undo."""
    found: list[Pair] = []
    p_values = []
    for c in compared:
        a, b = c.a["policy"], c.b["policy"]
        better, worse = (a, b) if c.comparison.difference.value > 0 else (b, a)
        shown = math.isfinite(c.q_value) and c.q_value < ALPHA
        if shown:
            found.append((better, worse))
        incomplete = shown and min(c.coverage_a, c.coverage_b) < 1
        p_values.append(
            _worst_case(metrics, metric, groups[better], groups[worse])
            if incomplete
            else c.comparison.p_value
        )
    worst = dict(
        zip([(c.a["policy"], c.b["policy"]) for c in compared], adjust_p_values(p_values), strict=True)
    )
    certain = [(a, b) for a, b in found if worst.get((a, b), worst.get((b, a), math.nan)) < ALPHA]
    return found, certain


def _worst_case(
    metrics: EpisodeMetrics, metric: str, better: np.ndarray[Any, Any], worse: np.ndarray[Any, Any]
) -> float:
    """Return the p-value if unknown outcomes were failures of the better policy and successes of the worse one."""
    values = metrics.values[metric].copy()
    unknown = np.isnan(values)
    values[unknown & better], values[unknown & worse] = 0.0, 1.0
    filled = replace(metrics, values={**metrics.values, metric: values})
    (c,) = compare_groups(filled.select(better | worse), ("policy",), names=[metric])
    first = metrics.episodes[int(np.flatnonzero(better)[0])]["policy"]
    ahead = c.comparison.difference.value * (1 if c.a["policy"] == first else -1)
    return c.comparison.p_value if ahead > 0 else 1.0


def _too_few(c: GroupComparison) -> bool:
    """Return whether not even the largest possible difference would be significant."""
    return c.comparison.least_p_value >= ALPHA


def _could_show(tier: tuple[Policy, ...], compared: Sequence[GroupComparison], metric: str) -> list[str]:
    """Return how large a difference would have to be, if policies of the first tier are not separated."""
    inside = [c for c in compared if c.a["policy"] in tier and c.b["policy"] in tier]
    least = [c.comparison.smallest_detectable_difference for c in inside if not _too_few(c)]
    known = [size for size in least if math.isfinite(size) and size <= 1]
    if not known:
        return []
    what = "of highest progress" if metric == "MP" else "of success"
    return [f"A difference {what} under about {points(max(known))} points would mostly not show."]


def _source_notes(metrics: EpisodeMetrics, metric: str, *, succeeded: bool = True) -> list[str]:
    """Return the source of success, unless every policy has labels."""
    if metric == "success_label":
        return []
    labelled = np.any(~np.isnan(metrics.values["success_label"]))
    if metric == "MP":
        calibrated = {row["calibrated"] for row in metrics.episodes} - {None}
        state = "" if calibrated == {True} else ", which is uncalibrated"
        unknown = "No success is known, by label or by judge. " if succeeded else ""
        return [f"{unknown}Compared on the highest progress (MP) that the judge gives{state}."]
    missing = "Not every policy has labels of success" if labelled else "There are no labels of success"
    rule = metrics.success_name.partition(", ")[2]
    said = f" ({rule})" if rule else ""
    return [f"{missing}: success is the judge's verdict{said}."]


def _coverage_notes(
    metrics: EpisodeMetrics, metric: str, groups: Mapping[Policy, np.ndarray[Any, Any]]
) -> list[str]:
    """Return how many rollouts of each policy have an unknown outcome."""
    missing = {p: int(np.sum(np.isnan(metrics.values[metric][inside]))) for p, inside in groups.items()}
    parts = [
        f"{n:,} of {int(groups[policy].sum()):,} of {policy_name(policy)}"
        for policy, n in missing.items()
        if n
    ]
    if not parts:
        return []
    what = "Progress" if metric == "MP" else "The outcome"
    listed = "; ".join(parts[:4]) + ("; …" if len(parts) > 4 else "")
    return [f"{what} is unknown in {listed}: counted for no one."]
