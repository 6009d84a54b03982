"""The ledger: every call to a model goes through it, so that nothing is asked, or paid for, twice.

An attempt is recorded before it is sent and counts against the budget, retries and lost answers included; killing
the process loses none. An answered call is never sent again: it is in the cache (``answer_cache.py``), and a call
that is under way is waited for, not sent a second time, also where another process sent it (``claims.py``). Failed
attempts are retried (``retries.py``).

An attempt that the server refused costs nothing. One whose answer was lost may have been billed: it counts
with the most it can have cost, so that a limit in money holds whatever happens. So does an answer whose tokens the
server did not count, or counted as no request can have (``response_checks.py``).
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

from stepscore.errors import (
    BudgetError,
    ModelError,
    OptionError,
    RefusedError,
    TransientModelError,
    UnavailableError,
)
from stepscore.models.base import Answer, Response
from stepscore.models.calls.answer_cache import CallCache
from stepscore.models.calls.attempts import OpenAttempts
from stepscore.models.calls.call import Call, pack, unpack
from stepscore.models.calls.claims import claimed, new_owner
from stepscore.models.calls.kept_answers import KeptAnswers
from stepscore.models.calls.prices import Price, check_amount, max_request_tokens
from stepscore.models.calls.response_checks import check_response
from stepscore.models.calls.retries import MAX_ATTEMPTS, Retry, Waits
from stepscore.models.requests import Request


@dataclass(frozen=True)
class Budget:
    """The most calls and money a run may use, over all its starts; ``None`` for no limit.

    Attributes:
        max_calls: The most calls.
        max_cost: The most money.
        given: The budget that the user gave, where this is what earlier runs left of it. Messages state both.
    """

    max_calls: int | None = None
    max_cost: float | None = None
    given: Budget | None = field(default=None, compare=False)

    def __post_init__(self) -> None:
        calls = self.max_calls
        if calls is not None and (isinstance(calls, bool) or not isinstance(calls, int) or calls < 0):
            raise OptionError(f"max_calls (--max-calls) is {calls}; it must be a whole number, 0 or more.")
        check_amount(self.max_cost, "max_cost (--max-cost)")

    def spent_calls(self) -> str:
        """Return the message that all calls were made."""
        given = self.given or self
        left = (
            "" if given.max_calls == self.max_calls else f" ({self.max_calls} of them were left for this run)"
        )
        return f"The budget of {given.max_calls} calls is spent{left}; a larger --max-calls continues."

    def spent_cost(self, most: float, paid: float) -> str:
        """Return the message that the next call may cost more than is left.

        Args:
            most: The most it may cost.
            paid: What this run paid.
        """
        assert self.max_cost is not None
        spent = f"{paid:.4f} of {self.max_cost:.4f} is spent"
        if self.given is not None and self.given.max_cost is not None:
            spent = f"{max(0.0, self.max_cost - paid):.4f} of the budget of {self.given.max_cost:.4f} is left"
        return f"The next call may cost {most:.4f}, and {spent}; a larger --max-cost continues."

    def check(self, model: str, price: Price | None) -> None:
        """Raise an OptionError where money is limited and the model's price is not known."""
        if self.max_cost is not None and price is None:
            raise OptionError(
                f"A limit in money needs the price of {model}, which is not known. "
                "Give it: --price-in and --price-out (per million tokens)."
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
        waits: How long to wait for the server; ``None`` for the usual.
        shared: Whether other processes may ask the same question of the same cache at the same time.
    """

    def __init__(
        self,
        model: str,
        *,
        attempts: OpenAttempts,
        price: Price | None = None,
        cache: CallCache | KeptAnswers | None = None,
        budget: Budget | None = None,
        retries: int = MAX_ATTEMPTS,
        slots: asyncio.Semaphore | None = None,
        waits: Waits | None = None,
        shared: bool = False,
    ) -> None:
        self.budget = budget or Budget()
        self.budget.check(model, price)
        self.model, self.price, self.cache, self.retries = model, price, cache, retries
        self._attempts = attempts
        self._slots = slots or contextlib.nullcontext()
        self._waits = waits or Waits(model)
        self._owner = new_owner() if shared and cache is not None else None
        self._under_way: dict[str, asyncio.Future[Response]] = {}
        self._failure = ""

    async def ask(
        self,
        call: Call,
        prepare: Callable[[], Awaitable[Request]],
        send: Callable[[Request], Awaitable[Response]],
        on_same: Callable[[], None] = lambda: None,
    ) -> Response:
        """Return the response to a call: from the cache, from the same call under way, or by sending it.

        Args:
            call: The record of this call, which is filled in.
            prepare: Decodes the media of the request; not called where the answer is known.
            send: Sends the request; called once per attempt.
            on_same: Called before the answer to the same call, which is under way, is waited for.
        """
        if (kept := self._cached(call)) is not None:
            return self._noted(call, kept)
        while (waiting := self._under_way.get(call.key)) is not None:
            on_same()
            # Not awaited itself: a waiter that is cancelled must not cancel the sender.
            await asyncio.wait([waiting])
            if not waiting.cancelled():
                call.cached = True
                return self._noted(call, waiting.result())
        future: asyncio.Future[Response] = asyncio.get_running_loop().create_future()
        self._under_way[call.key] = future
        try:
            response = await self._ask_once(call, prepare, send)
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

    def _cached(self, call: Call) -> Response | None:
        """Return the cached answer to a call; one that cannot be an answer to it is deleted, and asked for again."""
        if self.cache is None or (kept := self.cache.get(call.key)) is None:
            return None
        try:
            response = check_response(unpack(kept), call.request, self.model)
        except ModelError:
            self.cache.forget(call.key)
            return None
        call.cached = True
        return response

    async def _ask_once(
        self,
        call: Call,
        prepare: Callable[[], Awaitable[Request]],
        send: Callable[[Request], Awaitable[Response]],
    ) -> Response:
        """Return the response, while no other process asks the same question."""
        if self.cache is None or self._owner is None:
            return await self._send(call, await prepare(), send)
        async with claimed(self.cache, call.key, self._owner):
            # Whoever held the claim before may have brought the answer.
            return self._cached(call) or await self._send(call, await prepare(), send)

    async def _send(
        self, call: Call, request: Request, send: Callable[[Request], Awaitable[Response]]
    ) -> Response:
        import stamina

        retry = Retry(self.retries)
        async for attempt in stamina.retry_context(
            on=lambda error: self._waits.after(error, retry), attempts=None, timeout=None
        ):
            with attempt:
                # The slot first: what waits for one is not sent yet, and is neither counted nor timed.
                async with self._waits.turn(), self._slots:
                    return await self._attempt(call, request, send)
        raise AssertionError("stamina ends with a result or an error")

    async def _attempt(
        self, call: Call, request: Request, send: Callable[[Request], Awaitable[Response]]
    ) -> Response:
        number = await self._begin(call)
        started = time.perf_counter()
        try:
            response = check_response(await send(request), call.request, self.model)
            call.latencies.append(time.perf_counter() - started)
            if self.cache is not None:
                # Before the attempt ends: if killed in between, the answer is kept and its cost overstated.
                self.cache.put(call.key, self.model, pack(response))
            cost = self._cost(call, response)
            self._attempts.end(number, "uncounted" if self.price and cost is None else "answered", cost)
        except ModelError as error:
            self._end_failed(call, number, error)
            raise
        finally:
            self._attempts.ended()
        return response

    def _end_failed(self, call: Call, number: int, error: ModelError) -> None:
        """Record an attempt without an answer; one that had no connection was none."""
        self._failure = f" The last attempt that failed: {error}"
        if isinstance(error, UnavailableError) and not error.sent:
            call.attempts -= 1
            self._attempts.end(number, "unsent", 0.0)
            return
        transient = isinstance(error, TransientModelError) and not isinstance(error, RefusedError)
        lost = transient or (isinstance(error, UnavailableError) and error.lost)
        self._attempts.end(number, "lost" if lost else "refused", None if lost or not self.price else 0.0)

    async def _begin(self, call: Call) -> int:
        """Record the attempt, unless the budget does not allow it."""
        limit, most = self.budget, self.price.max_cost(call) if self.price else 0.0
        while True:
            made, paid = self._attempts.spent()
            if limit.max_calls is not None and made >= limit.max_calls:
                raise BudgetError(limit.spent_calls() + self._failure)
            if limit.max_cost is None or paid + most <= limit.max_cost:
                break
            if not self._attempts.open:
                raise BudgetError(limit.spent_cost(most, paid) + self._failure)
            await self._attempts.one_ended()
        call.attempts += 1
        return self._attempts.begin(call.key, most if self.price else None)

    def _noted(self, call: Call, response: Response) -> Response:
        call.response = response
        call.cost = 0.0 if call.cached and self.price else self._cost(call, response)
        return response

    def _cost(self, call: Call, response: Response) -> float | None:
        """Return what a response cost; ``None`` where there is no price, or no count that can be true."""
        if self.price is not None and self.price.free:
            return 0.0
        written = getattr(response, "tokens_out", 0)
        if not isinstance(response, Answer) and not written:
            # A score is one token, also where it is not counted.
            written = max_request_tokens(call.request)[1]
        # An image is at least one token, and every answer has one.
        if self.price is None or response.tokens_in < max(1, call.images) or not written:
            return None
        return self.price.cost(response.tokens_in, written)
