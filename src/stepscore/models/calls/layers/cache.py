"""Layer: takes the answer from the cache if it is there."""

from __future__ import annotations

from typing import Protocol, runtime_checkable

from stepscore.errors import ModelError
from stepscore.models.base import Model
from stepscore.models.calls.account import Account
from stepscore.models.calls.call import Call, Layer
from stepscore.models.calls.prices import Price
from stepscore.models.requests import Request
from stepscore.models.responses import Response


@runtime_checkable
class CacheHitListener(Protocol):
    """A model that wants to see cached responses, to warn about them as about its own."""

    def on_cache_hit(self, request: Request, response: Response) -> None:
        """Called with each response from the cache, and its request."""


class Cache:
    """Looks up the answer, and notes it in the call."""

    def __init__(self, inner: Layer, account: Account, model: Model, price: Price | None) -> None:
        self._inner, self._account, self._model, self._price = inner, account, model, price

    async def answer(self, call: Call) -> Response:
        """Return the cached response, else the inner layer's."""
        if not call.request.cached:
            call.response = await self._inner.answer(call)
            return call.response
        response = await self._found(call) or await self._inner.answer(call)
        if call.cached:  # found here, or shared by the same call under way
            call.cost = 0.0 if self._price else None
            if isinstance(self._model, CacheHitListener):
                self._model.on_cache_hit(call.request, response)
        call.response = response
        return response

    async def _found(self, call: Call) -> Response | None:
        """Return the cached answer; one that does not fit the request is deleted."""
        kept = await self._account.find(call.key, call.request.response)
        if kept is None:
            return None
        try:
            response: Response = call.request.check(kept, self._model.name)
        except ModelError:
            self._account.forget(call.key)
            return None
        call.cached = True
        return response
