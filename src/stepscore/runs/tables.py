"""The run's Parquet tables, made from the journal.

Rows are sorted by episode id and time, columns are fixed, and everything that differs between two runs of the same
protocol on the same input (seconds, dates) is in ``usage``. So the other tables are byte-identical, however many
workers made them and however often they were killed.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from itertools import islice
from pathlib import Path
from typing import IO, Any, NamedTuple, TypeAlias

import pyarrow as pa
import pyarrow.parquet as pq

from stepscore._progress import doing, track
from stepscore._untrusted import shown
from stepscore.errors import RunError
from stepscore.runs.journal import Entry, JournalState, index, open_journal, read_record, state_at
from stepscore.runs.record_schema import amount_or_none, count_or_none, text_or_none
from stepscore.runs.records import RESERVED_COLUMNS

TABLES = ("episodes", "labelled_progress", "judgements", "curves", "verdicts", "calls", "usage")
EPISODES_PER_BATCH = 512
"""Episodes in memory at a time, and in one row group."""

MAX_CHANNELS = 1000
"""Most channels of all curves of a run; each is a column."""

TABLES_FORMAT = 5
"""Raised when the same journal gives other tables, so that tables of an earlier version are made again."""

Sink: TypeAlias = Path | pa.BufferOutputStream
"""Where a table is written: a file or memory."""

_COUNTS = ("calls", "attempts", "images", "tokens_in", "tokens_out", "cached")
_TOKENS = ("tokens_in", "tokens_out")
_CALL_TEXTS = ("key", "kind", "prompt", "frames", "answer")


def _fields(columns: str, **nested: pa.DataType) -> list[tuple[str, pa.DataType]]:
    """Return names and types of columns from ``"name:type ..."``; ``nested`` adds types by name."""
    types = {"text": pa.string(), "int": pa.int64(), "float": pa.float64(), "bool": pa.bool_(), **nested}
    pairs = (column.split(":") for column in columns.split())
    return [(name, types[kind]) for name, kind in pairs]


def _rows(columns: str) -> pa.DataType:
    return pa.list_(pa.struct(_fields(columns)))


EPISODES = pa.schema(
    _fields(
        "episode_id:text source:text source_index:int first_frame:int n_frames:int fps:float duration_s:float "
        "fingerprint:text instruction:text task:text policy:text robot:text dataset:text pair:text views:places "
        "goals:goals success:bool success_mode:text stages:stages subgoals:subgoals metadata:text",
        places=_rows("name:text location:text"),
        goals=_rows("view:text location:text"),
        stages=_rows("name:text start_s:float end_s:float"),
        subgoals=_rows("name:text criterion:text mode:text view:text reviewed:bool label:bool"),
    )
)
LABELLED_PROGRESS = pa.schema(_fields("episode_id:text name:text time_s:float progress:float"))
JUDGEMENTS = pa.schema(
    _fields(
        "episode_id:text judge:text protocol:text success_score:float success_probability:float "
        "success_calibrated:bool n_points:int coverage:float calibrated:bool time_source:text facts:text error:text"
    )
)
VERDICTS = pa.schema(_fields("episode_id:text subgoal:text answer:text score:float when_s:float why:text"))
USAGE = pa.schema(
    _fields(
        "episode_id:text seconds:float calls:int attempts:int images:int tokens_in:int tokens_out:int cost:float "
        "cached:int latencies_s:floats",
        floats=pa.list_(pa.float64()),
    )
)
CALLS = pa.schema(
    _fields(
        "episode_id:text key:text kind:text prompt:text frames:text answer:text tokens_in:int tokens_out:int"
    )
)


class Stamp(NamedTuple):
    """What tables were made from; kept in the metadata of ``usage``, whose bytes differ between runs anyway.

    ``digests`` holds the hash of each other table's file, which shows whether it is whole and belongs to them.
    """

    journal: JournalState
    protocol: str
    digests: Mapping[str, str]

    def to_metadata(self) -> dict[str, str]:
        """Return the stamp as metadata of a Parquet file."""
        return {
            "tables_format": str(TABLES_FORMAT),
            "journal_bytes": str(self.journal.size),
            "journal_end": self.journal.end,
            "protocol": self.protocol,
            "digests": json.dumps(dict(self.digests)),
        }

    @staticmethod
    def from_metadata(metadata: Mapping[bytes, bytes] | None) -> Stamp:
        """Return the stamp in a file's metadata; raise ValueError or KeyError if there is none of this format."""
        found = {name.decode(): value.decode() for name, value in (metadata or {}).items()}
        if found["tables_format"] != str(TABLES_FORMAT):
            raise ValueError("tables of another format")
        digests = json.loads(found["digests"])
        if not isinstance(digests, dict) or digests.keys() != set(TABLES[:-1]):
            raise ValueError("digests of other tables")
        state = JournalState(int(found["journal_bytes"]), found["journal_end"])
        return Stamp(state, found["protocol"], digests)


def _schemas(channels: Iterable[str]) -> dict[str, pa.Schema]:
    """Return the schema of every table; ``curves`` has a column for each channel, by name."""
    curves = _fields("episode_id:text time_s:float progress:float")
    return {
        "episodes": EPISODES,
        "labelled_progress": LABELLED_PROGRESS,
        "judgements": JUDGEMENTS,
        "curves": pa.schema(curves + [(name, pa.float64()) for name in sorted(channels)]),
        "verdicts": VERDICTS,
        "calls": CALLS,
        "usage": USAGE,
    }


