"""Read tables of an untrusted SQLite file without running anything in it.

The file is opened read-only. It is assumed not to change, so no locks or auxiliary files are used. If recent
rows are still in a write-ahead log, the file and the log are copied, and the copy is read. Only ordinary
tables are read, because views, virtual tables and triggers could run code chosen by the file's author.
Extensions are not loaded, functions in the schema are not trusted, and the size of values and the cost of a
query are limited.
"""

from __future__ import annotations

import shutil
import sqlite3
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from urllib.parse import quote

from stepscore._untrusted import check_regular, shown
from stepscore.errors import SourceError

HEADER = b"SQLite format 3\x00"
MAX_ROWS = 1_000_000
"""Largest number of rows read from a table."""
MAX_CELL_BYTES = 1 << 24
"""Largest size of a value, in bytes."""
MAX_COPIED_BYTES = 1 << 31
"""Largest size, in bytes, of a file with a write-ahead log, which has to be copied."""
STEPS_PER_CHECK, MAX_CHECKS = 1_000_000, 2_000
"""SQLite virtual machine steps between two checks, and checks per query; together about ten seconds."""

Cell = str | int | float | bytes | None
_ALLOWED = frozenset({sqlite3.SQLITE_SELECT, sqlite3.SQLITE_READ})


def is_sqlite(path: Path) -> bool:
    """Return whether a file has SQLite's signature; never raises."""
    try:
        with path.open("rb") as file:
            return path.is_file() and file.read(len(HEADER)) == HEADER
    except (OSError, ValueError):
        return False


def read_tables(path: Path, wanted: Mapping[str, Sequence[str]]) -> dict[str, list[dict[str, Cell]]]:
    """Return the rows of tables in stored order.

    Args:
        path: The file.
        wanted: Columns to read, by table; a column missing from the table is ``None`` in every row.

    Raises:
        SourceError: The file is not a SQLite file, is damaged or lacks a table, or a limit is reached.
    """
    check_regular(path, SourceError)
    if not is_sqlite(path):
        raise SourceError(f"{shown(path)} is not a SQLite file.")
    try:
        with _opened(path) as connection:
            found = {table: _columns(connection, table, path) for table in wanted}
            connection.set_authorizer(_authorize)
            return {
                table: _rows(
                    connection, table, [name for name in columns if name in found[table]], columns, path
                )
                for table, columns in wanted.items()
            }
    except (sqlite3.Error, OverflowError, MemoryError) as error:
        raise SourceError(f"{shown(path)} cannot be read ({shown(str(error))}).") from error


@contextmanager
def _opened(path: Path) -> Iterator[sqlite3.Connection]:
    log = path.with_name(f"{path.name}-wal")
    if not log.is_file() or not log.stat().st_size:
        with closing(_connect(path)) as connection:
            yield connection
        return
    size = sum(check_regular(file, SourceError).st_size for file in (path, log))
    if size > MAX_COPIED_BYTES:
        raise SourceError(
            f"{shown(path)} has a write-ahead log, and {size >> 20} MiB are too many to copy. Write it back first: "
            f'sqlite3 FILE "PRAGMA wal_checkpoint(TRUNCATE)"'
        )
    with tempfile.TemporaryDirectory(prefix="stepscore-") as folder:
        copy = Path(folder) / "copy.sqlite"
        shutil.copyfile(path, copy)
        shutil.copyfile(log, copy.with_name(f"{copy.name}-wal"))
        with closing(_connect(copy, immutable=False)) as connection:
            yield connection


def _connect(path: Path, *, immutable: bool = True) -> sqlite3.Connection:
    options = "mode=ro&immutable=1" if immutable else "mode=rw"  # our copy may merge its log
    connection = sqlite3.connect(f"file:{quote(str(path.resolve()))}?{options}", uri=True, timeout=5.0)
    connection.text_factory = lambda content: content.decode("utf-8", "replace")
    connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, MAX_CELL_BYTES)
    connection.setlimit(sqlite3.SQLITE_LIMIT_ATTACHED, 0)
    for pragma in ("trusted_schema = OFF", "query_only = ON", "cell_size_check = ON", "mmap_size = 0"):
        connection.execute(f"PRAGMA {pragma}")
    checks = iter(range(MAX_CHECKS))
    connection.set_progress_handler(lambda: next(checks, None) is None, STEPS_PER_CHECK)
    return connection


def _authorize(action: int, *_: object) -> int:
    return sqlite3.SQLITE_OK if action in _ALLOWED else sqlite3.SQLITE_DENY


def _columns(connection: sqlite3.Connection, table: str, path: Path) -> set[str]:
    """Return the ordinary columns of an ordinary table."""
    made = connection.execute(
        "SELECT type, rootpage, sql FROM sqlite_master WHERE name = ? LIMIT 2", (table,)
    ).fetchall()
    if len(made) != 1 or made[0][0] != "table" or not made[0][1]:
        raise SourceError(f"{shown(path)} has no table {table!r}.")
    rows = connection.execute(f'PRAGMA table_xinfo("{table}")').fetchall()
    return {str(row[1]) for row in rows if row[6] == 0}  # neither hidden nor generated


def _rows(
    connection: sqlite3.Connection, table: str, present: Sequence[str], columns: Sequence[str], path: Path
) -> list[dict[str, Cell]]:
    if not present:
        raise SourceError(f"{shown(path)}: the table {table!r} has none of the columns {', '.join(columns)}.")
    named = ", ".join(f'"{name}"' for name in present)
    found = connection.execute(f'SELECT {named} FROM "{table}"').fetchmany(MAX_ROWS + 1)
    if len(found) > MAX_ROWS:
        raise SourceError(f"{shown(path)}: the table {table!r} has more than {MAX_ROWS} rows.")
    blank: dict[str, Cell] = dict.fromkeys(columns)
    return [blank | dict(zip(present, row, strict=True)) for row in found]
