"""Files as vla-eval and inspect-robots write them, made on the spot."""

from __future__ import annotations

import json
import sqlite3
from pathlib import Path
from typing import Any

import numpy as np

from stepscore.testing import write_toy_rollouts

SCHEMA = """
CREATE TABLE IF NOT EXISTS eval_metadata (
    eval_id TEXT PRIMARY KEY, safe_name TEXT NOT NULL, metadata TEXT NOT NULL
);
CREATE TABLE IF NOT EXISTS episode_results (
    sid TEXT NOT NULL, eid TEXT NOT NULL, eval_id TEXT NOT NULL, task_name TEXT, episode_id INTEGER, status TEXT,
    metrics TEXT, steps INTEGER, elapsed_sec REAL, context TEXT, jsonl_path TEXT, failure_reason TEXT,
    failure_detail TEXT, PRIMARY KEY (sid, eid)
);
CREATE INDEX IF NOT EXISTS idx_episode_results_eval ON episode_results(eval_id);
CREATE TABLE IF NOT EXISTS step_rows (
    sid TEXT NOT NULL, eid TEXT NOT NULL, step_id INTEGER NOT NULL, fields TEXT NOT NULL,
    PRIMARY KEY (sid, eid, step_id)
);
"""
COLUMNS = (
    *(
        "sid",
        "eid",
        "eval_id",
        "task_name",
        "episode_id",
        "status",
        "metrics",
        "steps",
        "elapsed_sec",
        "context",
    ),
    *("jsonl_path", "failure_reason", "failure_detail"),
)


def vla_eval(folder: Path, *, wal: bool = False) -> Path:
    """A recording of four episodes of two tasks in LIBERO; one failed, one has no video."""
    videos = write_toy_rollouts(folder / "toys", scenes=1)
    source = next((videos / "steady").glob("*.mp4")).read_bytes()
    home = folder / "results"
    path = home / "recording-abc.sqlite"
    home.mkdir()
    rows = []
    for number, (task, episode, status) in enumerate(
        [(0, 0, "success"), (0, 1, "fail"), (1, 0, "error"), (1, 1, "success")]
    ):
        stem = f"episodes/LIBEROBenchmark/task{task:04d}_ep{episode:04d}_{status}"
        if number != 3:
            (home / f"{stem}.mp4").parent.mkdir(parents=True, exist_ok=True)
            (home / f"{stem}.mp4").write_bytes(source)
        context = {"name": f"open_the_drawer_{task}", "suite": "libero_goal", "episode_idx": episode}
        rows.append(
            {
                "sid": "s", "eid": f"e{number}", "eval_id": "abc-libero", "task_name": f"open_the_drawer_{task}",
                "episode_id": episode, "status": status, "metrics": json.dumps({"success": status == "success"}),
                "steps": 48, "elapsed_sec": 1.5, "context": json.dumps(context), "jsonl_path": f"{stem}.jsonl",
                "failure_reason": "timeout" if status == "error" else None, "failure_detail": None,
            }
        )  # fmt: skip
    metadata = {"benchmark": "vla_eval.benchmarks.libero.benchmark:LIBEROBenchmark", "mode": "sync"}
    connection = sqlite3.connect(path)
    if wal:
        connection.execute("PRAGMA journal_mode=WAL")
        connection.execute("PRAGMA wal_autocheckpoint=0")
    connection.executescript(SCHEMA)
    connection.execute(
        "INSERT INTO eval_metadata VALUES (?, ?, ?)", ("abc-libero", "libero", json.dumps(metadata))
    )
    insert(connection, rows)
    connection.commit()
    if wal:  # as a harness that was killed leaves it: the rows in the log alone
        kept = {
            file.name: file.read_bytes()
            for file in home.glob("recording-*")
            if not file.name.endswith("-shm")
        }
        connection.close()
        for name, content in kept.items():
            (home / name).write_bytes(content)
    else:
        connection.close()
    return path


def insert(connection: sqlite3.Connection, rows: list[dict[str, Any]]) -> None:
    marks = ", ".join("?" for _ in COLUMNS)
    connection.executemany(
        f"INSERT INTO episode_results ({', '.join(COLUMNS)}) VALUES ({marks})",
        [[row[name] for name in COLUMNS] for row in rows],
    )


def inspect_robots(folder: Path) -> Path:
    """A log of two scenes, the first with two trials, of two cameras each; the last trial errored."""
    frames = folder / "logs" / "frames" / "2026-08-20"
    frames.mkdir(parents=True)
    for trial, camera in (
        *(("kitchen-1-e0", "front"), ("kitchen-1-e0", "wrist_cam"), ("kitchen-1-e1", "front")),
        *(("bin a-e0", "front"),),
    ):
        stem = trial if " " not in trial else "bin-a-e0-97a1da2c"
        for step in (0, 1, 2, 4):
            image = np.full((24, 32, 3), 40 * step, np.uint8)
            np.save(frames / f"{stem}_{camera}_{step:06d}.npy", image)
    np.save(frames / "kitchen-1-e1_front_000000.npy", np.zeros((0, 0, 3), np.uint8))  # a warm-up frame
    log = {
        "version": 1, "status": "success",
        "eval": {
            "task": "kitchenbench", "policy": "pi05", "embodiment": "yam", "created": "2026-08-20",
            "inspect_robots_version": "0.9", "embodiment_info": {"control_hz": 20}, "seed": 3, "max_steps": 100,
        },
        "results": {"total_scenes": 2, "total_trials": 3, "metrics": {"operator": 0.5}},
        "stats": {
            "started_at": "", "completed_at": "", "duration_s": 1.0, "total_steps": 9,
            "frames_dir": "somewhere/else/logs/frames/2026-08-20",
        },
        "samples": [
            {
                "scene_id": "kitchen-1", "status": "success", "instruction": "put the cup in the sink",
                "epochs": [{"operator": 1.0, "episode_length": 4}, {"operator": 0.0, "success_at_end": 0.0}],
                "operator_judgements": ["Success", None], "operator_notes": ["slipped once", None],
                "termination_reasons": ["success", "max_steps"],
            },
            {"scene_id": "bin a", "status": "error", "instruction": "sort the bin", "epochs": [{}]},
        ],
    }  # fmt: skip
    path = folder / "logs" / "kitchenbench_0a1b2c3d.json"
    path.write_text(json.dumps(log))
    return path
