"""Good run folders and the files that go with them: labels, subgoals, a calibration map, a cache, checkpoints."""

from __future__ import annotations

import csv
import io
import json
import os
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path

import yaml

from tests.cli.command_walk import make_inputs
from tests.hostile.good_inputs import INSTRUCTION

SUBGOALS = {
    "tasks": {
        "drawer": {
            "success": "holds",
            "subgoals": [
                {
                    "name": "grasp it",
                    "criterion": "fingers around it",
                    "mode": "ever",
                    "view": "main",
                    "reviewed": True,
                },
                "pull it",
            ],
        },
        "*": {"subgoals": ["move"]},
    }
}
RUNS = {
    "linear": ["--judge", "linear-time"],
    "topreward": ["--judge", "topreward", "--model", "mock/-1.5"],
    "stepeval": ["--judge", "stepeval", "--model", 'mock/{"answer": "yes"}'],
    "recorded": ["--judge", "recorded"],
}
"""Run folders below ``made/runs``, and how each is judged; ``recorded`` from videos, the others from a manifest."""


def source_of(good: Path, run: str) -> Path:
    """Return the source of a good run."""
    return good / "videos" if run == "recorded" else good / "jsonl" / "list.jsonl"


def label_rows() -> list[dict[str, object]]:
    """Return labels of every kind, for the episodes of the manifests."""
    empty = {"start_s": None, "end_s": None, "value": None, "author": "ann", "created": "2026-01-31"}
    rows: list[dict[str, object]] = []
    for name in "abz":
        rows += [
            {"episode_id": name, "kind": "success", "name": "ever", **empty, "value": 1.0},
            {
                "episode_id": name,
                "kind": "subgoal",
                "name": "grasp it",
                **empty,
                "value": 1.0,
                "start_s": 0.2,
            },
            {"episode_id": name, "kind": "stage", "name": "reach", **empty, "start_s": 0.0, "end_s": 0.4},
            {"episode_id": name, "kind": "stage", "name": "pull", **empty, "start_s": 0.4, "end_s": 0.9},
        ]
        rows += [
            {
                "episode_id": name,
                "kind": "progress",
                "name": "hand",
                **empty,
                "start_s": t / 10,
                "value": t / 10,
            }
            for t in range(10)
        ]
    return rows


def make_added(root: Path) -> None:
    """Write labels in each format, and subgoals."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    rows = label_rows()
    with (root / "labels.csv").open("w", newline="") as file:
        table = csv.DictWriter(file, list(rows[0]))
        table.writeheader()
        table.writerows(rows)
    (root / "labels.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    pq.write_table(pa.Table.from_pylist(rows), root / "labels.parquet")
    (root / "subgoals.yaml").write_text(yaml.safe_dump(SUBGOALS))


def make_runs(good: Path, *, checkpoints: bool) -> None:
    """Make everything below ``good/made``, by the commands that a user would run; checkpoints if they are wanted."""
    root = good / "made"
    root.mkdir()
    make_added(root)
    os.environ["STEPSCORE_CACHE"] = str(root / "cache")
    for name, arguments in RUNS.items():
        line = ["judge", str(source_of(good, name)), *arguments, "-o", str(root / "runs" / name)]
        _run(line)
    for name in ("linear", "topreward"):
        line = ["calibrate", str(root / "runs" / name), "-o", str(root / f"map-{name}.json")]
        _run(line)
    labelled = ["--labels", str(root / "labels.csv"), "--limit", "1"]
    line = ["bench", str(source_of(good, "linear")), *labelled, "--judges", "linear-time"]
    _run([*line, "-o", str(root / "board")])
    (root / "walk").mkdir()
    make_inputs(root / "walk")
    if checkpoints:
        make_checkpoints(root / "checkpoints")


def _run(line: list[str]) -> None:
    from stepscore.cli.main import run

    printed = io.StringIO()
    with redirect_stdout(printed), redirect_stderr(printed):
        code = run(line)
    if code:
        raise RuntimeError(f"{line} ended with {code}: {printed.getvalue()}")


def make_checkpoints(root: Path) -> None:
    """Write a sound checkpoint of every kind."""
    from tests.models import hostile_checkpoints
    from tests.models.sarm import tiny_sarm

    for kind in ("hf", "embedded", "robometer"):
        hostile_checkpoints.write(kind, root / kind)
    clip = tiny_sarm.clip_folder(root / "clip")
    tiny_sarm.checkpoint(root / "sarm", f"hf/{clip}", views=("main",), tasks=(INSTRUCTION,))
