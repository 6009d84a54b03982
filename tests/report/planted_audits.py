"""Audit folders made without judging: any outcome, any text, with or without runs."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from stepscore.audit import Audit, Bound, Outcome, ProbeResult
from stepscore.audit.results import WorstCase
from stepscore.types import Estimate
from tests.report.made_runs import write_run

TRIVIAL = ("linear-time", "constant", "image-difference")
PROBES = {
    "beyond-length": ("no motion", Bound(0.1, "above")),
    "still-success": ("no motion", Bound(0.1, "below")),
    "round-trip": ("time", Bound(0.5, "above")),
    "reversed": ("time", Bound(-0.1, "below")),
    "other-task": ("instruction", Bound(0.75, "above")),
    "noisy": ("image", Bound(0.15, "below")),
}
EFFECTS = {"pass": 0.3, "fail": -0.3, "warn": 0.0, "undecided": math.nan}


def result(
    probe: str, outcome: Outcome, judge: str = "planted", worst: Sequence[WorstCase] = (), text: str = ""
) -> ProbeResult:
    """What a probe showed, on the side of its bound that the outcome says."""
    family, bound = PROBES.get(probe, ("time", Bound(0.1, "above")))
    side = EFFECTS[outcome] * (1 if bound.good == "above" else -1)
    value = bound.limit + side
    n = 3 if outcome == "undecided" else 20
    estimate = Estimate(value, value - 0.1, value + 0.1, n, n, 1.0, "t 95%")
    return ProbeResult(
        probe,
        family,
        judge,
        estimate,
        outcome,
        bound,
        f"{text}what a sound judge does",
        "effect",
        40,
        "",
        tuple(worst),
    )


def planted_audit(
    folder: Path,
    outcomes: dict[str, Outcome],
    *,
    trivial: Sequence[str] = TRIVIAL,
    pairs: int = 0,
    text: str = "",
) -> Path:
    """Write an audit's folder.

    Args:
        folder: Where.
        outcomes: Of each probe.
        trivial: Trivial judges beside it, which fail everything.
        pairs: Recorded and reversed episodes that the judge's run holds, named as the worst of whatever fails.
        text: Put into every text.
    """
    folder.mkdir(parents=True)
    ids = [(f"{text}ep_{i:03d}", f"{text}ep_{i:03d}~reversed") for i in range(pairs)]
    worst = [WorstCase(one, other, -0.3 + i / 100) for i, (one, other) in enumerate(ids[:6])]
    if pairs:
        _write_pairs(folder / "judge", ids)
    results = [
        result(probe, outcome, "planted", worst if outcome in ("fail", "warn") else (), text)
        for probe, outcome in outcomes.items()
    ]
    why = f"{text}no episode has a second camera"
    results.append(
        ProbeResult.missing("swapped-cameras", "camera", "planted", Bound(0.15, "below"), text, why)
    )
    audit = Audit(
        judge=f"{text}planted",
        model=None,
        protocol="0123456789abcdef",
        source=f"{text}rollouts",
        episodes=40,
        tasks=(f"{text}open the drawer",),
        cameras=("front",),
        labelled=True,
        seed=0,
        full=False,
        cost=7.4,
        decoded=10,
        results=tuple(results),
        trivial=tuple(result(probe, "fail", judge) for judge in trivial for probe in outcomes),
        runs={"judge": folder / "judge"},
        created="2026-01-01T00:00:00+00:00",
    )
    stored = audit.to_dict()
    stored["agreement"] = {"rows": [_agreement(text)], "policies": [f"{text}The judge favours no policy."]}
    (folder / "audit.json").write_text(json.dumps(stored), encoding="utf-8")
    return folder


def _agreement(text: str) -> dict[str, Any]:
    return {
        "group": {"judge": f"{text}planted", "question": "success"},
        "metric": "judge:accuracy",
        "value": 0.9,
        "lo": 0.8,
        "hi": 0.95,
        "n": 40,
        "clusters": 40,
        "coverage": 1.0,
        "method": "wilson 95%",
    }


def _write_pairs(folder: Path, ids: Sequence[tuple[str, str]]) -> None:
    def change(number: int, record: dict[str, Any]) -> None:
        recorded, changed = ids[number // 2]
        record["id"] = changed if number % 2 else recorded
        if number % 2:
            made = {"changed_from": recorded, "changed": [{"change": "reversed"}]}
            record["episode"]["metadata"] = json.dumps(made)

    write_run(folder, 2 * len(ids), steps=10, judge="planted", change=change)
