"""The ledger: every call to a model goes through it, so that nothing is asked, or paid, twice.

An attempt is written down before it is sent and counts against the budget, retries and lost answers included;
killing the process forgets none. An answered call is never asked again: it is in the cache, and a question
that is on its way is waited for, not sent a second time.
"""

from __future__ import annotations

import asyncio
import sqlite3
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path

from stepscore.errors import BudgetError, OptionError, TransientModelError
from stepscore.models.cache import CallCache
from stepscore.models.calls import Call, pack, unpack
from stepscore.models.model import Response
from stepscore.models.prices import Price

RETRIES = 6
"""Attempts at one call before it is given up."""


@dataclass(frozen=True)
class Budget:
    """What a run may spend, over all its starts; ``None`` is no limit."""

    max_calls: int | None = None
    max_cost: float | None = None


class Attempts:
    """Every attempt of a run, in a sqlite file of its folder: a killed run remembers what it spent."""

    def __init__(self, path: Path) -> None:
        self._db = sqlite3.connect(path, timeout=30, check_same_thread=False, isolation_level=None)
        self._db.execute("PRAGMA journal_mode=WAL")
        self._db.execute("PRAGMA synchronous=NORMAL")
        self._db.execute(
            "CREATE TABLE IF NOT EXISTS attempts (id INTEGER PRIMARY KEY, key TEXT, cost REAL, state TEXT)"
        )

    def spent(self) -> tuple[int, float]:
        """Attempts made and money spent; one whose answer never came counts with what it might have cost."""
        row = self._db.execute("SELECT COUNT(*), TOTAL(cost) FROM attempts").fetchone()
        return int(row[0]), float(row[1])

    def begin(self, key: str, cost: float | None) -> int:
        """Write down an attempt before it is sent; its number."""
        cursor = self._db.execute(
            "INSERT INTO attempts (key, cost, state) VALUES (?, ?, 'sent')", (key, cost)
        )
        return int(cursor.lastrowid or 0)

    def end(self, attempt: int, state: str, cost: float | None) -> None:
        """Write down how it ended and what it really cost."""
        self._db.execute("UPDATE attempts SET state = ?, cost = ? WHERE id = ?", (state, cost, attempt))

    def close(self) -> None:
        """Close the file."""
        self._db.close()


class Ledger:
    """Cache, budget, retries and accounts of one run.

    Args:
        model: The model string, for the cache.
        price: What a token costs; ``None`` where not known, and cost then stays unknown.
        attempts: Where attempts are written down.
        cache: Answers already paid for; ``None`` to ask anew.
        budget: What may be spent.
        retries: Attempts at one call.
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
    ) -> None:
        self.budget = budget or Budget()
        if self.budget.max_cost is not None and price is None:
            raise OptionError(
                f"A limit in money needs the price of {model}, which is not known. "
                "Give it: --price-in and --price-out (per million tokens)."
            )
        self.model, self.price, self.cache, self.retries = model, price, cache, retries
        self._attempts = attempts
        self._under_way: dict[str, asyncio.Future[Response]] = {}

    async def ask(self, call: Call, send: Callable[[], Awaitable[Response]]) -> Response:
        """The answer to a call: from the cache, from the same question under way, or by sending it.

        Args:
            call: The account of this call; what happens is noted in it.
            send: Decodes and sends; called once per attempt.
        """
        if self.cache is not None and (kept := self.cache.get(call.key)) is not None:
            call.cached = True
            return self._noted(call, unpack(kept))
        if (waiting := self._under_way.get(call.key)) is not None:
            call.cached = True
            return self._noted(call, await waiting)
        future: asyncio.Future[Response] = asyncio.get_running_loop().create_future()
        self._under_way[call.key] = future
        try:
            response = await self._send(call, send)
            future.set_result(response)
        except BaseException as error:
            future.set_exception(error)
            future.exception()  # nobody may be waiting; that is no unhandled error
            raise
        finally:
            del self._under_way[call.key]
        return self._noted(call, response)

    async def _send(self, call: Call, send: Callable[[], Awaitable[Response]]) -> Response:
        import stamina

        async for attempt in stamina.retry_context(
            on=_retry_after, attempts=self.retries, timeout=None, wait_initial=0.5, wait_max=60.0
        ):
            with attempt:
                number = self._begin(call)
                started = time.perf_counter()
                try:
                    response = await send()
                except TransientModelError:
                    self._attempts.end(number, "failed", 0.0 if self.price else None)
                    raise
                call.latencies.append(time.perf_counter() - started)
                self._attempts.end(number, "answered", self._cost(response))
                if self.cache is not None:
                    self.cache.put(call.key, self.model, pack(response))
                return response
        raise AssertionError("stamina ends with an answer or an error")

    def _begin(self, call: Call) -> int:
        """Write the attempt down, unless the budget does not allow it."""
        made, paid = self._attempts.spent()
        most = self.price.most(call) if self.price else None
        limit = self.budget
        if limit.max_calls is not None and made >= limit.max_calls:
            raise BudgetError(
                f"The budget of {limit.max_calls} calls is spent; a larger --max-calls continues."
            )
        if limit.max_cost is not None and most is not None and paid + most > limit.max_cost:
            raise BudgetError(
                f"The next call may cost {most:.4f}, and {paid:.4f} of {limit.max_cost:.4f} is spent; "
                "a larger --max-cost continues."
            )
        call.attempts += 1
        return self._attempts.begin(call.key, most)

    def _noted(self, call: Call, response: Response) -> Response:
        call.response = response
        call.cost = 0.0 if call.cached and self.price else self._cost(response)
        return response

    def _cost(self, response: Response) -> float | None:
        if self.price is None:
            return None
        return self.price.of(response.tokens_in, getattr(response, "tokens_out", 0))


def _retry_after(error: Exception) -> bool | float:
    """Whether to try again: after as long as the server asked, else with growing, jittered waits."""
    if not isinstance(error, TransientModelError):
        return False
    return True if error.retry_after is None else error.retry_after
