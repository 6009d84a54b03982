"""Attempts and answers as files of lines, in a folder on a file system that machines share.

SQLite needs locks and shared memory, which such a file system may not have. :class:`AttemptsJournal` writes a line
before an attempt is sent, and another when it ends; for the states see ``attempts.py``. The user's cache is on one
machine. If a shard died and is rerun on another, :class:`SharedAnswers` has the answers to calls of its unfinished
episodes; its file is removed when the shard has judged all its episodes.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from stepscore._journals import MAX_LINE_BYTES, LineFile
from stepscore._untrusted import parse_json, shown
from stepscore.errors import RunError
from stepscore.models.calls.answer_cache import CallCache
from stepscore.models.calls.attempts import STATES, OpenAttempts


class AttemptsJournal(OpenAttempts):
    """The attempts of a run in a file of lines; ``check`` raises if another process has taken over the folder."""

    def __init__(self, path: Path, check: Callable[[], None] = lambda: None) -> None:
        super().__init__()
        self._number = 0
        self._lines = LineFile(path, check=check, sync=True)
        self._lines.drop_torn_line()
        self._read(path)
        self._earlier_starts_end()

    def close(self) -> None:
        """Close the file."""
        self._lines.close()

    def _record_begin(self, key: str, cost: float | None) -> int:
        self._append({"attempt": self._number + 1, "key": key, "cost": cost})
        self._number += 1
        return self._number

    def _record_end(self, attempt: int, state: str, cost: float | None) -> None:
        self._append({"ended": attempt, "state": state, "cost": cost})

    def _append(self, record: dict[str, Any]) -> None:
        self._lines.append(json.dumps(record, separators=(",", ":")).encode() + b"\n")

    def _read(self, path: Path) -> None:
        with path.open("rb") as file:
            for number, line in enumerate(iter(lambda: file.readline(MAX_LINE_BYTES), b""), 1):
                where = f"{shown(path)}, line {number}"
                record = parse_json(line, where, RunError)
                try:
                    self._take(record)
                except (AttributeError, KeyError, TypeError, ValueError) as error:
                    raise RunError(
                        f"{where} is damaged ({type(error).__name__}). The file records what the run has spent, and "
                        "no call is made without it. Restore a copy, or remove it to count from 0."
                    ) from error

    def _take(self, record: Any) -> None:
        cost = record["cost"]
        if cost is not None and not (isinstance(cost, int | float) and 0 <= cost < float("inf")):
            raise ValueError("invalid cost")
        if "attempt" in record:
            self._number = max(self._number, int(record["attempt"]))
            self._count_begun(int(record["attempt"]), cost)
        elif record["state"] in STATES:
            self._count_ended(int(record["ended"]), record["state"], cost)
        else:
            raise ValueError("an unknown state")


class SharedAnswers:
    """The call cache plus the answers in a file of the run folder, with the methods of :class:`CallCache`.

    ``check`` is called before each line; it raises if another process has taken over the folder.
    """

    def __init__(self, cache: CallCache, path: Path, check: Callable[[], None] = lambda: None) -> None:
        self.path, self._cache = path, cache
        self.claim, self.release = cache.claim, cache.release  # claims stay on one machine
        self._lines = LineFile(path, check=check, sync=True)
        self._lines.drop_torn_line()
        self._offsets: dict[str, int] = {}
        with path.open("rb") as file:
            while line := file.readline(MAX_LINE_BYTES):
                if (record := _record(line)) is not None:
                    self._offsets[record["key"]] = file.tell() - len(line)

    def get(self, key: str) -> dict[str, Any] | None:
        """Return the answer to a call; ``None`` if there is no readable one."""
        found = self._cache.get(key)
        if found is not None or key not in self._offsets:
            return found
        with self.path.open("rb") as file:
            file.seek(self._offsets[key])
            record = _record(file.readline(MAX_LINE_BYTES))
        return None if record is None else record["answer"]

    def put(self, key: str, model: str, value: dict[str, Any]) -> None:
        """Store an answer in both places; first in the folder, which another machine reads."""
        line = json.dumps({"key": key, "answer": value}, allow_nan=False).encode() + b"\n"
        if len(line) <= MAX_LINE_BYTES:
            self._offsets[key] = self._lines.append(line)
        self._cache.put(key, model, value)

    def forget(self, key: str) -> None:
        """Forget an unusable answer."""
        self._offsets.pop(key, None)
        self._cache.forget(key)

    def close(self) -> None:
        """Close both files."""
        self._lines.close()
        self._cache.close()


def _record(line: bytes) -> dict[str, Any] | None:
    """Return the record of a line; ``None`` if it is damaged, and its call is made again."""
    try:
        record = parse_json(line, "", RunError)
    except RunError:
        return None
    if not isinstance(record, dict) or not isinstance(record.get("key"), str):
        return None
    return record if isinstance(record.get("answer"), dict) else None