def has_columns_of(name: str, schema: pa.Schema) -> bool:
    """Return whether a schema is that of the table ``name``; ``curves`` may have any channels."""
    return bool(schema.equals(_schemas(set(schema.names) - RESERVED_COLUMNS)[name]))


def build_tables(journal: Path, size: int, judge: str, protocol: str, sinks: Mapping[str, Sink]) -> Stamp:
    """Write all tables from the first ``size`` bytes of a journal, which may grow meanwhile; return their stamp.

    Raises:
        RunError: A line of the journal is damaged.
        OSError: A table cannot be written.
    """
    entries = index(journal, size)
    with open_journal(journal) as lines, ExitStack() as opened:
        channels = _channels(journal, entries)
        schemas = _schemas(channels)
        writers = {
            # ``usage`` holds the digests of the others; its own pages have checksums instead.
            name: opened.enter_context(
                pq.ParquetWriter(sinks[name], schemas[name], write_page_checksum=name == "usage")
            )
            for name in TABLES
        }
        for batch in _batches(lines, entries):
            for name, columns in _tables_of(batch, schemas, judge, protocol).items():
                writers[name].write_table(pa.Table.from_pydict(columns, schema=schemas[name]))
        with doing("Finishing the tables"):
            for name in TABLES[:-1]:
                writers[name].close()
            digests = {name: digest(_content(sinks[name])) for name in TABLES[:-1]}
        stamp = Stamp(state_at(journal, size), protocol, digests)
        writers["usage"].add_key_value_metadata(stamp.to_metadata())
    return stamp


def digest(content: bytes) -> str:
    """Return the hash of a table's file."""
    return hashlib.sha256(content).hexdigest()[:32]


def _content(sink: Sink) -> bytes:
    return sink.read_bytes() if isinstance(sink, Path) else bytes(sink.getvalue())


def _channels(journal: Path, entries: Mapping[str, Entry]) -> set[str]:
    channels: set[str] = set()
    for entry in entries.values():
        channels.update(entry.channels)
        if len(channels) > MAX_CHANNELS:
            raise RunError(
                f"The curves of {shown(journal)} have more than {MAX_CHANNELS} different channels. "
                "Use the same channel names in every episode."
            )
    return channels


def _batches(lines: IO[bytes], entries: Mapping[str, Entry]) -> Iterator[list[dict[str, Any]]]:
    """Yield the records in batches, by episode id."""
    names = iter(track(sorted(entries), "Writing tables", len(entries)))
    while batch := list(islice(names, EPISODES_PER_BATCH)):
        yield [read_record(lines, entries[name]) for name in batch]


def _tables_of(
    batch: Sequence[Mapping[str, Any]], schemas: Mapping[str, pa.Schema], judge: str, protocol: str
) -> dict[str, dict[str, list[Any]]]:
    """Return the columns of every table for a batch of records."""
    tables: dict[str, dict[str, list[Any]]] = {
        name: {column: [] for column in schema.names} for name, schema in schemas.items()
    }

    def add(table: str, record: Mapping[str, Any], row: Mapping[str, Any]) -> None:
        for name, values in tables[table].items():
            values.append(record["id"] if name == "episode_id" else row[name])

    def add_points(table: str, record: Mapping[str, Any], columns: Mapping[str, list[Any]]) -> None:
        n = len(columns["time_s"])
        for name, values in tables[table].items():
            values += [record["id"]] * n if name == "episode_id" else columns.get(name, [None] * n)

    for record in batch:
        episode, judgement = record["episode"], record["judgement"]
        add("episodes", record, {"goals": [], **episode})
        for name, points in sorted(episode.get("labelled_progress", {}).items()):
            add_points("labelled_progress", record, {"name": [name] * len(points["time_s"]), **points})
        add("judgements", record, _judgement(judgement, judge, protocol))
        if (curve := judgement.get("curve")) is not None:
            add_points(
                "curves",
                record,
                {**curve["channels"], "time_s": curve["time_s"], "progress": curve["progress"]},
            )
        for verdict in judgement["verdicts"]:
            add("verdicts", record, verdict)
        for call in record["calls"]:
            add(
                "calls",
                record,
                {name: count_or_none(call.get(name)) for name in _TOKENS}
                | {name: text_or_none(call.get(name)) for name in _CALL_TEXTS},
            )
        add("usage", record, _usage(record["usage"]))
    return tables


def _usage(usage: Mapping[str, Any]) -> dict[str, Any]:
    """Return a row of the ``usage`` table, with null for what is not a count or an amount."""
    latencies = usage.get("latencies_s")
    known = map(amount_or_none, latencies if isinstance(latencies, list) else ())
    return {
        **{name: count_or_none(usage.get(name)) for name in _COUNTS},
        **{name: amount_or_none(usage.get(name)) for name in ("seconds", "cost")},
        "latencies_s": [seconds for seconds in known if seconds is not None],
    }


def _judgement(judgement: Mapping[str, Any], judge: str, protocol: str) -> dict[str, Any]:
    """Return a row of the ``judgements`` table."""
    curve = judgement.get("curve")
    n = len(curve["time_s"]) if curve else 0
    known = sum(value is not None for value in curve["progress"]) if curve else 0
    return {
        "success_probability": None,
        "success_calibrated": False,
        **judgement,
        "judge": judge,
        "protocol": protocol,
        "n_points": n,
        "coverage": known / n if n else None,
        "calibrated": curve["calibrated"] if curve else None,
        "time_source": curve["time_source"] if curve else None,
        "facts": json.dumps(judgement["facts"]) if judgement["facts"] else None,
    }
