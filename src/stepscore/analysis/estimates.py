"""Metrics of episodes into Estimates by group."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from stepscore._defaults import DEFAULT_REVISION
from stepscore._watching import Watch, unwatched
from stepscore.analysis.episode_metrics import SUCCESS_COLUMNS, EpisodeMetrics
from stepscore.errors import UnknownNameError
from stepscore.types import Estimate

GROUP_KEYS = ("dataset", "robot", "task", "policy", "judge", "model", "protocol")
"""Fields of an episode by which groups can be formed."""

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
"""Metrics that a table for people has as columns; the others are in ``--json``, ``--csv`` and pandas."""

Group = Mapping[str, str | None]
"""The fields that the episodes of a group share: ``{"policy": "pi0"}``; ``None`` where unknown."""


@dataclass(frozen=True)
class GroupEstimate:
    """The Estimate of one metric over one group of episodes.

    Attributes:
        group: What the episodes share.
        metric: The metric's name.
        estimate: Its value with its interval.
        revision: The OPD revision it was measured in.
        calibrated: Whether the success by judge behind it is calibrated; ``None`` where it rests on none.
    """

    group: Group
    metric: str
    estimate: Estimate
    revision: str = DEFAULT_REVISION
    calibrated: bool | None = None

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
            "revision": self.revision,
            **calibrated,
        }


def grouped_estimates(
    metrics: EpisodeMetrics,
    by: Sequence[str] = ("policy",),
    *,
    names: Sequence[str] | None = None,
    watch: Watch[Any] = unwatched,
) -> list[GroupEstimate]:
    """Estimate every metric in every group, then the same among successes and among failures.

    Conditioned rows are called ``PPL|success:label``, ``PPL|failure:judge`` and so on: the source of success
    stands in the name. Metrics of which nothing is known are left out.

    Args:
        metrics: From :func:`measure_episodes`.
        by: Any of dataset, robot, task, policy, judge, model, protocol; empty for one group of all.
        names: Only these metrics.
        watch: Shows how far it is.
    """
    wanted = metrics.select_columns(names)
    known = [column for column in wanted if np.any(~np.isnan(metrics.values[column.name]))]
    rows: list[GroupEstimate] = []
    groups = list(episode_groups(metrics, by))
    for group, chosen in watch(groups, "Estimating by group", len(groups)):
        calibrated = metrics.success_calibrated(chosen)
        rows += [
            GroupEstimate(
                group,
                c.name,
                metrics.estimate(c.name, chosen),
                metrics.revision,
                calibrated if c.name == "success_judge" else None,
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
                        metrics.estimate(c.name, chosen & subset),
                        metrics.revision,
                        calibrated if source == "judge" else None,
                    )
                    for c in known
                    if c not in SUCCESS_COLUMNS
                ]
    return rows


def check_group_keys(by: Sequence[str]) -> None:
    """Raise UnknownNameError for a name by which no groups can be formed."""
    for name in by:
        if name not in GROUP_KEYS:
            raise UnknownNameError("grouping", name, GROUP_KEYS)


def episode_groups(
    metrics: EpisodeMetrics, by: Sequence[str]
) -> Iterator[tuple[dict[str, str | None], np.ndarray[Any, Any]]]:
    """Iterate over the groups, sorted, unknown last: what each shares, and a boolean per episode."""
    check_group_keys(by)
    keys = [tuple(row[name] for name in by) for row in metrics.episodes]
    order = sorted(set(keys), key=lambda key: [(part is None, part or "") for part in key])
    for key in order:
        yield dict(zip(by, key, strict=True)), np.array([k == key for k in keys], dtype=bool)
