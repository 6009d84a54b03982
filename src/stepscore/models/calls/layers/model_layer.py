"""Layer: asks the model, which gets decoded requests."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import cast

from stepscore.errors import TransientModelError
from stepscore.models.base import Model
from stepscore.models.batches import BatchModel
from stepscore.models.blocking import guarded
from stepscore.models.calls.call import Call
from stepscore.models.requests import Request
from stepscore.models.responses import Response


class ModelLayer:
    """Asks the model; a call to a served one counts as lost after ``timeout_s``."""

    def __init__(self, model: Model, timeout_s: float) -> None:
        self._model = model
        self._timeout_s = timeout_s if model.capabilities.served else None

    async def answer(self, call: Call) -> Response:
        """Return the model's response."""
        try:
            with guarded():
                async with asyncio.timeout(self._timeout_s):
                    return await self._model.answer(_decoded(call))
        except TimeoutError:
            if self._timeout_s is None:
                raise
            raise TransientModelError(f"{self._model.name}: no answer in {self._timeout_s:g} s.") from None

    async def answer_batch(self, calls: Sequence[Call]) -> Sequence[Response | Exception]:
        """Return the response or the error of each of several calls, computed in one pass."""
        with guarded():
            return await cast(BatchModel, self._model).answer_batch([_decoded(call) for call in calls])


def _decoded(call: Call) -> Request:
    assert call.decoded is not None, "a call is decoded before it is answered"
    return call.decoded
