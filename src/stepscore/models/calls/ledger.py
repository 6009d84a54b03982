"""The ledger: every call to a model goes through it, so that nothing is asked, or paid, twice.

An attempt is written down before it is sent and counts against the budget, retries and lost answers included;
killing the process forgets none. An answered call is never asked again: it is in the cache, and a question
that is on its way is waited for, not sent a second time.

An attempt that the server refused costs nothing. One whose answer was lost may have been billed: it counts
with the most it can have cost, so that a limit in money holds whatever happens on the way.
"""

from __future__ import annotations

import asyncio
import contextlib
import sqlite3
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path

from stepscore.errors import BudgetError, ModelError, OptionError, RefusedError, RunError, TransientModelError
from stepscore.models.base import Response
from stepscore.models.calls.cache import CallCache
from stepscore.models.calls.call import Call, pack, unpack
from stepscore.models.calls.prices import Price
from stepscore.models.requests import Request

RETRIES = 6
"""Attempts at one call before it is given up."""

LONGEST_WAIT_S = 600.0
"""The longest wait that a server's Retry-After is granted; a run is not held for a day."""


@dataclass(frozen=True)
class Budget:
    """What a run may spend, over all its starts; ``None`` is no limit."""

    max_calls: int | None = None
    max_cost: float | None = None

    def check(self, model: str, price: Price | None) -> None:
        """OptionError where money is limited and this model's price is not known."""
        if self.max_cost is not None and price is None:
            raise OptionError(
                f"A limit in money needs the price of {model}, which is not known. "
                "Give it: --price-in and --price-out (per million tokens)."
            )


class Attempts:
    """Every attempt of a run, in a sqlite file of its folder: a killed run remembers what it spent."""

    def __init__(self, path: Path) -> None:
        self._path, self._open = path, 0
        self._waiting: list[asyncio.Future[None]] = []
        try:
            self._db = sqlite3.connect(path, timeout=30, check_same_thread=False, isolation_level=None)
        except sqlite3.Error as error:
            raise self._broken(error) from error
        self._run("PRAGMA journal_mode=WAL")
        self._run("PRAGMA synchronous=NORMAL")
        self._run(
            "CREATE TABLE IF NOT EXISTS attempts (id INTEGER PRIMARY KEY, key TEXT, cost REAL, state TEXT)"
        )

    def spent(self) -> tuple[int, float]:
        """Attempts made and money spent; one whose answer never came counts with what it might have cost."""
        row = self._run("SELECT COUNT(*), TOTAL(cost) FROM attempts").fetchone()
        return int(row[0]), float(row[1])

    @property
    def open(self) -> int:
        """Attempts of this process whose end is not known yet."""
        return self._open

    async def one_ended(self) -> None:
        """Wait until an open attempt has ended: it may have cost less than the most it could."""
        self._waiting.append(asyncio.get_running_loop().create_future())
        await self._waiting[-1]

    def begin(self, key: str, cost: float | None) -> int:
        """Write down an attempt before it is sent; its number."""
        cursor = self._run("INSERT INTO attempts (key, cost, state) VALUES (?, ?, 'sent')", key, cost)
        self._open += 1
        return int(cursor.lastrowid or 0)

    def end(self, attempt: int, state: str, cost: float | None) -> None:
        """Write down how it ended and what it really cost; where that is not known, the most stays."""
        self._run("UPDATE attempts SET state = ?, cost = ifnull(?, cost) WHERE id = ?", state, cost, attempt)

    def ended(self) -> None:
        """An attempt is over, however it ended."""
        self._open -= 1
        for waiting in self._waiting:
            if not waiting.done():
                waiting.set_result(None)
        self._waiting.clear()

    def close(self) -> None:
        """Close the file."""
        self._db.close()

    def _run(self, statement: str, *values: object) -> sqlite3.Cursor:
        try:
            return self._db.execute(statement, values)
        except sqlite3.Error as error:
            raise self._broken(error) from error

    def _broken(self, error: sqlite3.Error) -> RunError:
        return RunError(
            f"Cannot write {self._path}: {error}. Without it no call is made: make room, run again."
        )


