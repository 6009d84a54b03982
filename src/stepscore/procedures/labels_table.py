"""Writer of the labels table that ``open_episodes(source, labels=...)`` joins; see ``episodes/labels/labels.py``."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from pathlib import Path

from stepscore._files import write_parquet
from stepscore.episodes import Label
from stepscore.errors import OptionError


def write_labels(path: Path, labels: Mapping[str, Iterable[Label]]) -> int:
    """Write labels by episode id as Parquet and return the number of rows.

    Rows are sorted by episode, kind, start and name; unknown numbers are null. The file appears under its name
    only when it is complete.
    """
    import pyarrow as pa

    if path.suffix != ".parquet":
        raise OptionError(
            f"Labels are written as Parquet: name the file {path.stem}.parquet, not {path.name}."
        )
    rows = sorted(
        ((name, row) for name, episode_labels in labels.items() for row in episode_labels),
        key=lambda pair: (pair[0], pair[1].kind, _known(pair[1].start_s, -math.inf), pair[1].name),
    )
    numbers = ("start_s", "end_s", "value")
    columns = {"episode_id": pa.array([name for name, _ in rows], pa.string())}
    for field in ("kind", "name", *numbers, "author", "created"):
        kind = pa.float64() if field in numbers else pa.string()
        values = [getattr(row, field) for _, row in rows]
        columns[field] = pa.array([_known(v) for v in values] if field in numbers else values, kind)
    write_parquet(path, pa.table(columns))
    return len(rows)


def _known(value: float, default: float | None = None) -> float | None:
    return default if math.isnan(value) else value
