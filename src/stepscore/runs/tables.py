"""The run's Parquet tables, made from the journal.

Rows are sorted by episode id and time, columns are fixed, and nothing that differs between two runs of the
same protocol on the same input (seconds, dates) stands outside ``usage``: the other tables are byte-identical
however many workers made them and however often they were killed.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import IO, Any, NamedTuple, TypeAlias

import pyarrow as pa
import pyarrow.parquet as pq

from stepscore._progress import doing, track
from stepscore._untrusted import shown
from stepscore.errors import RunError
from stepscore.runs.journal import Entry, JournalState, index, open_journal, read_line, state_at
from stepscore.runs.record_schema import amount_or_none, count_or_none, text_or_none
from stepscore.runs.records import RESERVED_COLUMNS

TABLES = ("episodes", "labelled_progress", "judgements", "curves", "verdicts", "calls", "usage")
EPISODES_PER_BATCH = 512
"""Episodes in memory at a time, and in one row group."""

MAX_CHANNELS = 1000
"""Most channels that the curves of a run may have together; each is a column."""

TABLES_FORMAT = 5
"""Raised when the same journal gives other tables, so that those of an earlier version are made anew."""

Sink: TypeAlias = Path | pa.BufferOutputStream
"""Where a table is written: a file or memory."""

_COUNTS = ("calls", "attempts", "images", "tokens_in", "tokens_out", "cached")
_TOKENS = ("tokens_in", "tokens_out")
_CALL_TEXTS = ("key", "kind", "prompt", "frames", "answer")

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
        ("goals", pa.list_(pa.struct([("view", pa.string()), ("location", pa.string())]))),
        ("success", pa.bool_()),
        ("success_mode", pa.string()),
        ("stages", pa.list_(_STAGE)),
        ("subgoals", pa.list_(_SUBGOAL)),
        ("metadata", pa.string()),
    ]
)
LABELLED_PROGRESS = pa.schema(
    [
        ("episode_id", pa.string()),
        ("name", pa.string()),
        ("time_s", pa.float64()),
        ("progress", pa.float64()),
    ]
)
JUDGEMENTS = pa.schema(
    [
        ("episode_id", pa.string()),
        ("judge", pa.string()),
        ("protocol", pa.string()),
        ("success_score", pa.float64()),
        ("success_probability", pa.float64()),
        ("success_calibrated", pa.bool_()),
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


class Stamp(NamedTuple):
    """What tables were made from, kept in the metadata of ``usage``, whose bytes differ between runs anyway.

    Attributes:
        journal: The state of the journal.
        protocol: The protocol's hash.
        digests: Hash of each other table's file, which tells whether it belongs to them and is whole.
    """

    journal: JournalState
    protocol: str
    digests: Mapping[str, str]

    def to_metadata(self) -> dict[str, str]:
        """Return it as metadata of a Parquet file."""
        return {
            "tables_format": str(TABLES_FORMAT),
            "journal_bytes": str(self.journal.size),
            "journal_end": self.journal.end,
            "protocol": self.protocol,
            "digests": json.dumps(dict(self.digests)),
        }

    @staticmethod
    def from_metadata(metadata: Mapping[bytes, bytes] | None) -> Stamp:
        """Return the stamp in a file's metadata; a ValueError or KeyError if there is none of this format."""
        found = {name.decode(): value.decode() for name, value in (metadata or {}).items()}
        if found["tables_format"] != str(TABLES_FORMAT):
            raise ValueError("tables of another format")
        digests = json.loads(found["digests"])
        if not isinstance(digests, dict) or digests.keys() != set(TABLES[:-1]):
            raise ValueError("digests of other tables")
        state = JournalState(int(found["journal_bytes"]), found["journal_end"])
        return Stamp(state, found["protocol"], digests)


def curves_schema(channels: set[str]) -> pa.Schema:
    """Return the schema of the ``curves`` table: time, progress, and a column per channel, by name."""
    fixed = [("episode_id", pa.string()), ("time_s", pa.float64()), ("progress", pa.float64())]
    return pa.schema(fixed + [(name, pa.float64()) for name in sorted(channels)])


def has_columns_of(name: str, schema: pa.Schema) -> bool:
    """Return whether a schema is that of the table ``name``; ``curves`` may have any channels."""
    return bool(schema.equals(_schemas(set(schema.names) - RESERVED_COLUMNS)[name]))


