"""Layer: an answer that is in the cache is not asked for again."""

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
    """A model that is informed of responses taken from the cache, to warn of them as it would of its own."""

    def on_cache_hit(self, request: Request, response: Response) -> None:
        """Called with each response that came from the cache, and its request."""


class Cache:
    """Looks an answer up, and notes it in the call.

    Args:
        inner: Answers what is not in the cache.
        account: Finds answers.
        model: The model.
        price: Its price; ``None`` where it is not known.
    """

    def __init__(self, inner: Layer, account: Account, model: Model, price: Price | None) -> None:
        self._inner, self._account, self._model, self._price = inner, account, model, price

    async def answer(self, call: Call) -> Response:
        """Return the cached response, else that of the layer inside."""
        if not call.request.cached:
            call.response = await self._inner.answer(call)
            return call.response
        response = await self._found(call) or await self._inner.answer(call)
        if call.cached:  # found, or that of the same call, which was under way
            call.cost = 0.0 if self._price else None
            if isinstance(self._model, CacheHitListener):
                self._model.on_cache_hit(call.request, response)
        call.response = response
        return response

    async def _found(self, call: Call) -> Response | None:
        """Return the cached answer; one that cannot be an answer to the request is deleted, and asked for again."""
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
