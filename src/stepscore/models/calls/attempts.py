"""The record of a run's attempts: what was sent, how it ended and what it cost, over all starts of the run.

It is one sqlite file of the run folder, so that a killed run still knows what it spent. An attempt's state is::

    sent        under way, or the process was killed before its end: counts with the most it can cost
    answered    its cost is that of the tokens the server counted
    uncounted   answered, without a count that can be true: counts with the most it can cost
    lost        no answer came, and it may have been billed: counts with the most it can cost
    refused     the server refused it: costs nothing
    unsent      there was no connection: no attempt at all, and not counted
"""

from __future__ import annotations

import asyncio
import sqlite3
from abc import ABC, abstractmethod
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path

from stepscore._reading import check_regular, shown
from stepscore.errors import RunError

_TABLE = "CREATE TABLE IF NOT EXISTS attempts (id INTEGER PRIMARY KEY, key TEXT, cost REAL, state TEXT)"
_COLUMNS = {"id", "key", "cost", "state"}


@dataclass(frozen=True)
class Spent:
    """Attempts and money, of one start or of all.

    Attributes:
        attempts: Requests that were sent.
        answered: Those that were answered.
        refused: Those that the server refused, which cost nothing.
        lost: Those whose answer was lost.
        cost: What they cost, at most where ``exact`` is false; ``None`` where a price was not known.
        exact: Whether the server counted the tokens of all of them.
    """

    attempts: int = 0
    answered: int = 0
    refused: int = 0
    lost: int = 0
    cost: float | None = 0.0
    exact: bool = True


class OpenAttempts(ABC):
    """The attempts of a run: those that this process has under way, and the record of all."""

    def __init__(self) -> None:
        self._open = 0
        self._waiting: list[asyncio.Future[None]] = []

    @abstractmethod
    def spent(self) -> tuple[int, float]:
        """Return attempts made and money spent; a lost answer counts with the most it can have cost."""

    @abstractmethod
    def total(self) -> Spent:
        """Return what all starts of the run spent."""

    @abstractmethod
    def this_start(self) -> Spent:
        """Return what was spent since this object was made."""

    @abstractmethod
    def begin(self, key: str, cost: float | None) -> int:
        """Record an attempt before it is sent, and return its number."""

    @abstractmethod
    def end(self, attempt: int, state: str, cost: float | None) -> None:
        """Record how an attempt ended and its cost; where that is not known, the upper bound stays."""

    @abstractmethod
    def close(self) -> None:
        """Close the record."""

    @property
    def open(self) -> int:
        """Number of attempts of this process that are under way."""
        return self._open

    def begun(self) -> None:
        """Count an attempt as under way."""
        self._open += 1

    async def one_ended(self) -> None:
        """Wait until an open attempt has ended: it may have cost less than the most it could."""
        self._waiting.append(asyncio.get_running_loop().create_future())
        await self._waiting[-1]

    def ended(self) -> None:
        """Count an attempt as over, however it ended, and wake those who wait."""
        self._open -= 1
        for waiting in self._waiting:
            if not waiting.done():
                waiting.set_result(None)
        self._waiting.clear()


class Attempts(OpenAttempts):
    """The attempts of a run, in a sqlite file of its folder. What was there before counts as earlier starts."""

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
        self._first = int(self._run("SELECT ifnull(MAX(id), 0) FROM attempts").fetchone()[0])
        row = self._run(
            "SELECT COUNT(*), TOTAL(max(cost, 0)) FROM attempts WHERE state <> 'unsent'"
        ).fetchone()
        # Sums of this start are kept here: to add up the file before each of many calls takes longer than the calls.
        self._made_before, self._paid_before = int(row[0]), float(row[1])
        self._made, self._paid = 0, Fraction(0)
        self._bounds: dict[int, Fraction] = {}

    def spent(self) -> tuple[int, float]:
        """Return attempts made and money spent; a lost answer counts with the most it can have cost."""
        return self._made_before + self._made, self._paid_before + float(self._paid)

    def total(self) -> Spent:
        """Return what all starts of the run spent."""
        return self._spent_after(0)

    def this_start(self) -> Spent:
        """Return what was spent since this object was made."""
        return self._spent_after(self._first)

    def _spent_after(self, number: int) -> Spent:
        row = self._run(
            "SELECT COUNT(*), TOTAL(state IN ('answered', 'uncounted')), TOTAL(state = 'refused'), "
            "TOTAL(state IN ('lost', 'sent')), TOTAL(max(cost, 0)), TOTAL(cost IS NULL AND state <> 'refused'), "
            "TOTAL(state IN ('lost', 'sent', 'uncounted')) "
            "FROM attempts WHERE state <> 'unsent' AND id > ?",
            number,
        ).fetchone()
        made, answered, refused, lost = map(int, row[:4])
        return Spent(made, answered, refused, lost, None if row[5] else float(row[4]), not row[6])

    def begin(self, key: str, cost: float | None) -> int:
        """Record an attempt before it is sent, and return its number."""
        cursor = self._run("INSERT INTO attempts (key, cost, state) VALUES (?, ?, 'sent')", key, cost)
        self.begun()
        number = int(cursor.lastrowid or 0)
        self._bounds[number] = _billed(cost)
        self._made += 1
        self._paid += self._bounds[number]
        return number

    def end(self, attempt: int, state: str, cost: float | None) -> None:
        """Record how an attempt ended and its cost; where that is not known, the upper bound stays."""
        self._run("UPDATE attempts SET state = ?, cost = ifnull(?, cost) WHERE id = ?", state, cost, attempt)
        bound = self._bounds.pop(attempt)
        if state == "unsent":
            self._made -= 1
            self._paid -= bound
        elif cost is not None:
            self._paid += _billed(cost) - bound

    def close(self) -> None:
        """Close the file."""
        self._db.close()

    def _run(self, statement: str, *values: object) -> sqlite3.Cursor:
        try:
            return self._db.execute(statement, values)
        except sqlite3.Error as error:
            raise self._broken(error) from error

    def _broken(self, error: Exception | str) -> RunError:
        return RunError(
            f"Cannot use {shown(self._path)}: {error}. It holds what the run has spent, and without it no call is "
            "made. If the disk is full, free some space and run again; if the file is damaged, put back a copy, or "
            "remove it to count from 0."
        )


def _billed(cost: float | None) -> Fraction:
    """Return a cost that counts: nothing is given back. Exact, so that what is taken away again leaves nothing."""
    return Fraction(max(cost or 0.0, 0.0))
