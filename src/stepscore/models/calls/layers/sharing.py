"""Layer: waits if the same call is under way, here or in another process, instead of sending it twice."""

from __future__ import annotations

from stepscore.errors import ModelError
from stepscore.models.base import Model
from stepscore.models.calls.account import Account
from stepscore.models.calls.call import Call, Layer
from stepscore.models.responses import Response


class Sharing:
    """Claims a call before it is made; calls to a served model are also shared with other owners of the cache."""

    def __init__(self, inner: Layer, account: Account, model: Model) -> None:
        self._inner, self._account, self._model = inner, account, model
        self._served = model.capabilities.served

    async def answer(self, call: Call) -> Response:
        """Return the response of the same call under way, else of this one."""
        if not call.request.cached:
            return await self._inner.answer(call)
        kind, account = call.request.response, self._account
        while (shared := await account.claim(call.key, kind, call.group, served=self._served)) is not None:
            try:
                response: Response = call.request.check(shared, self._model.name)
            except ModelError:  # a stored answer that does not fit the request
                account.forget(call.key)
                continue
            call.cached = True
            return response
        outcome: Response | Exception | None = None
        try:
            outcome = await self._inner.answer(call)
            return outcome
        except Exception as error:  # not a cancellation: the next who waits then makes the call
            outcome = error
            raise
        finally:
            account.release(call.key, outcome)
