"""Layer: the same call, under way here or in another process, is waited for instead of sent a second time."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable

from stepscore.errors import ModelError
from stepscore.models.base import Model
from stepscore.models.calls.account import Account
from stepscore.models.calls.call import Call, Layer
from stepscore.models.responses import Response


class Sharing:
    """Claims a call before it is asked.

    Args:
        inner: Answers a call that nobody else asks.
        account: Keeps the claims.
        model: The model; of a served one, other owners of the same cache may ask the same.
    """

    def __init__(self, inner: Layer, account: Account, model: Model) -> None:
        self._inner, self._account, self._model = inner, account, model
        self._served = model.capabilities.served

    async def answer(self, call: Call) -> Response:
        """Return the response of the same call, else of this one."""
        if not call.request.cached:
            return await self._inner.answer(call)
        while (shared := await self._claim(call)) is not None:
            try:
                response: Response = call.request.check(shared, self._model.name)
            except ModelError:  # a stored answer that cannot be one to this request
                self._account.forget(call.key)
                continue
            call.cached = True
            return response
        outcome: Response | Exception | None = None
        try:
            outcome = await self._inner.answer(call)
            return outcome
        except asyncio.CancelledError:
            raise  # those who wait send it themselves
        except Exception as error:
            outcome = error
            raise
        finally:
            self._account.release(call.key, outcome)

    def _claim(self, call: Call) -> Awaitable[Response | None]:
        return self._account.claim(call.key, call.request.response, call.group, served=self._served)
