"""The tables of a run folder: which of them are current, who writes them, and how a run reads them.

Any number of processes may read a folder while one judges into it. Files are replaced under the lock of
``tables.lock`` alone. ``usage.parquet`` is replaced last and names the digests of the others, so a reader needs no
lock: a table whose digest is another one is damaged, or belongs to a longer journal. The reader then makes its
tables anew: in the folder if they are still those of its journal, else, or where it cannot write, in memory.
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
"""Most bytes of a table beyond twice those of its journal, which holds the same numbers as text."""


def write_tables(folder: Path, judge: str, protocol: str) -> Stamp:
    """Write all tables from the folder's journal as it is now; waits for another process that does so.

    Args:
        folder: The run folder.
        judge: The judge's name.
        protocol: The protocol's hash.
    """
    try:
        with locked(folder / LOCK_FILE):
            return _replace(folder, journal_state(_journal(folder)).size, judge, protocol)
    except OSError as error:
        if error.errno in NO_LOCKS:  # the journal's lease keeps other writers out, and readers make their own
            return _replace(folder, journal_state(_journal(folder)).size, judge, protocol)
        raise _cannot_write(folder, error) from error


def warn_if_cut(folder: Path) -> None:
    """Warn if the journal is shorter than when the tables were made: another process has cut it."""
    usage = _content(folder, "usage")
    stamp = _stamp_of(usage) if usage is not None else None
    if usage is None or stamp is None:
        return
    size = journal_state(_journal(folder)).size
    if size < stamp.journal.size:
        episodes = pq.ParquetFile(pa.BufferReader(usage)).metadata.num_rows
        warnings.warn(
            f"{shown(_journal(folder))} is shorter than when its tables were made ({size} bytes, then "
            f"{stamp.journal.size} for {episodes} episodes). Something else cut it. {JUDGE_AGAIN}",
            stacklevel=2,
        )


def tables_are_current(folder: Path, protocol: str) -> bool:
    """Return whether the tables were made from the journal as it is now."""
    return _current(folder, protocol, journal_state(_journal(folder))) is not None


class StoredTables:
    """The tables of a run as its journal was when this was made; they stay so however the run grows.

    Args:
        folder: The run folder.
        judge: The judge's name.
        protocol: The protocol's hash.
    """

    def __init__(self, folder: Path, judge: str, protocol: str) -> None:
        self._folder, self._judge, self._protocol = folder, judge, protocol
        self._in_memory: dict[str, pa.Buffer] = {}
        asked = journal_state(_journal(folder))
        warn_if_cut(folder)
        self._stamp = _current(folder, protocol, asked) or self._update(asked)

    def read(self, name: str, only: pa.Array | None = None) -> pa.Table:
        """Return a table.

        Args:
            name: The table.
            only: Ids of the episodes to keep, all if not given: the others are in memory a row group at a time.
        """
        if not self._in_memory:
            table = self._stored(name, only)
            if table is None:
                self._restore(name)
                table = None if self._in_memory else self._stored(name, only)
            if table is not None:
                return table
        if not self._in_memory:
            self._build_in_memory(self._stamp.journal.size)
        return _read(self._in_memory[name], only)

    def columns(self, name: str) -> list[str]:
        """Return the names of a table's columns; no row is read."""
        return list(self.read(name, pa.array([], pa.string())).column_names)

    def _update(self, asked: JournalState) -> Stamp:
        """Write the tables, unless another process has just done so; in memory where they cannot be written."""
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
        """Make the tables of this journal anew, after one of them was found damaged or replaced."""
        try:
            with locked(self._folder / LOCK_FILE):
                stamp = _stored_stamp(self._folder)
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
        """Return a table of the folder; ``None`` where it is missing, damaged or made from another journal."""
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
            # Whoever made the folder may have written digests of other tables.
            return table if has_columns_of(name, table.schema) else None
        except (pa.ArrowException, OSError):
            return None


def _read(content: bytes | pa.Buffer, only: pa.Array | None = None, *, checksums: bool = False) -> pa.Table:
    """Return the table of a file's bytes, or its rows of some episodes, read by this thread alone.

    ``pq.read_table`` starts threads of Arrow's own; a process that ends right after it may be aborted by them.
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
    """Return the stamp of the stored tables, if they are of this run and as new as asked for; else ``None``."""
    stamp = _stored_stamp(folder)
    if stamp is None or stamp.protocol != protocol or stamp.journal.size < asked.size:
        return None
    if state_at(_journal(folder), stamp.journal.size) != stamp.journal:
        return None
    return stamp if all((folder / f"{name}.parquet").is_file() for name in TABLES) else None


def _stored_stamp(folder: Path) -> Stamp | None:
    content = _content(folder, "usage")
    return _stamp_of(content) if content is not None else None


def _stamp_of(usage: bytes) -> Stamp | None:
    try:
        file = pq.ParquetFile(pa.BufferReader(usage))
        return Stamp.from_metadata(file.metadata.metadata) if file.schema_arrow.equals(USAGE) else None
    except (pa.ArrowException, OSError, ValueError, KeyError):
        return None


def _content(folder: Path, name: str) -> bytes | None:
    """Return a table's file; ``None`` where it cannot be read, or has more bytes than its journal can have become."""
    path = folder / f"{name}.parquet"
    try:
        most = MOST_BYTES + 2 * check_regular(_journal(folder), RunError).st_size
        return read_bytes(path, RunError, max_bytes=most)
    except RunError:
        return None


def _replace(folder: Path, size: int, judge: str, protocol: str) -> Stamp:
    """Replace the tables; the caller holds the lock."""
    names = [f"{name}.parquet" for name in TABLES]
    remove_leftovers(folder, names)
    with ExitStack() as files:
        # They get their names in the opposite order, so ``usage`` comes first here and last there.
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
    """Raise an error again unless the folder could not be written; a damaged journal is damaged in memory too."""
    if isinstance(error, RunError) and not isinstance(error.__cause__, OSError):
        raise error
