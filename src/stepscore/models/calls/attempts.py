"""The record of a run's attempts: what was sent, how it ended and what it cost, over all starts of the run.

It is an SQLite file in the run folder, so that a killed run still knows what it spent. States of an attempt::

    sent        under way, or the process was killed before its end: counts with the most it can cost
    answered    costs what the tokens cost that the server counted
    uncounted   answered, without a possible token count: counts with the most it can cost
    lost        not answered, but perhaps billed: counts with the most it can cost
    refused     refused by the server: costs nothing
    unsent      there was no connection: not counted
"""

from __future__ import annotations

import asyncio
import sqlite3
from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from fractions import Fraction
from pathlib import Path

from stepscore._untrusted import check_regular, shown
from stepscore.errors import RunError

_TABLE = "CREATE TABLE IF NOT EXISTS attempts (id INTEGER PRIMARY KEY, key TEXT, cost REAL, state TEXT)"
_COLUMNS = {"id", "key", "cost", "state"}
STATES = ("sent", "answered", "uncounted", "lost", "refused", "unsent")


@dataclass(frozen=True)
class Spent:
    """Attempts and money of one start, or of all starts.

    ``cost`` is an upper bound unless ``exact`` (the server counted all tokens), and ``None`` without a price.
    """

    attempts: int = 0
    answered: int = 0
    refused: int = 0
    lost: int = 0
    cost: float | None = 0.0
    exact: bool = True


@dataclass
class _Sums:
    """Sums over attempts. The cost is a fraction: adding and subtracting an amount leaves exactly 0."""

    counts: dict[str, int] = field(default_factory=lambda: dict.fromkeys(STATES, 0))
    cost: Fraction = Fraction(0)
    unpriced: int = 0

    def add(self, state: str, cost: float | None, sign: int = 1) -> None:
        """Count an attempt in a state; remove it again with ``sign=-1``."""
        self.counts[state] += sign
        if state == "unsent":
            return
        self.cost += sign * Fraction(max(cost or 0.0, 0.0))
        self.unpriced += sign * (cost is None and state != "refused")

    @property
    def made(self) -> int:
        """Attempts that were sent."""
        return sum(self.counts.values()) - self.counts["unsent"]

    def spent(self) -> Spent:
        """Return the sums as they are reported."""
        n = self.counts
        answered, lost = n["answered"] + n["uncounted"], n["lost"] + n["sent"]
        cost = None if self.unpriced else float(self.cost)
        return Spent(self.made, answered, n["refused"], lost, cost, not (lost + n["uncounted"]))


class OpenAttempts(ABC):
    """The attempts of a run: those under way in this process, and the sums of all.

    The sums stay in memory: adding up the record before each call would take longer than the call.
    """

    def __init__(self) -> None:
        self._sums, self._first = _Sums(), _Sums()
        self._sent: dict[int, float | None] = {}
        self.open = 0  # attempts of this process that are under way
        self._waiting: list[asyncio.Future[None]] = []

    @abstractmethod
    def _record_begin(self, key: str, cost: float | None) -> int:
        """Write a new attempt, and return its number."""

    @abstractmethod
    def _record_end(self, attempt: int, state: str, cost: float | None) -> None:
        """Write how an attempt ended; without a cost its bound stays."""

    @abstractmethod
    def close(self) -> None:
        """Close the record."""

    def spent(self) -> tuple[int, float]:
        """Return attempts made and money spent; lost answers count with their bound."""
        return self._sums.made, float(self._sums.cost)

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
        number = self._record_begin(key, cost)
        self._count_begun(number, cost)
        self.open += 1
        return number

    def end(self, attempt: int, state: str, cost: float | None) -> None:
        """Record how an attempt ended and its cost; ``None`` leaves the bound."""
        billed = None if cost is None else max(cost, 0.0)  # a server cannot give money back
        self._record_end(attempt, state, billed)
        self._count_ended(attempt, state, billed)

    async def one_ended(self) -> None:
        """Wait until an open attempt has ended: it may have cost less than its bound."""
        self._waiting.append(asyncio.get_running_loop().create_future())
        await self._waiting[-1]

    def ended(self) -> None:
        """Count an attempt as over, and wake those who wait."""
        self.open -= 1
        for waiting in self._waiting:
            if not waiting.done():
                waiting.set_result(None)
        self._waiting.clear()

    def _earlier_starts_end(self) -> None:
        """Mark what was counted so far as earlier starts; attempts they left under way count in full."""
        self._sent.clear()
        self._first = _Sums(dict(self._sums.counts), self._sums.cost, self._sums.unpriced)

    def _count_begun(self, number: int, cost: float | None) -> None:
        self._sent[number] = cost
        self._sums.add("sent", cost)

    def _count_ended(self, number: int, state: str, cost: float | None) -> None:
        bound = self._sent.pop(number)
        self._sums.add("sent", bound, -1)
        self._sums.add(state, bound if cost is None else cost)


class Attempts(OpenAttempts):
    """The attempts of a run in an SQLite file; attempts that are there already are of earlier starts."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self._path = path
        if path.exists():
            check_regular(path, RunError)
        try:
            self._db = sqlite3.connect(path, timeout=30, check_same_thread=False, isolation_level=None)
        except (sqlite3.Error, ValueError) as error:
            raise self._broken(error) from error
        self._run("PRAGMA journal_mode=WAL")
        self._run("PRAGMA synchronous=NORMAL")
        self._run(_TABLE)
        if not {row[1] for row in self._run("PRAGMA table_info(attempts)")} >= _COLUMNS:
            raise self._broken("it is the file of another program")
        for state, cost in self._run("SELECT state, cost FROM attempts"):
            known = isinstance(cost, int | float) and cost < float("inf")
            self._sums.add(state if state in STATES else "lost", max(cost, 0.0) if known else None)
        self._earlier_starts_end()

    def close(self) -> None:
        """Close the file."""
        self._db.close()

    def _record_begin(self, key: str, cost: float | None) -> int:
        cursor = self._run("INSERT INTO attempts (key, cost, state) VALUES (?, ?, 'sent')", key, cost)
        return int(cursor.lastrowid or 0)

    def _record_end(self, attempt: int, state: str, cost: float | None) -> None:
        self._run("UPDATE attempts SET state = ?, cost = ifnull(?, cost) WHERE id = ?", state, cost, attempt)

    def _run(self, statement: str, *values: object) -> sqlite3.Cursor:
        try:
            return self._db.execute(statement, values)
        except sqlite3.Error as error:
            raise self._broken(error) from error

    def _broken(self, error: Exception | str) -> RunError:
        return RunError(
            f"Cannot use {shown(self._path)}: {error}. It records what the run has spent, and no call is made "
            "without it. If the disk is full, free some space and rerun the command; if the file is damaged, "
            "restore a copy, or remove it to count from 0."
        )
