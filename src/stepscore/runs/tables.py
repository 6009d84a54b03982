"""The run's Parquet tables, made from the journal.

Rows are sorted by episode id and time, columns are fixed, and nothing that differs between two runs of the
same protocol on the same input (seconds, dates) stands outside ``usage``: the other tables are byte-identical
however many workers made them and however often they were killed. Written by temporary name and rename.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import IO, Any

import pyarrow as pa
import pyarrow.parquet as pq

from stepscore._files import atomic_path
from stepscore.errors import RunError
from stepscore.runs.journal import Entry, index, read_line

TABLES = ("episodes", "judgements", "curves", "verdicts", "calls", "usage")
EPISODES_PER_BATCH = 512
"""Episodes in memory at a time, and in one row group."""

_JOURNAL_BYTES = b"journal_bytes"

_STAGE = pa.struct([("name", pa.string()), ("start_s", pa.float64()), ("end_s", pa.float64())])
_SUBGOAL = pa.struct(
    [
        ("name", pa.string()),
        ("criterion", pa.string()),
        ("mode", pa.string()),
        ("view", pa.string()),
        ("reviewed", pa.bool_()),
        ("label", pa.bool_()),
    ]
)
EPISODES = pa.schema(
    [
        ("episode_id", pa.string()),
        ("source", pa.string()),
        ("source_index", pa.int64()),
        ("first_frame", pa.int64()),
        ("n_frames", pa.int64()),
        ("fps", pa.float64()),
        ("duration_s", pa.float64()),
        ("fingerprint", pa.string()),
        ("instruction", pa.string()),
        ("task", pa.string()),
        ("policy", pa.string()),
        ("robot", pa.string()),
        ("dataset", pa.string()),
        ("pair", pa.string()),
        ("views", pa.list_(pa.struct([("name", pa.string()), ("location", pa.string())]))),
        ("success", pa.bool_()),
        ("success_mode", pa.string()),
        ("stages", pa.list_(_STAGE)),
        ("subgoals", pa.list_(_SUBGOAL)),
        ("metadata", pa.string()),
    ]
)
JUDGEMENTS = pa.schema(
    [
        ("episode_id", pa.string()),
        ("judge", pa.string()),
        ("protocol", pa.string()),
        ("success_score", pa.float64()),
        ("n_points", pa.int64()),
        ("coverage", pa.float64()),
        ("calibrated", pa.bool_()),
        ("time_source", pa.string()),
        ("facts", pa.string()),
        ("error", pa.string()),
    ]
)
VERDICTS = pa.schema(
    [
        ("episode_id", pa.string()),
        ("subgoal", pa.string()),
        ("answer", pa.string()),
        ("score", pa.float64()),
        ("when_s", pa.float64()),
        ("why", pa.string()),
    ]
)
USAGE = pa.schema(
    [
        ("episode_id", pa.string()),
        ("seconds", pa.float64()),
        ("calls", pa.int64()),
        ("attempts", pa.int64()),
        ("images", pa.int64()),
        ("tokens_in", pa.int64()),
        ("tokens_out", pa.int64()),
        ("cost", pa.float64()),
        ("cached", pa.int64()),
        ("latencies_s", pa.list_(pa.float64())),
    ]
)
CALLS = pa.schema(
    [
        ("episode_id", pa.string()),
        ("key", pa.string()),
        ("kind", pa.string()),
        ("prompt", pa.string()),
        ("frames", pa.string()),
        ("answer", pa.string()),
        ("tokens_in", pa.int64()),
        ("tokens_out", pa.int64()),
    ]
)


def curves_schema(channels: set[str]) -> pa.Schema:
    """Return the schema of the ``curves`` table: time, progress, and a column per channel, by name."""
    fixed = [("episode_id", pa.string()), ("time_s", pa.float64()), ("progress", pa.float64())]
    return pa.schema(fixed + [(name, pa.float64()) for name in sorted(channels)])


def write_tables(folder: Path, judge: str, protocol: str) -> None:
    """Write all tables from the folder's journal.

    Args:
        folder: The run folder.
        judge: The judge's name.
        protocol: The protocol's hash.
    """
    journal = folder / "journal.jsonl"
    size = journal.stat().st_size
    entries = index(journal)
    with journal.open("rb") as lines, ExitStack() as files:
        channels = _channels(lines, entries)
        schemas = {
            "episodes": EPISODES,
            "judgements": JUDGEMENTS,
            "curves": curves_schema(channels),
            "verdicts": VERDICTS,
            "calls": CALLS,
            # Renamed last, because it says of which journal the tables are; its bytes differ between runs anyway.
            "usage": USAGE.with_metadata({_JOURNAL_BYTES: str(size).encode()}),
        }
        # They get their names in the opposite order, so ``usage`` comes first here and last there.
        paths = {
            name: files.enter_context(atomic_path(folder / f"{name}.parquet")) for name in reversed(TABLES)
        }
        try:
            with ExitStack() as opened:
                writers = {
                    name: opened.enter_context(pq.ParquetWriter(paths[name], schema))
                    for name, schema in schemas.items()
                }
                for batch in _batches(lines, entries):
                    for name, rows in _tables_of(batch, channels, judge, protocol).items():
                        writers[name].write_table(pa.Table.from_pydict(rows, schema=schemas[name]))
        except OSError as error:
            raise RunError(f"Cannot write the tables of {folder}: {error.strerror or error}.") from error


def tables_are_current(folder: Path) -> bool:
    """Return whether the tables were made from the journal as it is now."""
    if not all((folder / f"{name}.parquet").is_file() for name in TABLES):
        return False
    metadata = pq.read_schema(folder / "usage.parquet").metadata or {}
    return bool(metadata.get(_JOURNAL_BYTES) == str((folder / "journal.jsonl").stat().st_size).encode())


def _channels(lines: IO[bytes], entries: dict[str, Entry]) -> set[str]:
    judgements = (read_line(lines, entry.judged_at)["judgement"] for entry in entries.values())
    return {name for judgement in judgements for name in judgement.get("curve", {}).get("channels", {})}


def _batches(lines: IO[bytes], entries: dict[str, Entry]) -> Iterator[list[dict[str, Any]]]:
    """Iterate over the records in batches, by episode id, each with its latest description."""
    names = sorted(entries)
    for start in range(0, len(names), EPISODES_PER_BATCH):
        batch = []
        for name in names[start : start + EPISODES_PER_BATCH]:
            entry = entries[name]
            record = read_line(lines, entry.judged_at)
            if entry.described_at != entry.judged_at:
                record["episode"] = read_line(lines, entry.described_at)["episode"]
            batch.append(record)
        yield batch


def _tables_of(
    batch: list[dict[str, Any]], channels: set[str], judge: str, protocol: str
) -> dict[str, dict[str, list[Any]]]:
    """Return the columns of every table for a batch of records."""
    ids = [record["id"] for record in batch]
    judgements = [_judgement(record, judge, protocol) for record in batch]
    verdicts = [(record["id"], verdict) for record in batch for verdict in record["judgement"]["verdicts"]]
    calls = [(record["id"], call) for record in batch for call in record["calls"]]
    curves: dict[str, list[Any]] = {name: [] for name in curves_schema(channels).names}
    for record in batch:
        curve = record["judgement"].get("curve")
        if curve is not None:
            n = len(curve["time_s"])
            curves["episode_id"] += [record["id"]] * n
            curves["time_s"] += curve["time_s"]
            curves["progress"] += curve["progress"]
            for name in channels:
                curves[name] += curve["channels"].get(name, [None] * n)
    return {
        "episodes": {"episode_id": ids} | _columns(EPISODES, [record["episode"] for record in batch]),
        "judgements": {"episode_id": ids} | _columns(JUDGEMENTS, judgements),
        "curves": curves,
        "verdicts": {"episode_id": [name for name, _ in verdicts]}
        | _columns(VERDICTS, [v for _, v in verdicts]),
        "calls": {"episode_id": [name for name, _ in calls]} | _columns(CALLS, [c for _, c in calls]),
        "usage": {"episode_id": ids} | _columns(USAGE, [record["usage"] for record in batch]),
    }


def _columns(schema: pa.Schema, rows: list[dict[str, Any]]) -> dict[str, list[Any]]:
    return {name: [row[name] for row in rows] for name in schema.names if name != "episode_id"}


def _judgement(record: dict[str, Any], judge: str, protocol: str) -> dict[str, Any]:
    judgement = record["judgement"]
    curve = judgement.get("curve")
    n = len(curve["time_s"]) if curve else 0
    known = sum(value is not None for value in curve["progress"]) if curve else 0
    return {
        "judge": judge,
        "protocol": protocol,
        "success_score": judgement["success_score"],
        "n_points": n,
        "coverage": known / n if n else None,
        "calibrated": curve["calibrated"] if curve else None,
        "time_source": curve["time_source"] if curve else None,
        "facts": json.dumps(judgement["facts"]) if judgement["facts"] else None,
        "error": judgement["error"],
    }
