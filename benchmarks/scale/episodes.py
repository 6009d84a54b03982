"""Make a labelled source of many episodes: ``python -m benchmarks.scale.episodes OUT --episodes 100000``.

``OUT/curves.parquet`` is a table of curves (100 points an episode) that the judge ``recorded`` reads, with a verdict
on each of three subgoals; ``OUT/labels.parquet`` has the stages and the truth of the subgoals, ``OUT/subgoals.yaml``
their names. Five policies do four tasks in scenes that all of them meet. It is written a row group at a time, so that
memory does not grow with the number of episodes. ``OUT/videos`` has as many episodes of one small video, for `audit`.
"""

from __future__ import annotations

import argparse
import json
import shutil
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from stepscore.testing import write_toy_rollouts

POINTS = 100
TASKS = ("open the drawer", "push the block", "close the door", "stack the cups")
POLICIES = ("pi0", "act", "diffusion", "octo", "smolvla")
SUBGOALS = ("reach", "grasp", "finish")
EPISODES_PER_GROUP = 500
SECONDS = 20.0

_CURVES = pa.schema(
    [
        ("episode_id", pa.string()),
        ("time_s", pa.float64()),
        ("progress", pa.float64()),
        ("instruction", pa.string()),
        ("task", pa.string()),
        ("policy", pa.string()),
        ("pair", pa.string()),
        ("success", pa.int64()),
        ("subgoal", pa.string()),
        ("answer", pa.string()),
        ("score", pa.float64()),
    ]
)
_LABELS = pa.schema(
    [
        ("episode_id", pa.string()),
        ("kind", pa.string()),
        ("name", pa.string()),
        ("start_s", pa.float64()),
        ("end_s", pa.float64()),
        ("value", pa.float64()),
    ]
)


def write_source(folder: Path, episodes: int, *, points: int = POINTS, seed: int = 0) -> Path:
    """Write the source and return its table of curves.

    Args:
        folder: Where to write it; made if it is not there.
        episodes: How many.
        points: Points of each curve.
        seed: Random seed.
    """
    folder.mkdir(parents=True, exist_ok=True)
    tasks = "".join(f"  {task}:\n    subgoals: [{', '.join(SUBGOALS)}]\n" for task in TASKS)
    (folder / "subgoals.yaml").write_text(f"tasks:\n{tasks}", encoding="utf-8")
    rng = np.random.default_rng(seed)
    with (
        pq.ParquetWriter(folder / "curves.parquet", _CURVES) as curves,
        pq.ParquetWriter(folder / "labels.parquet", _LABELS) as labels,
    ):
        for numbers in _groups(episodes):
            reached = _reached(numbers, rng)
            curves.write_table(_curve_rows(numbers, reached, points, rng))
            labels.write_table(_label_rows(numbers, reached))
    return folder / "curves.parquet"


def write_videos(folder: Path, episodes: int) -> Path:
    """Write a manifest of so many episodes that all show one small video, and return its folder."""
    toys = write_toy_rollouts(folder / "toys", scenes=1)
    shutil.copy(next(toys.glob("*/*.mp4")), folder / "video.mp4")
    shutil.rmtree(folder / "toys")
    with (folder / "manifest.jsonl").open("w", encoding="utf-8") as manifest:
        for numbers in _groups(episodes):
            policy, task, scene = _design(numbers)
            for name, p, t, s in zip(_ids(numbers), policy, task, scene, strict=True):
                row: dict[str, object] = {
                    "id": name,
                    "video": "video.mp4",
                    "instruction": TASKS[t],
                    "policy": POLICIES[p],
                }
                row |= {"pair": f"scene_{s:05d}", "success": bool(s % 2)}
                manifest.write(json.dumps(row) + "\n")
    return folder


def _groups(episodes: int) -> Iterator[np.ndarray]:
    for start in range(0, episodes, EPISODES_PER_GROUP):
        yield np.arange(start, min(start + EPISODES_PER_GROUP, episodes))


