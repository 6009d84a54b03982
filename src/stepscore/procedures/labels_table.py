"""Write the labels table that ``open_episodes(source, labels=...)`` joins, and merge several into one."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

from stepscore._files import write_parquet
from stepscore._untrusted import shown
from stepscore.episodes import Label
from stepscore.episodes.labels import read_labels
from stepscore.errors import ManifestError, OptionError


def write_labels(path: Path, labels: Mapping[str, Iterable[Label]]) -> int:
    """Write labels by episode id as Parquet, atomically; return the number of rows.

    Rows are sorted by episode, kind, start and name; unknown numbers are null.
    """
    import pyarrow as pa

    if path.suffix != ".parquet":
        raise OptionError(f"Labels are written as Parquet, so {path.name} must be named {path.stem}.parquet.")
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


class MergedLabels(NamedTuple):
    """Number of merged files, episodes with labels, rows, and episodes in several files."""

    files: int
    episodes: int
    rows: int
    repeated: int


def merge_labels(files: Sequence[Path], out: Path) -> MergedLabels:
    """Merge labels files into one.

    Labels of one episode in two files must differ in kind (or in the name of the progress), or be equal but
    for the date.

    Raises:
        ManifestError: A file cannot be read, or two files contradict each other.
        OptionError: ``out`` exists, or is not a Parquet file.
    """
    if out.exists():
        raise OptionError(f"{shown(out)} exists and may hold a person's work. Choose another file: -o FILE")
    first: dict[tuple[str, str, str], tuple[Path, list[Label]]] = {}
    repeated: set[str] = set()
    for file in dict.fromkeys(files):
        for episode, rows in read_labels(file).items():
            for (kind, name), stated in _statements(rows).items():
                before, known = first.setdefault((episode, kind, name), (file, stated))
                if before == file:
                    continue
                repeated.add(episode)
                if _undated(known) != _undated(stated):
                    raise ManifestError(
                        f"{shown(before)} and {shown(file)} state different {kind} labels of episode "
                        f"{shown(episode)}. Nothing was merged. Leave one of them out, or remove its rows of "
                        "that episode."
                    )
    labels: dict[str, list[Label]] = {}
    for (episode, _, _), (_, stated) in first.items():
        labels.setdefault(episode, []).extend(stated)
    return MergedLabels(len(set(files)), len(labels), write_labels(out, labels), len(repeated))


def _statements(rows: Iterable[Label]) -> Mapping[tuple[str, str], list[Label]]:
    """Group rows by what they label: stages, success, subgoals, or progress of one name."""
    found: dict[tuple[str, str], list[Label]] = {}
    for row in rows:
        found.setdefault((row.kind, row.name if row.kind == "progress" else ""), []).append(row)
    return found


def _undated(rows: Iterable[Label]) -> list[str]:
    return sorted(repr(replace(row, created="")) for row in rows)  # as text, unknown numbers are equal


def _known(value: float, default: float | None = None) -> float | None:
    return default if math.isnan(value) else value
