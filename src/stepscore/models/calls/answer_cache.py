"""The call cache: answers already paid for, in one SQLite file, by the key of their call.

The key (``call.py``) hashes all that decides an answer, so a hit needs no decoding. Values are JSON; nothing is ever
unpickled. Several processes may share the file, with a claim on each call under way (``claims.py``). An unreadable
value is replaced: its call is made again.
"""

from __future__ import annotations

import json
import sqlite3
import threading
import time
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from stepscore._files import user_cache_folder
from stepscore._untrusted import check_regular, parse_json, shown
from stepscore.errors import RunError
from stepscore.models.calls.claims import CLAIM_S, is_dead

MAX_VALUE_BYTES = 1 << 26
"""Longest cached value that is unpacked, in bytes."""

WAL_ATTEMPTS, WAL_PAUSE_S = 100, 0.1
"""Tries, and seconds between them, to open a cache that another process is creating."""

_TABLES = """
CREATE TABLE IF NOT EXISTS calls (
  key TEXT PRIMARY KEY, model TEXT NOT NULL, created TEXT NOT NULL, value BLOB NOT NULL
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS claims (key TEXT PRIMARY KEY, owner TEXT NOT NULL, until REAL NOT NULL) WITHOUT ROWID;
"""
_COLUMNS = {"calls": {"key", "model", "created", "value"}, "claims": {"key", "owner", "until"}}


def default_path() -> Path:
    """Return ``calls.sqlite`` in ``$STEPSCORE_CACHE``, else in the user's cache folder."""
    return user_cache_folder() / "calls.sqlite"


@dataclass(frozen=True)
class ModelCalls:
    """Number, size and dates of the cached answers of one model."""

    model: str
    calls: int
    bytes: int
    oldest: str
    newest: str


class CallCache:
    """Answers by key. Safe to use from several threads and processes."""

    def __init__(self, path: Path | None = None) -> None:
        self.path = path or default_path()
        self._lock = threading.Lock()
        try:
            if self.path.exists():
                check_regular(self.path, RunError)
            self.path.parent.mkdir(parents=True, exist_ok=True)
            self._db = sqlite3.connect(self.path, timeout=30, check_same_thread=False, isolation_level=None)
            self._check_tables()
            self._use_wal()
            self._db.execute("PRAGMA synchronous=NORMAL")
            self._db.executescript(_TABLES)
        except (OSError, ValueError, sqlite3.Error) as error:
            raise self._broken(error) from error

    def _use_wal(self) -> None:
        """Switch to a write-ahead log; SQLite itself does not wait for another process that switches now."""
        for attempt in range(WAL_ATTEMPTS):
            try:
                self._db.execute("PRAGMA journal_mode=WAL")
                return
            except sqlite3.OperationalError as error:
                if "locked" not in str(error) or attempt == WAL_ATTEMPTS - 1:
                    raise
                time.sleep(WAL_PAUSE_S)

    def _check_tables(self) -> None:
        """Raise an error for another program's database, before anything is written to it."""
        names = {row[0] for row in self._db.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
        for name in names & _COLUMNS.keys():
            if not {row[1] for row in self._db.execute(f"PRAGMA table_info({name})")} >= _COLUMNS[name]:
                raise self._broken("it is the database of another program")
        if names and "calls" not in names:
            raise self._broken("it is the database of another program")

    def _broken(self, error: Exception | str) -> RunError:
        return RunError(
            f"Cannot use the call cache {shown(self.path)}: {error}. "
            "Set STEPSCORE_CACHE to another folder, judge with -E cache=false, or remove a damaged file."
        )

    def _run(self, statement: str, *values: object) -> tuple[list[Any], int]:
        """Return the rows of a statement, and the number of rows it changed."""
        try:
            with self._lock:
                cursor = self._db.execute(statement, values)
                return cursor.fetchall(), cursor.rowcount
        except sqlite3.Error as error:
            raise self._broken(error) from error

    def get(self, key: str) -> dict[str, Any] | None:
        """Return the cached answer; ``None`` if there is no readable one."""
        rows, _ = self._run("SELECT value FROM calls WHERE key = ?", key)
        if not rows:
            return None
        if (value := _unpacked(rows[0][0])) is None:
            self.forget(key)
        return value

    def put(self, key: str, model: str, value: dict[str, Any]) -> None:
        """Store an answer, unless another process that asked at the same time already stored its own."""
        packed = zlib.compress(json.dumps(value, allow_nan=False).encode(), 6)
        now = datetime.now(UTC).isoformat(timespec="seconds")
        self._run("INSERT OR IGNORE INTO calls VALUES (?, ?, ?, ?)", key, model, now, packed)

    def forget(self, key: str) -> None:
        """Delete an unusable answer, so that the next one can take its place."""
        self._run("DELETE FROM calls WHERE key = ?", key)

    def claim(self, key: str, owner: str, until: float) -> bool:
        """Claim a call before it is made, or renew the claim; ``False`` while another owner's claim is valid."""
        for found, _ in self._run("SELECT owner, until FROM claims WHERE key = ?", key)[0]:
            if found != owner and is_dead(str(found)):
                self.release(key, found)
        now = until - CLAIM_S
        # A claim that expires later than any claim can was made while the clock was wrong.
        _, changed = self._run(
            "INSERT INTO claims VALUES (?, ?, ?) ON CONFLICT (key) DO UPDATE "
            "SET owner = excluded.owner, until = excluded.until "
            "WHERE owner = excluded.owner OR until < ? OR until > ?",
            *(key, owner, until, now, now + 2 * CLAIM_S),
        )
        return changed > 0

    def release(self, key: str, owner: str) -> None:
        """Give a claim back."""
        self._run("DELETE FROM claims WHERE key = ? AND owner = ?", key, owner)

    def stats(self) -> list[ModelCalls]:
        """Return number, size and dates of the answers by model."""
        rows, _ = self._run(
            "SELECT COALESCE(CAST(model AS TEXT), ''), COUNT(*), COALESCE(SUM(LENGTH(value)), 0), "
            "COALESCE(CAST(MIN(created) AS TEXT), ''), COALESCE(CAST(MAX(created) AS TEXT), '') "
            "FROM calls GROUP BY 1"
        )
        return [ModelCalls(*row) for row in rows]

    def prune(self, *, model: str | None = None, before: str | None = None) -> int:
        """Delete the answers of a model, or those older than an ISO date, or both; return their number."""
        query = "DELETE FROM calls WHERE ifnull(model = ?, TRUE) AND ifnull(created < ?, TRUE)"
        _, deleted = self._run(query, model, before)
        self._run("VACUUM")
        return deleted

    def rows(self) -> Iterator[dict[str, Any]]:
        """Yield every readable answer with its key, model and date, ordered by key."""
        keys, _ = self._run("SELECT key FROM calls ORDER BY key")
        for (key,) in keys:
            found, _ = self._run("SELECT model, created, value FROM calls WHERE key = ?", key)
            for model, created, packed in found:
                if (value := _unpacked(packed)) is not None:
                    yield {"key": key, "model": model, "created": created, **value}

    def close(self) -> None:
        """Close the file."""
        with self._lock:
            self._db.close()


def _unpacked(packed: object) -> dict[str, Any] | None:
    """Return a stored value; ``None`` if it is damaged, too long, or not a JSON object."""
    if not isinstance(packed, bytes):
        return None
    try:
        reading = zlib.decompressobj()
        text = reading.decompress(packed, MAX_VALUE_BYTES)
        value = parse_json(text, "", RunError) if reading.eof else None
    except (zlib.error, RunError):
        return None
    return value if isinstance(value, dict) else None
