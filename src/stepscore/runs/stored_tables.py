"""The tables of a run folder: which are current, who writes them, and how a run reads them.

Any number of processes may read a folder while one judges into it. Tables are replaced only under the lock of
``tables.lock``, ``usage.parquet`` last. It names the digests of the others, so a reader needs no lock: a table with
another digest is damaged, or belongs to a longer journal. The reader then makes its tables again: in the folder if
those there are still of its journal, else, or if it cannot write, in memory.
"""

from __future__ import annotations

import warnings
from contextlib import ExitStack
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from stepscore._files import atomic_path, remove_leftovers
from stepscore._locks import NO_LOCKS, locked
from stepscore._untrusted import check_regular, read_bytes, shown
from stepscore.errors import RunError
from stepscore.runs.journal import JUDGE_AGAIN, JournalState, journal_state, state_at
from stepscore.runs.tables import TABLES, USAGE, Stamp, build_tables, digest, has_columns_of

LOCK_FILE = "tables.lock"

MOST_BYTES = 1 << 24
"""Bytes that a table may have beyond twice those of its journal, which holds the same numbers as text."""


def write_tables(folder: Path, judge: str, protocol: str) -> Stamp:
    """Write all tables from the folder's journal as it is now, after another process that does so."""

    def write() -> Stamp:
        return _replace(folder, journal_state(_journal(folder)).size, judge, protocol)

    try:
        with locked(folder / LOCK_FILE):
            return write()
    except OSError as error:
        if error.errno in NO_LOCKS:  # the journal's lease keeps other writers out; readers use memory
            return write()
        raise _cannot_write(folder, error) from error


def warn_if_cut(folder: Path) -> None:
    """Warn if the journal is shorter than when the tables were made."""
    usage = _content(folder, "usage")
    if (stamp := _stamp_of(usage)) is None:
        return
    size = journal_state(_journal(folder)).size
    if size < stamp.journal.size:
        episodes = pq.ParquetFile(pa.BufferReader(usage)).metadata.num_rows
        warnings.warn(
            f"{shown(_journal(folder))} is shorter than when its tables were made ({size} bytes, then "
            f"{stamp.journal.size} for {episodes} episodes): something else cut it. {JUDGE_AGAIN}",
            stacklevel=2,
        )


class StoredTables:
    """The tables of a run as its journal is now; they stay the same when the run grows."""

    def __init__(self, folder: Path, judge: str, protocol: str) -> None:
        self._folder, self._judge, self._protocol = folder, judge, protocol
        self._in_memory: dict[str, pa.Buffer] = {}
        asked = journal_state(_journal(folder))
        warn_if_cut(folder)
        self._stamp = _current(folder, protocol, asked) or self._update(asked)

    def read(self, name: str, only: pa.Array | None = None) -> pa.Table:
        """Return a table, or its rows of the episodes in ``only``, read a row group at a time."""
        if not self._in_memory:
            if (table := self._stored(name, only)) is not None:
                return table
            self._restore(name)
        if not self._in_memory:
            if (table := self._stored(name, only)) is not None:
                return table
            self._build_in_memory(self._stamp.journal.size)
        return _read(self._in_memory[name], only)

    def columns(self, name: str) -> list[str]:
        """Return the names of a table's columns without reading a row."""
        return list(self.read(name, pa.array([], pa.string())).column_names)

    def _update(self, asked: JournalState) -> Stamp:
        """Write the tables, unless another process has just done so; in memory if the folder is not writable."""
        try:
            with locked(self._folder / LOCK_FILE):
                stamp = _current(self._folder, self._protocol, asked)
                if stamp is not None:
                    return stamp
                size = journal_state(_journal(self._folder)).size
                return _replace(self._folder, size, self._judge, self._protocol)
        except (OSError, RunError) as error:
            _raise_unless_unwritable(error)
            return self._build_in_memory(asked.size)

    def _restore(self, name: str) -> None:
        """Make the tables of this journal again, after one of them was found damaged or replaced."""
        try:
            with locked(self._folder / LOCK_FILE):
                stamp = _stamp_of(_content(self._folder, "usage"))
                ours = stamp is None or stamp.journal == self._stamp.journal
                if ours and self._stored(name) is None:
                    size = self._stamp.journal.size
                    self._stamp = _replace(self._folder, size, self._judge, self._protocol)
                if ours:
                    return
        except (OSError, RunError) as error:
            _raise_unless_unwritable(error)
        self._build_in_memory(self._stamp.journal.size)

    def _build_in_memory(self, size: int) -> Stamp:
        journal = _journal(self._folder)
        sinks = {name: pa.BufferOutputStream() for name in TABLES}
        stamp = build_tables(journal, size, self._judge, self._protocol, sinks)
        self._in_memory = {name: sink.getvalue() for name, sink in sinks.items()}
        return stamp

    def _stored(self, name: str, only: pa.Array | None = None) -> pa.Table | None:
        """Return a table of the folder; ``None`` if it is missing, damaged or made from another journal."""
        content = _content(self._folder, name)
        if content is None:
            return None
        try:
            if name == "usage":
                whole = _stamp_of(content) == self._stamp
            else:
                whole = digest(content) == self._stamp.digests[name]
            if not whole:
                return None
            table = _read(content, only, checksums=name == "usage")
            # The folder is untrusted: its digests may be of tables with other columns.
            return table if has_columns_of(name, table.schema) else None
        except (pa.ArrowException, OSError):
            return None


