"""LeRobot datasets for tests, written by our own writer; frame i of episode k shows the number 32 k + i."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from stepscore.episodes.lerobot.writing.writer import Recording, write_lerobot
from tests.media import numbered

TOP, WRIST = "observation.images.top", "observation.images.wrist"
LENGTHS = (7, 5, 12, 3, 9)
FPS = 10


def steps(episode: int, length: int, *, success_at: int | None = None) -> Iterator[dict[str, Any]]:
    """Steps of an episode with two cameras, a state, an action and, where asked for, next.success."""
    for i in range(length):
        image = numbered(32 * episode + i)
        step = {
            TOP: image,
            WRIST: 255 - image,
            "observation.state": np.array([i, episode], dtype=np.float32),
            "action": np.array([i / 10, 0.0, 1.0]),
        }
        yield step if success_at is None else {**step, "next.success": i == success_at}


def recordings(lengths: Sequence[int] = LENGTHS, extras: Sequence[dict[str, Any]] = ()) -> list[Recording]:
    """Episodes that succeed for one frame, but for the second, which never does; tasks take turns."""
    return [
        Recording(
            f"pick up block {k % 2}",
            steps(k, n, success_at=n // 2 if k != 1 else -1),
            extras[k] if k < len(extras) else {},
        )
        for k, n in enumerate(lengths)
    ]


def dataset(root: Path, **options: Any) -> Path:
    """A small dataset; ``options`` are those of :func:`write_lerobot`, ``extras`` columns of meta/."""
    extras = options.pop("extras", ())
    lengths = options.pop("lengths", LENGTHS)
    return write_lerobot(root, recordings(lengths, extras), **{"fps": FPS, "episodes_per_file": 2, **options})


def change_info(root: Path, **changes: Any) -> None:
    """Change fields of meta/info.json; ``features`` are merged."""
    path = root / "meta" / "info.json"
    info = json.loads(path.read_text(encoding="utf-8"))
    features = {**info["features"], **changes.pop("features", {})}
    path.write_text(json.dumps({**info, **changes, "features": features}), encoding="utf-8")


def add_column(path: Path, name: str, values: pa.Array) -> None:
    """Add a column to a parquet file."""
    pq.write_table(pq.read_table(path).append_column(name, values), path)
