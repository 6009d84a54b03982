"""Comparisons between groups of a run, or between two runs, metric by metric.

Groups of one run (policies, tasks) are paired on task and scene if both met the same scenes; fewer than ten
scenes with repeated trials are fixed, and compared within. Two runs over the same episodes (two judges) are
paired on the episode. p-values are corrected over all comparisons made together (Benjamini-Hochberg).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import combinations
from typing import Any

import numpy as np

from stepscore._options import DEFAULT_REVISION
from stepscore._progress import track
from stepscore.analysis.episode_metrics import EpisodeMetrics, scene_of, task_of
from stepscore.analysis.estimates import Group, episode_groups
from stepscore.analysis.pooling import fixed_in_both
from stepscore.analysis.success_verdict import BY_PROBABILITY
from stepscore.analysis.table_rows import EpisodeRow
from stepscore.errors import OptionError
from stepscore.metrics import registered_columns
from stepscore.metrics.stats import (
    Comparison,
    adjust_p_values,
    compare_samples,
    compare_within_scenes,
    these_scenes,
)
from stepscore.types import Estimate, FloatArray

COMPARED_METRICS = ("success_label", "success_judge", "MC50", "MC100", "MP", "PPL", "CRA", "STR", "VOC")
"""Built-in metrics that :func:`stepscore.compare` and ``stepscore compare`` compare by default."""


def compared_metrics(metrics: EpisodeMetrics) -> list[str]:
    """Return the default metrics to compare: the main built-in ones and all registered ones."""
    known = {column.name for column in metrics.columns}
    return [name for name in (*COMPARED_METRICS, *registered_columns()) if name in known]


JUDGE_KEYS = {"judge", "model", "protocol"}
"""Groupings in which two groups can hold the same episodes."""


@dataclass(frozen=True)
class GroupComparison:
    """One metric of group A compared with that of group B.

    Attributes:
        a: The fields that A's episodes share.
        q_value: The p-value corrected over all comparisons made together.
        better: Whether ``"higher"`` or ``"lower"`` values are better, or ``"neither"``.
        coverage_a: Share of A's episodes whose value is known.
        why_not: Why there is no difference; empty if there is one.
    """

    metric: str
    a: Group
    b: Group
    comparison: Comparison
    q_value: float
    better: str
    coverage_a: float = 1.0
    coverage_b: float = 1.0
    revision: str = DEFAULT_REVISION
    why_not: str = ""

    def to_dict(self) -> dict[str, Any]:
        """Return a row of ``compare --json``."""
        c = self.comparison
        return {
            "metric": self.metric,
            "a": dict(self.a),
            "b": dict(self.b),
            "difference": c.difference.value,
            "lo": c.difference.lo,
            "hi": c.difference.hi,
            "n": c.difference.n,
            "clusters": c.difference.clusters,
            "coverage": c.difference.coverage,
            "method": c.difference.method,
            "fixed_scenes": c.scenes,
            "n_a": c.n_a,
            "n_b": c.n_b,
            "coverage_a": self.coverage_a,
            "coverage_b": self.coverage_b,
            "paired": c.paired,
            "test": c.test,
            "p_value": c.p_value,
            "caution": c.caution,
            "q_value": self.q_value,
            "probability_of_improvement": c.probability_of_improvement.value,
            "probability_lo": c.probability_of_improvement.lo,
            "probability_hi": c.probability_of_improvement.hi,
            "smallest_detectable_difference": c.smallest_detectable_difference,
            "revision": self.revision,
            **({"why_not": self.why_not} if self.why_not else {}),
        }


def compare_groups(
    metrics: EpisodeMetrics,
    by: Sequence[str],
    *,
    names: Sequence[str] | None = None,
) -> list[GroupComparison]:
    """Compare every pair of groups on every metric.

    Args:
        metrics: Of one run, or of two that share their episodes (``by`` then has judge or protocol).
        by: As in :func:`grouped_estimates`.
        names: Only these metrics; by default all that are known in both groups.
    """
    groups = list(episode_groups(metrics, by))
    if len(groups) < 2:
        hint = (
            " No episode has a policy: state it with --policy-from of `stepscore judge`, or in a manifest."
            if tuple(by) == ("policy",) and groups and groups[0][0]["policy"] is None
            else ""
        )
        raise OptionError(
            f"There is one group by {', '.join(by) or 'nothing'}; a comparison needs two.{hint}"
        )
    wanted = metrics.select_columns(names)
    pairs: list[tuple[str, Group, Group, Comparison, str, str]] = []
    two = list(combinations(groups, 2))
    for (a, in_a), (b, in_b) in track(two, "Comparing groups", len(two)):
        compare_two = _comparing(metrics, by, in_a, in_b)
        for column in wanted:
            values = metrics.values[column.name]
            if np.all(np.isnan(values[in_a])) or np.all(np.isnan(values[in_b])):
                continue
            why_not = _why_not_success(metrics, in_a, in_b) if column.name == "success_judge" else ""
            if why_not:
                pairs.append((column.name, a, b, _no_comparison(), column.better, why_not))
                continue
            comparison = compare_two(values[in_a], values[in_b])
            pairs.append((column.name, a, b, comparison, column.better, ""))
    corrected = adjust_p_values([pair[3].p_value for pair in pairs])
    known = {
        (column.name, *group.values()): float(np.mean(~np.isnan(metrics.values[column.name][inside])))
        for group, inside in groups
        for column in wanted
    }
    return [
        GroupComparison(
            name,
            a,
            b,
            comparison,
            float(q),
            better,
            known[name, *a.values()],
            known[name, *b.values()],
            metrics.revision,
            why_not,
        )
        for (name, a, b, comparison, better, why_not), q in zip(pairs, corrected, strict=True)
    ]


def _comparing(
    metrics: EpisodeMetrics, by: Sequence[str], in_a: np.ndarray[Any, Any], in_b: np.ndarray[Any, Any]
) -> Callable[[FloatArray, FloatArray], Comparison]:
    """Return the function that compares two groups: as pairs, by arm, or within a few fixed scenes."""
    chosen = [[metrics.episodes[i] for i in np.flatnonzero(inside).tolist()] for inside in (in_a, in_b)]
    scenes_a, scenes_b = ([scene_of(row) for row in rows] for rows in chosen)
    keys_a, keys_b = (pair_keys(rows, by) for rows in chosen)
    number = fixed_in_both(metrics.scenes, scenes_a, scenes_b)
    same_episodes = bool(set(by) & JUDGE_KEYS) and not set(keys_a).isdisjoint(keys_b)
    if not number:
        tasks_a, tasks_b = ([task_of(row) for row in rows] for rows in chosen)
        clusters_a, clusters_b = ([row["pair"] for row in rows] for rows in chosen)
        return partial(
            compare_samples,
            keys=(keys_a, keys_b),
            strata=(tasks_a, tasks_b),
            clusters=(clusters_a, clusters_b),
        )
    if not same_episodes:
        return partial(compare_within_scenes, scenes=(scenes_a, scenes_b))

    def compare_pairs(a: FloatArray, b: FloatArray) -> Comparison:
        found = compare_samples(a, b, keys=(keys_a, keys_b), strata=(scenes_a, scenes_b))
        d, where = found.difference, these_scenes(number)
        return replace(found, difference=replace(d, method=f"{d.method} {where}"), scenes=number)

    return compare_pairs


def _why_not_success(metrics: EpisodeMetrics, in_a: np.ndarray[Any, Any], in_b: np.ndarray[Any, Any]) -> str:
    """Return why success by judge cannot be compared between two groups; empty if it can.

    A success map and a published rule have different thresholds, and so do two maps.
    """
    if not metrics.verdict_rules:
        return ""
    rules, maps = [], []
    for chosen in (in_a, in_b):
        known = [i for i in np.flatnonzero(chosen).tolist() if metrics.verdict_rules[i] is not None]
        calibrated = {metrics.verdict_rules[i] == BY_PROBABILITY for i in known}
        rules.append(calibrated)
        maps.append({metrics.episodes[i]["success_map"] for i in known} if True in calibrated else set())
    if rules[0] != rules[1] or len(rules[0]) > 1:
        return "success by judge is calibrated in one group and not in the other"
    if maps[0] != maps[1]:
        return "success by judge is calibrated by two different maps"
    return ""


def _no_comparison() -> Comparison:
    unknown = Estimate(math.nan, math.nan, math.nan, 0, 0, math.nan, "not comparable")
    return Comparison(unknown, math.nan, "none", unknown, math.nan, 0, 0, paired=False)


def pair_keys(rows: Sequence[EpisodeRow], by: Sequence[str]) -> list[Hashable]:
    """Return the keys that pair episodes: the episode between judges, else task and scene, or ``None``."""
    if set(by) & JUDGE_KEYS:
        # Episodes of two sources may share an id.
        return [(row["fingerprint"], row["episode_id"]) for row in rows]
    return [scene_of(row) for row in rows]
