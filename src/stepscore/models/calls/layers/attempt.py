"""Layer: one attempt at a call, which takes a connection and is recorded before it is sent.

A refused attempt costs nothing. A lost answer may have been billed: it counts with the most it can have cost, so that
a limit in money always holds. So does an answer without a possible token count (``responses.py``).
"""

from __future__ import annotations

import time
from contextlib import AbstractAsyncContextManager
from typing import Any

from stepscore.errors import ModelError, RefusedError, TransientModelError, UnavailableError
from stepscore.models.calls.account import Account
from stepscore.models.calls.call import Call, Layer
from stepscore.models.calls.prices import Price
from stepscore.models.responses import Response


class Attempt:
    """Makes one attempt. A call that waits for its connection is neither counted nor timed yet."""

    def __init__(
        self,
        inner: Layer,
        account: Account,
        model: str,
        price: Price | None,
        connection: AbstractAsyncContextManager[Any],
    ) -> None:
        self._inner, self._account, self._model = inner, account, model
        self._price, self._connection = price, connection

    async def answer(self, call: Call) -> Response:
        """Return the checked response."""
        async with self._connection:
            most = self._price.max_cost(call) if self._price else None
            number = await self._account.begin(call.key, self._model, most, call.group)
            call.attempts += 1
            state, cost, failure = "sent", None, ""
            answer: Response | None = None
            started = time.perf_counter()
            try:
                response: Response = call.request.check(await self._inner.answer(call), self._model)
                answer = response if call.request.cached else None
                call.latencies.append(time.perf_counter() - started)
                cost = call.cost = self._cost(call, response)
                state = "uncounted" if self._price and cost is None else "answered"
                return response
            except ModelError as error:
                failure = str(error)
                state, cost = self._failed(error)
                call.attempts -= state == "unsent"
                raise
            finally:
                self._account.end(number, state, cost, answer, failure)

    def _failed(self, error: ModelError) -> tuple[str, float | None]:
        """Return the state and cost of an attempt without an answer."""
        if isinstance(error, UnavailableError) and not error.sent:
            return "unsent", 0.0
        transient = isinstance(error, TransientModelError) and not isinstance(error, RefusedError)
        lost = transient or (isinstance(error, UnavailableError) and error.lost)
        return ("lost", None) if lost else ("refused", 0.0 if self._price else None)

    def _cost(self, call: Call, response: Response) -> float | None:
        """Return the cost of a response; ``None`` without a price or a possible token count."""
        if self._price is None or self._price.free:
            return None if self._price is None else 0.0
        written = response.tokens_out
        if not written and not call.request.writes_text:
            # A score is one token, even if the server did not count it.
            written = call.request.token_bound()[1]
        # An image has at least one token, and so has every answer.
        if response.tokens_in < max(1, call.images) or not written:
            return None
        return self._price.cost(response.tokens_in, written)