class Ledger:
    """Cache, budget, retries and accounts of one run.

    Args:
        model: The model string, for the cache.
        price: What a token costs; ``None`` where not known, and cost then stays unknown.
        attempts: Where attempts are written down.
        cache: Answers already paid for; ``None`` to ask anew.
        budget: What may be spent.
        retries: Attempts at one call.
        slots: Calls that may be under way at a time; ``None`` for any number.
    """

    def __init__(
        self,
        model: str,
        *,
        attempts: Attempts,
        price: Price | None = None,
        cache: CallCache | None = None,
        budget: Budget | None = None,
        retries: int = RETRIES,
        slots: asyncio.Semaphore | None = None,
    ) -> None:
        self.budget = budget or Budget()
        self.budget.check(model, price)
        self.model, self.price, self.cache, self.retries = model, price, cache, retries
        self._attempts = attempts
        self._slots = slots or contextlib.nullcontext()
        self._under_way: dict[str, asyncio.Future[Response]] = {}

    async def ask(
        self,
        call: Call,
        prepare: Callable[[], Awaitable[Request]],
        send: Callable[[Request], Awaitable[Response]],
    ) -> Response:
        """The answer to a call: from the cache, from the same question under way, or by sending it.

        Args:
            call: The account of this call; what happens is noted in it.
            prepare: Decodes what the request names; not called for what is already answered.
            send: Sends it; called once per attempt.
        """
        if self.cache is not None and (kept := self.cache.get(call.key)) is not None:
            call.cached = True
            return self._noted(call, unpack(kept))
        while (waiting := self._under_way.get(call.key)) is not None:
            # Not awaited itself: who stops waiting must not stop the one who asks.
            await asyncio.wait([waiting])
            if not waiting.cancelled():
                call.cached = True
                return self._noted(call, waiting.result())
        future: asyncio.Future[Response] = asyncio.get_running_loop().create_future()
        self._under_way[call.key] = future
        try:
            response = await self._send(call, await prepare(), send)
            future.set_result(response)
        except asyncio.CancelledError:
            future.cancel()  # whoever waits asks for itself
            raise
        except BaseException as error:
            future.set_exception(error)
            future.exception()  # nobody may be waiting; that is no unhandled error
            raise
        finally:
            del self._under_way[call.key]
        return self._noted(call, response)

    async def settled(self) -> None:
        """Wait until what is under way now has ended, so that no answer on its way is lost."""
        if waiting := list(self._under_way.values()):
            await asyncio.wait(waiting)

    async def _send(
        self, call: Call, request: Request, send: Callable[[Request], Awaitable[Response]]
    ) -> Response:
        import stamina

        async for attempt in stamina.retry_context(
            on=_retry_after, attempts=self.retries, timeout=None, wait_initial=0.5, wait_max=60.0
        ):
            with attempt:
                # The slot first: what waits for one was not sent, and is neither counted nor timed.
                async with self._slots:
                    return await self._attempt(call, request, send)
        raise AssertionError("stamina ends with an answer or an error")

    async def _attempt(
        self, call: Call, request: Request, send: Callable[[Request], Awaitable[Response]]
    ) -> Response:
        number = await self._begin(call)
        started = time.perf_counter()
        try:
            response = await send(request)
            call.latencies.append(time.perf_counter() - started)
            if self.cache is not None:
                # Before the attempt is closed: killed in between, the answer is kept, its cost overstated.
                self.cache.put(call.key, self.model, pack(response))
            self._attempts.end(number, "answered", self._cost(response))
        except ModelError as error:
            lost = isinstance(error, TransientModelError) and not isinstance(error, RefusedError)
            self._attempts.end(number, "lost" if lost else "refused", None if lost or not self.price else 0.0)
            raise
        finally:
            self._attempts.ended()
        return response

    async def _begin(self, call: Call) -> int:
        """Write the attempt down, unless the budget does not allow it."""
        limit, most = self.budget, self.price.most(call) if self.price else 0.0
        while True:
            made, paid = self._attempts.spent()
            if limit.max_calls is not None and made >= limit.max_calls:
                raise BudgetError(
                    f"The budget of {limit.max_calls} calls is spent; a larger --max-calls continues."
                )
            if limit.max_cost is None or paid + most <= limit.max_cost:
                break
            if not self._attempts.open:
                raise BudgetError(
                    f"The next call may cost {most:.4f}, and {paid:.4f} of {limit.max_cost:.4f} is spent; "
                    "a larger --max-cost continues."
                )
            await self._attempts.one_ended()
        call.attempts += 1
        return self._attempts.begin(call.key, most if self.price else None)

    def _noted(self, call: Call, response: Response) -> Response:
        call.response = response
        call.cost = 0.0 if call.cached and self.price else self._cost(response)
        return response

    def _cost(self, response: Response) -> float | None:
        # Every question has tokens: none means that the server did not count them.
        if self.price is None or not response.tokens_in:
            return None
        return self.price.of(response.tokens_in, getattr(response, "tokens_out", 0))


def _retry_after(error: Exception) -> bool | float:
    """Whether to try again: after as long as the server asked, else with growing, jittered waits."""
    if not isinstance(error, TransientModelError):
        return False
    return True if error.retry_after is None else min(error.retry_after, LONGEST_WAIT_S)
