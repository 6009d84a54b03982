"""Runs of a few scenes that two policies tried several times, with planted outcomes."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from stepscore.runs import Run
from tests.report.made_runs import write_run

Counts = Mapping[str, Sequence[tuple[int, int]]]
"""Policy to (successes, trials) in each scene."""

FOUR: Counts = {"scripted": [(3, 3)] * 4, "random": [(1, 3), (0, 3), (0, 3), (0, 3)]}
THREE: Counts = {"a": [(20, 20), (18, 20), (18, 20)], "b": [(2, 20)] * 3}
SIX: Counts = {"a": [(1, 3)] * 3 + [(0, 3)] * 3, "b": [(3, 3)] * 3 + [(2, 3)] * 3}


def tried(
    folder: Path,
    counts: Counts,
    *,
    change: Callable[[int, dict[str, Any]], None] | None = None,
    judge: str = "planted",
    steps: int = 10,
) -> Run:
    """Write a run in which each policy has these successes in each scene; curves end near .9 or .3."""
    rows = [
        (policy, scene, i < won)
        for policy, scenes in counts.items()
        for scene, (won, n) in enumerate(scenes)
        for i in range(n)
    ]
    rng = np.random.default_rng(3)

    def plant(number: int, record: dict[str, Any]) -> None:
        policy, scene, success = rows[number]
        record["id"] = f"{policy}/{scene}-{number:03d}"
        record["episode"] |= {
            "policy": policy,
            "task": "reach",
            "instruction": "reach the cube",
            "pair": f"scene-{scene}",
            "success": success,
        }
        end = (0.9 if success else 0.3) + rng.normal(0, 0.05)
        curve = np.linspace(0, end, steps) + rng.normal(0, 0.01, steps)
        record["judgement"]["curve"]["progress"] = np.clip(curve, 0, 1).tolist()
        record["judgement"]["success_score"] = float(success)
        if change is not None:
            change(number, record)

    return write_run(folder, len(rows), steps=steps, judge=judge, change=plant)
