"""Layer: decodes the images and videos of a request, once for all attempts."""

from __future__ import annotations

import asyncio
from concurrent.futures import Executor

from stepscore.models.blocking import guarded
from stepscore.models.calls.call import Call, Layer
from stepscore.models.responses import Response


class Decoding:
    """Decodes in threads."""

    def __init__(self, inner: Layer, threads: Executor) -> None:
        self._inner, self._threads = inner, threads

    async def answer(self, call: Call) -> Response:
        """Return the response to the decoded request, then drop its frames."""
        assert call.asker is not None
        loop = asyncio.get_running_loop()
        try:
            with guarded():
                call.decoded = await loop.run_in_executor(
                    self._threads, call.request.resolved, call.asker.decode
                )
            return await self._inner.answer(call)
        finally:
            call.decoded = None
