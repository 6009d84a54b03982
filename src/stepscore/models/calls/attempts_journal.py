"""The record of attempts as a file of lines, for folders on a file system that many machines share.

SQLite needs locks and memory that processes share, which such a file system may not have. Here every attempt is a
line before it is sent, and its end is another one; sums are kept in memory by the one process that writes. States and
their meaning are those of ``attempts.py``.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from fractions import Fraction
from pathlib import Path
from typing import Any

from stepscore._appending import MAX_LINE_BYTES, LineFile
from stepscore._reading import parse_json, shown
from stepscore.errors import RunError
from stepscore.models.calls.attempts import OpenAttempts, Spent

STATES = ("sent", "answered", "uncounted", "lost", "refused", "unsent")


@dataclass
class _Sums:
    """Sums over attempts. The cost is exact, so that what is added and taken away again leaves nothing."""

    counts: dict[str, int] = field(default_factory=lambda: dict.fromkeys(STATES, 0))
    cost: Fraction = Fraction(0)
    unpriced: int = 0

    def add(self, state: str, cost: float | None, sign: int = 1) -> None:
        """Count an attempt in a state, or take it away again."""
        self.counts[state] += sign
        if state == "unsent":
            return
        self.cost += sign * Fraction(cost or 0.0)
        self.unpriced += sign * (cost is None and state != "refused")

    def spent(self) -> Spent:
        """Return them as they are reported."""
        n = self.counts
        answered, lost = n["answered"] + n["uncounted"], n["lost"] + n["sent"]
        made = answered + lost + n["refused"]
        cost = None if self.unpriced else float(self.cost)
        return Spent(made, answered, n["refused"], lost, cost, not (lost + n["uncounted"]))


class AttemptsJournal(OpenAttempts):
    """The attempts of a run, in a file of lines. What was there before counts as earlier starts.

    Args:
        path: The file.
        check: Called before each line; raises where the folder is no longer this process's.
    """

    def __init__(self, path: Path, check: Callable[[], None] = lambda: None) -> None:
        super().__init__()
        self._sums, self._first = _Sums(), _Sums()
        self._sent: dict[int, float | None] = {}
        self._number = 0
        self._lines = LineFile(path, check=check, sync=True)
        self._lines.drop_torn_line()
        self._read(path)
        # Those of a killed process stay under way for ever: they count with the most they can cost.
        self._sent.clear()
        self._first = _Sums(dict(self._sums.counts), self._sums.cost, self._sums.unpriced)

    def spent(self) -> tuple[int, float]:
        """Return attempts made and money spent; a lost answer counts with the most it can have cost."""
        return self._sums.spent().attempts, float(self._sums.cost)

    def total(self) -> Spent:
        """Return what all starts of the run spent."""
        return self._sums.spent()

    def this_start(self) -> Spent:
        """Return what was spent since this object was made."""
        now, before = self._sums, self._first
        counts = {state: now.counts[state] - before.counts[state] for state in STATES}
        return _Sums(counts, now.cost - before.cost, now.unpriced - before.unpriced).spent()

    def begin(self, key: str, cost: float | None) -> int:
        """Record an attempt before it is sent, and return its number."""
        number = self._number + 1
        self._append({"attempt": number, "key": key, "cost": cost})
        self._begun(number, cost)
        self.begun()
        return number

    def end(self, attempt: int, state: str, cost: float | None) -> None:
        """Record how an attempt ended and its cost; where that is not known, the upper bound stays."""
        billed = None if cost is None else max(cost, 0.0)  # nothing is given back
        self._append({"ended": attempt, "state": state, "cost": billed})
        self._ended(attempt, state, billed)

    def close(self) -> None:
        """Close the file."""
        self._lines.close()

    def _begun(self, number: int, cost: float | None) -> None:
        self._number = max(self._number, number)
        self._sent[number] = cost
        self._sums.add("sent", cost)

    def _ended(self, number: int, state: str, cost: float | None) -> None:
        bound = self._sent.pop(number)
        self._sums.add("sent", bound, -1)
        self._sums.add(state, bound if cost is None else cost)

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
                        f"{where} is damaged ({type(error).__name__}). The file holds what the run has spent, and "
                        "without it no call is made. Put back a copy, or remove it to count from 0."
                    ) from error

    def _take(self, record: Any) -> None:
        cost = record["cost"]
        if cost is not None and not (isinstance(cost, int | float) and 0 <= cost < float("inf")):
            raise ValueError("a cost that is none")
        if "attempt" in record:
            self._begun(int(record["attempt"]), cost)
        elif record["state"] in STATES:
            self._ended(int(record["ended"]), record["state"], cost)
        else:
            raise ValueError("an unknown state")
