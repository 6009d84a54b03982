"""Layer: repeats a failed attempt by the rules of ``retries.py``."""

from __future__ import annotations

from stepscore.models.calls.call import Call, Layer
from stepscore.models.calls.retries import Retry, Waits
from stepscore.models.responses import Response


class Retrying:
    """Makes at most ``most`` attempts, until one is answered."""

    def __init__(self, inner: Layer, most: int, waits: Waits) -> None:
        self._inner, self._most, self._waits = inner, most, waits

    async def answer(self, call: Call) -> Response:
        """Return the response of the first successful attempt."""
        import stamina

        retry = Retry(self._most)
        async for attempt in stamina.retry_context(
            on=lambda error: self._waits.after(error, retry), attempts=None, timeout=None
        ):
            with attempt:
                async with self._waits.turn():
                    return await self._inner.answer(call)
        raise AssertionError("stamina ends with a result or an error")
