"""Layer: the same call, under way here or in another process, is waited for instead of sent a second time."""

from __future__ import annotations

import asyncio

from stepscore.models.calls.account import Account
from stepscore.models.calls.call import Call, Layer
from stepscore.models.responses import Response


class Sharing:
    """Claims a call before it is asked.

    Args:
        inner: Answers a call that nobody else asks.
        account: Keeps the claims.
        served: Whether other owners of the same cache may ask the same.
    """

    def __init__(self, inner: Layer, account: Account, *, served: bool) -> None:
        self._inner, self._account, self._served = inner, account, served

    async def answer(self, call: Call) -> Response:
        """Return the response of the same call, else of this one."""
        shared = await self._account.claim(call.key, call.request.response, call.group, served=self._served)
        if shared is not None:
            call.cached = True
            return shared
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
