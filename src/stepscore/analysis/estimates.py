"""Estimate metrics by group of episodes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from stepscore._options import DEFAULT_REVISION
from stepscore._progress import track
from stepscore.analysis.episode_metrics import SUCCESS_COLUMNS, EpisodeMetrics
from stepscore.analysis.pooling import (
    DURATION_COLUMN,
    LABEL_COLUMNS,
    PROTOCOL_KEYS,
    baseline_note,
    is_baseline,
)
from stepscore.errors import UnknownNameError
from stepscore.metrics import MetricColumn, registered_columns
from stepscore.types import Estimate

GROUP_KEYS = ("dataset", "robot", "task", "policy", "judge", "model", "protocol")
"""Fields of an episode to group by."""

MAIN_METRICS = (
    "success_label",
    "success_judge",
    "MC25",
    "MC50",
    "MC75",
    "MC100",
    "MP",
    "PPL",
    "CRA",
    "STR",
    "VOC",
)
"""Built-in metrics that printed tables show; JSON, CSV and pandas have all."""


def main_metrics() -> tuple[str, ...]:
    """Return the metrics that printed tables show: the main built-in ones and all registered ones."""
    return (*MAIN_METRICS, *registered_columns(), DURATION_COLUMN.name)


Group = Mapping[str, str | None]
"""The fields that the episodes of a group share: ``{"policy": "pi0"}``; ``None`` if unknown."""


@dataclass(frozen=True)
class GroupEstimate:
    """The Estimate of one metric over one group of episodes.

    Attributes:
        calibrated: Whether the success by judge behind it is calibrated; ``None`` if it uses none.
        fixed_scenes: Number of fixed scenes that it is about; 0 if it generalises to similar scenes.
    """

    group: Group
    metric: str
    estimate: Estimate
    revision: str = DEFAULT_REVISION
    calibrated: bool | None = None
    fixed_scenes: int = 0

    def to_dict(self) -> dict[str, Any]:
        """Return a row of ``metrics --json``."""
        e = self.estimate
        calibrated = {} if self.calibrated is None else {"calibrated": self.calibrated}
        return {
            "group": dict(self.group),
            "metric": self.metric,
            "value": e.value,
            "lo": e.lo,
            "hi": e.hi,
            "n": e.n,
            "clusters": e.clusters,
            "coverage": e.coverage,
            "method": e.method,
            "fixed_scenes": self.fixed_scenes,
            "revision": self.revision,
            **calibrated,
        }


def policy_metrics(metrics: EpisodeMetrics) -> EpisodeMetrics:
    """Return the metrics that describe policies: of episodes judged by a baseline, only labels and durations.

    Their other metrics are unknown, their curves empty, and a note says so.
    """
    unseen = np.array([is_baseline(row) for row in metrics.episodes], dtype=bool)
    if not unseen.any() or DURATION_COLUMN in metrics.columns:
        return metrics
    seconds = [row["duration_s"] for row in metrics.episodes]
    values = {
        name: found if name in LABEL_COLUMNS else np.where(unseen, np.nan, found)
        for name, found in metrics.values.items()
    }
    values[DURATION_COLUMN.name] = np.array(
        [np.nan if one is None else one for one in seconds], dtype=np.float64
    )
    none = np.empty(0), np.empty(0)
    return replace(
        metrics,
        columns=(*metrics.columns, DURATION_COLUMN),
        values=values,
        curves=tuple(none if here else curve for curve, here in zip(metrics.curves, unseen, strict=True)),
        notes=(baseline_note(metrics.episodes), *metrics.notes),
        verdict_rules=tuple(
            None if here else rule for rule, here in zip(metrics.verdict_rules, unseen, strict=False)
        ),
    )


def metrics_of(metrics: EpisodeMetrics, by: Sequence[str]) -> EpisodeMetrics:
    """Return the metrics for a table of these groups: about judges if grouped by judge, else about policies."""
    return metrics if set(by) & set(PROTOCOL_KEYS) else policy_metrics(metrics)


def grouped_estimates(
    metrics: EpisodeMetrics,
    by: Sequence[str] = ("policy",),
    *,
    names: Sequence[str] | None = None,
) -> list[GroupEstimate]:
    """Estimate every metric in every group, then the same among successes and among failures.

    Conditioned rows name the source of success: ``PPL|success:label``, ``PPL|failure:judge``. Metrics without
    a known value are left out.

    Args:
        by: Any of dataset, robot, task, policy, judge, model, protocol; empty for one group of all.
        names: Only these metrics.
    """
    wanted = metrics.select_columns(names)
    rows: list[GroupEstimate] = []
    groups = list(episode_groups(metrics, by))
    for group, chosen in track(groups, "Estimating by group", len(groups)):
        known = known_columns(metrics, wanted, chosen)
        calibrated = metrics.success_calibrated(chosen)
        fixed = metrics.fixed_scenes(chosen)
        rows += [
            GroupEstimate(
                group,
                c.name,
                metrics.estimate(c.name, chosen),
                metrics.revision,
                calibrated if c.name == "success_judge" else None,
                fixed,
            )
            for c in known
        ]
        for source in ("label", "judge"):
            success = metrics.values[f"success_{source}"]
            for word, subset in (("success", success == 1), ("failure", success == 0)):
                if not np.any(subset):
                    continue
                rows += [
                    GroupEstimate(
                        group,
                        f"{c.name}|{word}:{source}",
                        metrics.estimate(c.name, chosen & subset, chosen),
                        metrics.revision,
                        calibrated if source == "judge" else None,
                        fixed,
                    )
                    for c in known
                    if c not in SUCCESS_COLUMNS
                ]
    return rows


def known_columns(
    metrics: EpisodeMetrics, columns: Sequence[MetricColumn], chosen: np.ndarray[Any, Any]
) -> list[MetricColumn]:
    """Return the columns with a known value in any group; for a group judged only by baselines, in that group.

    So baselines do not lower the coverage of metrics that they do not have.
    """
    unseen = all(is_baseline(metrics.episodes[i]) for i in np.flatnonzero(chosen).tolist())
    known = []
    for column in columns:
        values = metrics.values[column.name]
        inside = values[chosen] if unseen else values
        if np.any(~np.isnan(inside)):
            known.append(column)
    return known


def check_group_keys(by: Sequence[str]) -> None:
    """Raise UnknownNameError for an unknown grouping."""
    for name in by:
        if name not in GROUP_KEYS:
            raise UnknownNameError("grouping", name, GROUP_KEYS)


def episode_groups(
    metrics: EpisodeMetrics, by: Sequence[str]
) -> Iterator[tuple[dict[str, str | None], np.ndarray[Any, Any]]]:
    """Iterate over the groups, sorted, unknown last: the shared fields, and a boolean per episode."""
    check_group_keys(by)
    keys = [tuple(row[name] for name in by) for row in metrics.episodes]
    order = sorted(set(keys), key=lambda key: [(part is None, part or "") for part in key])
    for key in order:
        yield dict(zip(by, key, strict=True)), np.array([k == key for k in keys], dtype=bool)
