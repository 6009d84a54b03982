"""The record of attempts as a file of lines, for folders on a file system that machines share.

SQLite needs locks and shared memory, which such a file system may not have. Here every attempt is a line before it
is sent, and its end is another line. For the states see ``attempts.py``.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from stepscore._journals import MAX_LINE_BYTES, LineFile
from stepscore._reading import parse_json, shown
from stepscore.errors import RunError
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
