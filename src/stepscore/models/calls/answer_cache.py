"""The call cache: answers already paid for, in one sqlite file, by the key of their call.

The key (``keys.py``) is a hash of all that decides an answer (episode fingerprint, frames, prompt, sampling,
model), so a hit needs no decoding. Values are JSON; nothing is ever unpickled. Several processes may share the
file.
"""

from __future__ import annotations

import json
import os
import sqlite3
import threading
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from stepscore.errors import RunError

_TABLE = """
CREATE TABLE IF NOT EXISTS calls (
  key TEXT PRIMARY KEY, model TEXT NOT NULL, created TEXT NOT NULL, value BLOB NOT NULL
) WITHOUT ROWID
"""


def default_path() -> Path:
    """Return ``calls.sqlite`` in ``$STEPSCORE_CACHE``, else in the user's cache folder."""
    if folder := os.environ.get("STEPSCORE_CACHE"):
        return Path(folder) / "calls.sqlite"
    base = os.environ.get("LOCALAPPDATA") or os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base) / "stepscore" / "calls.sqlite"


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
            self.path.parent.mkdir(parents=True, exist_ok=True)
            self._db = sqlite3.connect(self.path, timeout=30, check_same_thread=False, isolation_level=None)
            self._db.execute("PRAGMA journal_mode=WAL")
            self._db.execute("PRAGMA synchronous=NORMAL")
            self._db.execute(_TABLE)
        except (OSError, sqlite3.Error) as error:
            raise self._broken(error) from error

    def _broken(self, error: Exception) -> RunError:
        return RunError(
            f"Cannot use the call cache {self.path}: {error}. "
            "Set STEPSCORE_CACHE to another folder, or judge with --no-cache."
        )

    def get(self, key: str) -> dict[str, Any] | None:
        """Return the cached answer, or ``None``."""
        try:
            with self._lock:
                row = self._db.execute("SELECT value FROM calls WHERE key = ?", (key,)).fetchone()
            if row is None:
                return None
            value: dict[str, Any] = json.loads(zlib.decompress(row[0]))
        except (sqlite3.Error, zlib.error, ValueError) as error:
            raise self._broken(error) from error
        return value

    def put(self, key: str, model: str, value: dict[str, Any]) -> None:
        """Store an answer; where two processes asked at the same time, the first one stays."""
        packed = zlib.compress(json.dumps(value, allow_nan=False).encode(), 6)
        now = datetime.now(UTC).isoformat(timespec="seconds")
        try:
            with self._lock:
                self._db.execute("INSERT OR IGNORE INTO calls VALUES (?, ?, ?, ?)", (key, model, now, packed))
        except sqlite3.Error as error:
            raise self._broken(error) from error

    def stats(self) -> list[ModelCalls]:
        """Return what is cached, by model."""
        query = (
            "SELECT model, COUNT(*), SUM(LENGTH(value)), MIN(created), MAX(created) FROM calls GROUP BY model"
        )
        with self._lock:
            return [ModelCalls(*row) for row in self._db.execute(query).fetchall()]

    def prune(self, *, model: str | None = None, before: str | None = None) -> int:
        """Delete the answers of a model, or those older than an ISO date, or both; return how many were deleted."""
        wanted = [("model = ?", model), ("created < ?", before)]
        given = [(clause, value) for clause, value in wanted if value is not None]
        where = " AND ".join(clause for clause, _ in given)
        with self._lock:
            query = f"DELETE FROM calls{f' WHERE {where}' if where else ''}"
            deleted = self._db.execute(query, [value for _, value in given]).rowcount
            self._db.execute("VACUUM")
        return deleted

    def rows(self) -> Iterator[dict[str, Any]]:
        """Yield every answer with its key, model and date, ordered by key."""
        with self._lock:
            found = self._db.execute("SELECT key, model, created, value FROM calls ORDER BY key").fetchall()
        for key, model, created, value in found:
            yield {"key": key, "model": model, "created": created, **json.loads(zlib.decompress(value))}

    def close(self) -> None:
        """Close the file."""
        with self._lock:
            self._db.close()