def build_tables(
    journal: Path,
    size: int,
    judge: str,
    protocol: str,
    sinks: Mapping[str, Sink],
) -> Stamp:
    """Make all tables from the first bytes of a journal and return what they were made from.

    Args:
        journal: The journal; it may grow meanwhile.
        size: Its whole lines to read, in bytes.
        judge: The judge's name.
        protocol: The protocol's hash.
        sinks: Where each table is written.

    Raises:
        RunError: A line of the journal is damaged.
        OSError: A table cannot be written.
    """
    entries = index(journal, size)
    with open_journal(journal) as lines, ExitStack() as opened:
        channels = _channels(journal, entries)
        schemas = _schemas(channels)
        writers = {
            # ``usage`` names the digests of the others, but no table names its own: its pages have checksums.
            name: opened.enter_context(
                pq.ParquetWriter(sinks[name], schemas[name], write_page_checksum=name == "usage")
            )
            for name in TABLES
        }
        for batch in _batches(lines, entries):
            for name, rows in _tables_of(batch, channels, judge, protocol).items():
                writers[name].write_table(pa.Table.from_pydict(rows, schema=schemas[name]))
        with doing("Finishing the tables"):
            for name in TABLES[:-1]:
                writers[name].close()
            digests = {name: digest(_content(sinks[name])) for name in TABLES[:-1]}
        stamp = Stamp(state_at(journal, size), protocol, digests)
        writers["usage"].add_key_value_metadata(stamp.to_metadata())
    return stamp


def digest(content: bytes) -> str:
    """Return the hash by which a table is known."""
    return hashlib.sha256(content).hexdigest()[:32]


def _content(sink: Sink) -> bytes:
    return sink.read_bytes() if isinstance(sink, Path) else bytes(sink.getvalue())


def _schemas(channels: set[str]) -> dict[str, pa.Schema]:
    return {
        "episodes": EPISODES,
        "labelled_progress": LABELLED_PROGRESS,
        "judgements": JUDGEMENTS,
        "curves": curves_schema(channels),
        "verdicts": VERDICTS,
        "calls": CALLS,
        "usage": USAGE,
    }


def _channels(journal: Path, entries: dict[str, Entry]) -> set[str]:
    channels: set[str] = set()
    for entry in entries.values():
        channels.update(entry.channels)
        if len(channels) > MAX_CHANNELS:
            raise RunError(
                f"The curves of {shown(journal)} have more than {MAX_CHANNELS} channels in all. "
                "Give the judge's channels the same names in every episode."
            )
    return channels


def _batches(lines: IO[bytes], entries: dict[str, Entry]) -> Iterator[list[dict[str, Any]]]:
    """Iterate over the records in batches, by episode id, each with its latest description."""
    batch = []
    for name in track(sorted(entries), "Writing tables", len(entries)):
        entry = entries[name]
        record = read_line(lines, entry.judged_at)
        if entry.described_at != entry.judged_at:
            record["episode"] = read_line(lines, entry.described_at)["episode"]
        batch.append(record)
        if len(batch) == EPISODES_PER_BATCH:
            yield batch
            batch = []
    if batch:
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
    labelled: dict[str, list[Any]] = {name: [] for name in LABELLED_PROGRESS.names}
    for record in batch:
        for name, points in sorted(record["episode"].get("labelled_progress", {}).items()):
            n = len(points["time_s"])
            labelled["episode_id"] += [record["id"]] * n
            labelled["name"] += [name] * n
            labelled["time_s"] += points["time_s"]
            labelled["progress"] += points["progress"]
    for _, call in calls:
        call |= {name: count_or_none(call.get(name)) for name in _TOKENS}
        call |= {name: text_or_none(call.get(name)) for name in _CALL_TEXTS}
    return {
        "episodes": {"episode_id": ids}
        | _columns(EPISODES, [{"goals": [], **record["episode"]} for record in batch]),
        "labelled_progress": labelled,
        "judgements": {"episode_id": ids} | _columns(JUDGEMENTS, judgements),
        "curves": curves,
        "verdicts": {"episode_id": [name for name, _ in verdicts]}
        | _columns(VERDICTS, [v for _, v in verdicts]),
        "calls": {"episode_id": [name for name, _ in calls]} | _columns(CALLS, [c for _, c in calls]),
        "usage": {"episode_id": ids} | _columns(USAGE, [_usage(record["usage"]) for record in batch]),
    }


def _usage(usage: dict[str, Any]) -> dict[str, Any]:
    """Return a row of the ``usage`` table: what is not a count or an amount is unknown."""
    latencies = usage.get("latencies_s")
    known = map(amount_or_none, latencies if isinstance(latencies, list) else ())
    return {
        **{name: count_or_none(usage.get(name)) for name in _COUNTS},
        **{name: amount_or_none(usage.get(name)) for name in ("seconds", "cost")},
        "latencies_s": [seconds for seconds in known if seconds is not None],
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
        "success_probability": judgement.get("success_probability"),
        "success_calibrated": judgement.get("success_calibrated", False),
        "n_points": n,
        "coverage": known / n if n else None,
        "calibrated": curve["calibrated"] if curve else None,
        "time_source": curve["time_source"] if curve else None,
        "facts": json.dumps(judgement["facts"]) if judgement["facts"] else None,
        "error": judgement["error"],
    }
