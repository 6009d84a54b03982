"""Episodes that a baseline judged: it looks at no frame, so nothing that it says is about a policy."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from stepscore.judges import BASELINES
from stepscore.metrics import MetricColumn

DURATION_COLUMN = MetricColumn("duration_s", "neither", "mean", "length of the episode in seconds")
"""What is known of an episode that only a baseline judged, besides its labels."""

LABEL_COLUMNS = ("success_label",)
"""Metrics that rest on no judge."""


def is_baseline(row: Mapping[str, Any]) -> bool:
    """Return whether the judge of an episode looks at no frame."""
    return row["judge"] in BASELINES


def baseline_note(rows: Iterable[Mapping[str, Any]]) -> str:
    """Return the sentence on baselines among the judges of episodes, with what to do; empty without one."""
    names = sorted({row["judge"] for row in rows if is_baseline(row)})
    if not names:
        return ""
    looks, its = ("look", "their") if len(names) > 1 else ("looks", "its")
    return (
        f"{' and '.join(names)} {looks} at no frame, so {its} progress and verdicts say nothing about a policy and "
        "are left out; labels and durations remain. To measure progress, use a judge that looks at the videos "
        "(stepscore ls judges)."
    )
