"""The ledger: every call to a model goes through it, so that nothing is asked, or paid for, twice.

An attempt is recorded before it is sent and counts against the budget, retries and lost answers included; killing
the process loses none. An answered call is never sent again: it is in the cache (``answer_cache.py``), and a call
that is under way is waited for, not sent a second time. Failed attempts are retried (``retries.py``).

An attempt that the server refused costs nothing. One whose answer was lost may have been billed: it counts
with the most it can have cost, so that a limit in money holds whatever happens.
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
from stepscore.models.calls.answer_cache import CallCache
from stepscore.models.calls.call import Call, pack, unpack
from stepscore.models.calls.prices import Price
from stepscore.models.calls.retries import FIRST_WAIT_S, MAX_ATTEMPTS, MAX_BACKOFF_S, MAX_RETRY_AFTER_S
from stepscore.models.requests import Request


@dataclass(frozen=True)
class Budget:
    """The most calls and money a run may use, over all its starts; ``None`` for no limit."""

    max_calls: int | None = None
    max_cost: float | None = None

    def check(self, model: str, price: Price | None) -> None:
        """Raise an OptionError where money is limited and the model's price is not known."""
        if self.max_cost is not None and price is None:
            raise OptionError(
                f"A limit in money needs the price of {model}, which is not known. "
                "Give it: --price-in and --price-out (per million tokens)."
            )


class Attempts:
    """The attempts of a run, in a sqlite file of its folder, so that a killed run still knows what it spent."""

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
        """Return attempts made and money spent; a lost answer counts with the most it can have cost."""
        row = self._run("SELECT COUNT(*), TOTAL(cost) FROM attempts").fetchone()
        return int(row[0]), float(row[1])

    @property
    def open(self) -> int:
        """Number of attempts of this process that are under way."""
        return self._open

    async def one_ended(self) -> None:
        """Wait until an open attempt has ended: it may have cost less than the most it could."""
        self._waiting.append(asyncio.get_running_loop().create_future())
        await self._waiting[-1]

    def begin(self, key: str, cost: float | None) -> int:
        """Record an attempt before it is sent, and return its number."""
        cursor = self._run("INSERT INTO attempts (key, cost, state) VALUES (?, ?, 'sent')", key, cost)
        self._open += 1
        return int(cursor.lastrowid or 0)

    def end(self, attempt: int, state: str, cost: float | None) -> None:
        """Record how an attempt ended and its cost; where that is not known, the upper bound stays."""
        self._run("UPDATE attempts SET state = ?, cost = ifnull(?, cost) WHERE id = ?", state, cost, attempt)

    def ended(self) -> None:
        """Count an attempt as over, however it ended, and wake those who wait."""
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
            f"Cannot write {self._path}: {error}. Without it no call is made: free some space and run again."
        )


class Ledger:
    """Cache, budget, retries and accounts of one run.

    Args:
        model: The model string, for the cache.
        price: Price per token; ``None`` where not known, and the cost is then unknown.
        attempts: The record of attempts.
        cache: Answers already paid for; ``None`` to send every request.
        budget: The most calls and money to use.
        retries: Most attempts at one call.
        slots: Limits the calls under way at a time; ``None`` for any number.
    """

    def __init__(
        self,
        model: str,
        *,
        attempts: Attempts,
        price: Price | None = None,
        cache: CallCache | None = None,
        budget: Budget | None = None,
        retries: int = MAX_ATTEMPTS,
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
        """Return the response to a call: from the cache, from the same call under way, or by sending it.

        Args:
            call: The record of this call, which is filled in.
            prepare: Decodes the media of the request; not called where the answer is known.
            send: Sends the request; called once per attempt.
        """
        if self.cache is not None and (kept := self.cache.get(call.key)) is not None:
            call.cached = True
            return self._noted(call, unpack(kept))
        while (waiting := self._under_way.get(call.key)) is not None:
            # Not awaited itself: a waiter that is cancelled must not cancel the sender.
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
            future.cancel()  # those who wait send it themselves
            raise
        except BaseException as error:
            future.set_exception(error)
            future.exception()  # there may be no waiter; that is not an unhandled error
            raise
        finally:
            del self._under_way[call.key]
        return self._noted(call, response)

    async def settled(self) -> None:
        """Wait until all calls now under way have ended, so that none of their answers is lost."""
        if waiting := list(self._under_way.values()):
            await asyncio.wait(waiting)

    async def _send(
        self, call: Call, request: Request, send: Callable[[Request], Awaitable[Response]]
    ) -> Response:
        import stamina

        async for attempt in stamina.retry_context(
            on=_retry_after,
            attempts=self.retries,
            timeout=None,
            wait_initial=FIRST_WAIT_S,
            wait_max=MAX_BACKOFF_S,
        ):
            with attempt:
                # The slot first: what waits for one is not sent yet, and is neither counted nor timed.
                async with self._slots:
                    return await self._attempt(call, request, send)
        raise AssertionError("stamina ends with a result or an error")

    async def _attempt(
        self, call: Call, request: Request, send: Callable[[Request], Awaitable[Response]]
    ) -> Response:
        number = await self._begin(call)
        started = time.perf_counter()
        try:
            response = await send(request)
            call.latencies.append(time.perf_counter() - started)
            if self.cache is not None:
                # Before the attempt ends: if killed in between, the answer is kept and its cost overstated.
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
        """Record the attempt, unless the budget does not allow it."""
        limit, most = self.budget, self.price.max_cost(call) if self.price else 0.0
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
        # Every request has tokens: 0 means that the server did not count them.
        if self.price is None or not response.tokens_in:
            return None
        return self.price.cost(response.tokens_in, getattr(response, "tokens_out", 0))


def _retry_after(error: Exception) -> bool | float:
    """Return whether to try again: after the server's Retry-After, else with growing, jittered waits."""
    if not isinstance(error, TransientModelError):
        return False
    return True if error.retry_after is None else min(error.retry_after, MAX_RETRY_AFTER_S)