def _read(content: bytes | pa.Buffer, only: pa.Array | None = None, *, checksums: bool = False) -> pa.Table:
    """Return the table in a file's bytes, or its rows of some episodes.

    Without threads: Arrow's own, which ``pq.read_table`` starts, can abort a process that ends right after it.
    """
    file = pq.ParquetFile(pa.BufferReader(content), page_checksum_verification=checksums)
    if only is None:
        return file.read(use_threads=False)
    found = [file.schema_arrow.empty_table()]
    for number in range(file.num_row_groups if len(only) else 0):
        rows = file.read_row_group(number, use_threads=False)
        found.append(rows.filter(pc.is_in(rows.column("episode_id"), value_set=only)))
    return pa.concat_tables(found)


def _journal(folder: Path) -> Path:
    return folder / "journal.jsonl"


def _current(folder: Path, protocol: str, asked: JournalState) -> Stamp | None:
    """Return the stamp of the stored tables if they are of this run and not older than ``asked``."""
    stamp = _stamp_of(_content(folder, "usage"))
    if stamp is None or stamp.protocol != protocol or stamp.journal.size < asked.size:
        return None
    if state_at(_journal(folder), stamp.journal.size) != stamp.journal:
        return None
    return stamp if all((folder / f"{name}.parquet").is_file() for name in TABLES) else None


def _stamp_of(usage: bytes | None) -> Stamp | None:
    if usage is None:
        return None
    try:
        file = pq.ParquetFile(pa.BufferReader(usage))
        return Stamp.from_metadata(file.metadata.metadata) if file.schema_arrow.equals(USAGE) else None
    except (pa.ArrowException, OSError, ValueError, KeyError):
        return None


def _content(folder: Path, name: str) -> bytes | None:
    """Return a table's file; ``None`` if it cannot be read, or is too large for its journal."""
    path = folder / f"{name}.parquet"
    try:
        most = MOST_BYTES + 2 * check_regular(_journal(folder), RunError).st_size
        return read_bytes(path, RunError, max_bytes=most)
    except RunError:
        return None


def _replace(folder: Path, size: int, judge: str, protocol: str) -> Stamp:
    """Replace the tables, under the lock."""
    remove_leftovers(folder, [f"{name}.parquet" for name in TABLES])
    with ExitStack() as files:
        # An exit stack renames them in the opposite order, so that ``usage`` is replaced last.
        paths = {
            name: files.enter_context(atomic_path(folder / f"{name}.parquet")) for name in reversed(TABLES)
        }
        try:
            return build_tables(_journal(folder), size, judge, protocol, paths)
        except OSError as error:
            raise _cannot_write(folder, error) from error


def _cannot_write(folder: Path, error: OSError) -> RunError:
    return RunError(f"Cannot write the tables of {shown(folder)}: {error.strerror or error}.")


def _raise_unless_unwritable(error: OSError | RunError) -> None:
    """Raise an error again unless the folder is not writable; a damaged journal is damaged in memory too."""
    if isinstance(error, RunError) and not isinstance(error.__cause__, OSError):
        raise error
