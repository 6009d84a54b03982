"""Runs planted with known outcomes: per policy a list of successes, with or without labels, scores and curves."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from stepscore.runs import Run
from tests.report.made_runs import write_run

Outcomes = Mapping[str | None, Sequence[int | None]]
Change = Callable[[str | None, int, dict[str, Any]], None]


def planted(
    folder: Path,
    outcomes: Outcomes,
    *,
    labelled: bool = True,
    judged: bool = True,
    scenes: bool = False,
    calibrated: bool = False,
    tasks: int = 1,
    judge: str = "planted",
    change: Change | None = None,
) -> Run:
    """A run in which each policy has these outcomes: 1, 0, or None where nothing is known.

    Args:
        folder: Where to write it.
        outcomes: Policy to its outcomes, one per episode.
        labelled: Whether the outcome is the label.
        judged: Whether the judge's success score is the outcome too; its curves end at .9 or .2.
        scenes: Whether the i-th episodes of all policies share a scene.
        calibrated: Whether the judge's verdict is by a calibrated probability.
        tasks: Tasks, in turn.
        judge: The judge's name.
        change: Called with policy, place and journal record, which it may alter.
    """
    places = [(policy, i) for policy, found in outcomes.items() for i in range(len(found))]

    def plant(number: int, record: dict[str, Any]) -> None:
        policy, i = places[number]
        outcome = outcomes[policy][i]
        record["id"] = f"{policy}/{i:03d}"
        record["episode"] |= {
            "policy": policy,
            "task": f"task {i % tasks}",
            "success": bool(outcome) if labelled and outcome is not None else None,
            "pair": f"scene {i}" if scenes else None,
        }
        end = np.nan if outcome is None else (0.9 if outcome else 0.2)
        curve = record["judgement"]["curve"]
        curve["progress"] = [None if np.isnan(end) else p for p in np.linspace(0.0, end, 20).tolist()]
        if judged and outcome is not None:
            score = 0.9 if outcome else 0.1
            record["judgement"] |= {"success_score": score}
            if calibrated:
                record["judgement"] |= {"success_probability": score, "success_calibrated": True}
        elif outcome is None:
            record["judgement"]["error"] = "the server did not answer"
            del record["judgement"]["curve"]
        if change is not None:
            change(policy, i, record)

    return write_run(folder, len(places), steps=20, judge=judge, change=plant)