def _reached(numbers: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Return how many of the subgoals each episode reaches; better policies reach more, scenes differ."""
    policy, scene = numbers % len(POLICIES), numbers // (len(POLICIES) * len(TASKS))
    difficulty = np.sin(scene * 12.9898) * 0.4
    skill = 0.9 + 0.35 * policy + difficulty + rng.normal(0, 0.7, len(numbers))
    return np.clip(np.floor(skill * 1.3), 0, len(SUBGOALS)).astype(np.int64)


def _curve_rows(numbers: np.ndarray, reached: np.ndarray, points: int, rng: np.random.Generator) -> pa.Table:
    n, rows = len(numbers), points + len(SUBGOALS)
    goal = (reached / len(SUBGOALS))[:, None]
    rise = np.linspace(0, 1, points)[None, :] ** rng.uniform(0.6, 1.8, (n, 1))
    progress = np.full((n, rows), np.nan)
    progress[:, :points] = np.round(np.clip(goal * rise + rng.normal(0, 0.02, (n, points)), 0, 1), 4)
    times = np.full((n, rows), np.nan)
    times[:, :points] = np.round(np.linspace(0, SECONDS, points), 3)
    said = rng.random((n, len(SUBGOALS))) < np.where(np.arange(len(SUBGOALS)) < reached[:, None], 0.92, 0.1)
    score = np.full((n, rows), np.nan)
    score[:, points:] = np.round(
        np.where(said, rng.uniform(0.5, 1, said.shape), rng.uniform(0, 0.5, said.shape)), 3
    )
    subgoal = [*([None] * points), *SUBGOALS] * n
    answers = [[*([None] * points), *("yes" if one else "no" for one in each)] for each in said.tolist()]
    policy, task, scene = _design(numbers)
    each = {
        "episode_id": _ids(numbers),
        "instruction": [TASKS[t] for t in task],
        "task": [TASKS[t] for t in task],
        "policy": [POLICIES[p] for p in policy],
        "pair": [f"scene_{s:05d}" for s in scene],
        "success": (reached == len(SUBGOALS)).astype(np.int64).tolist(),
    }
    place = pa.array(np.repeat(np.arange(n), rows))
    columns = {name: pa.array(values, _CURVES.field(name).type).take(place) for name, values in each.items()}
    columns |= {
        "time_s": pa.array(times.ravel(), from_pandas=True),
        "progress": pa.array(progress.ravel(), from_pandas=True),
        "subgoal": pa.array(subgoal, pa.string()),
        "answer": pa.array([cell for cells in answers for cell in cells], pa.string()),
        "score": pa.array(score.ravel(), from_pandas=True),
    }
    return pa.table(columns).select(_CURVES.names).cast(_CURVES)


def _label_rows(numbers: np.ndarray, reached: np.ndarray) -> pa.Table:
    rows: list[tuple[object, ...]] = []
    span = SECONDS / len(SUBGOALS)
    for name, done in zip(_ids(numbers), reached.tolist(), strict=True):
        for k, goal in enumerate(SUBGOALS):
            rows.append((name, "subgoal", goal, None, None, float(k < done)))
            if k <= done:
                rows.append((name, "stage", goal, round(k * span, 3), round((k + 1) * span, 3), None))
    columns = zip(*rows, strict=True)
    return pa.table(dict(zip(_LABELS.names, map(list, columns), strict=True)), schema=_LABELS)


def _design(numbers: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return policy, task and scene of each episode: every policy meets every scene of a task once."""
    policy = numbers % len(POLICIES)
    task = numbers // len(POLICIES) % len(TASKS)
    return policy, task, numbers // (len(POLICIES) * len(TASKS))


def _ids(numbers: np.ndarray) -> list[str]:
    return [f"episode_{number:06d}" for number in numbers.tolist()]


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("out", type=Path)
    options.add_argument("--episodes", type=int, default=10_000)
    given = options.parse_args()
    print(write_source(given.out, given.episodes))
    print(write_videos(given.out / "videos", given.episodes))


if __name__ == "__main__":
    main()
