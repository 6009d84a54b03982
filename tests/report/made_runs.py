"""Run folders made without judging: any number of episodes, with any text and curve in them."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from stepscore.runs import Run, open_run

Change = Callable[[int, dict[str, Any]], None]


def write_run(
    folder: Path,
    n: int,
    *,
    steps: int = 100,
    judge: str = "recorded",
    options: dict[str, Any] | None = None,
    tasks: int = 5,
    policies: int = 4,
    channels: Sequence[str] = (),
    change: Change | None = None,
    source: str = "rollouts",
) -> Run:
    """A run of ``n`` episodes whose curves are noisy climbs sampled at frames of 10 a second.

    Args:
        folder: Where to write it.
        n: Episodes.
        steps: Points of each curve.
        judge: The judge's name.
        options: The judge's options; others make another protocol.
        tasks: Number of tasks.
        policies: Number of policies.
        channels: Names of further series.
        change: Called with each episode's number and journal record, which it may alter.
        source: What the run says it was read from.
    """
    folder.mkdir(parents=True)
    protocol = {
        "judge": {"name": judge, "options": options or {}, "version": 1},
        "model": None,
        "views": None,
    }
    info = {
        "format": 1,
        "protocol": protocol,
        "source": source,
        "reader": "folder",
        "status": "finished",
        "created": "2026-01-01T00:00:00+00:00",
        "updated": "2026-01-01T00:01:00+00:00",
        "selected": n,
        "workers": 1,
        "versions": {"stepscore": "0"},
        "last": {"judged": n, "reused": 0, "failed": 0, "seconds": 60.0},
    }
    (folder / "run.json").write_text(json.dumps(info), encoding="utf-8")
    rng = np.random.default_rng(7)
    with (folder / "journal.jsonl").open("w", encoding="utf-8") as journal:
        for number in range(n):
            record = _record(number, steps, tasks, policies, channels, rng, source)
            if change is not None:
                change(number, record)
            journal.write(json.dumps(record) + "\n")
    return open_run(folder)


def _record(
    number: int,
    steps: int,
    tasks: int,
    policies: int,
    channels: Sequence[str],
    rng: np.random.Generator,
    source: str,
) -> dict[str, Any]:
    task, policy = f"task {number % tasks}", f"policy-{number // tasks % policies}"
    skill = 0.5 + 0.12 * (number // tasks % policies)
    climb = np.clip(np.cumsum(rng.normal(skill / steps * 1.6, 0.02, steps)), 0.0, 1.0)
    frames = np.arange(steps) * 3 + int(rng.integers(1, 4))
    fps = 10.0
    return {
        "id": f"{policy}/{task.replace(' ', '_')}_{number:05d}",
        "key": f"{number:016x}",
        "episode": {
            "source": source,
            "source_index": None,
            "first_frame": 0,
            "n_frames": int(frames[-1]) + 2,
            "fps": fps,
            "duration_s": (int(frames[-1]) + 2) / fps,
            "fingerprint": f"{number:064x}",
            "instruction": f"do {task} with care",
            "task": task,
            "policy": policy,
            "robot": None,
            "dataset": None,
            "pair": None,
            "views": [],
            "success": bool(climb[-1] > 0.8),
            "success_mode": "holds",
            "stages": [],
            "subgoals": [],
            "metadata": None,
        },
        "judgement": {
            "success_score": None,
            "facts": {},
            "error": None,
            "curve": {
                "time_s": (frames / fps).tolist(),
                "progress": climb.tolist(),
                "channels": {name: rng.normal(-3, 1, steps).tolist() for name in channels},
                "calibrated": False,
                "time_source": "frames",
            },
            "verdicts": [],
        },
        "calls": [],
        "usage": {
            "seconds": 0.5,
            "calls": 0,
            "attempts": 0,
            "images": 0,
            "tokens_in": 0,
            "tokens_out": 0,
            "cost": None,
            "cached": 0,
            "latencies_s": [],
        },
    }
