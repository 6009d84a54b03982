"""Layer: calls that a model in process answers in one pass.

The calls of a group of episodes wait for each other (``batch_group.py``). Calls without a group, such as frames of
live sessions, are cut by arrival: those that come during a pass form the next one.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass

from stepscore.errors import exits_as_errors
from stepscore.models.base import Model
from stepscore.models.batches import BatchModel
from stepscore.models.calls.call import Call
from stepscore.models.calls.layers.model_layer import ModelLayer
from stepscore.models.responses import Response


@dataclass(frozen=True, eq=False)
class _Waiting:
    """A call waiting for its pass."""

    call: Call
    future: asyncio.Future[Response]


class Batching:
    """Answers calls in passes of the model's batch size."""

    def __init__(self, inner: ModelLayer, model: Model) -> None:
        self._inner = inner
        self._model = model if isinstance(model, BatchModel) and model.batch > 1 else None
        self._arrived: list[_Waiting] = []
        self._passes: set[asyncio.Task[None]] = set()
        self._one_pass: asyncio.Task[None] | None = None

    async def answer(self, call: Call) -> Response:
        """Return the response, computed in one pass with others if the model can."""
        if self._model is None or not self._model.is_batchable(call.request):
            return await self._inner.answer(call)
        waiting = _Waiting(call, asyncio.get_running_loop().create_future())
        if call.group is not None:
            call.group.wait(self, waiting)
        else:
            self._arrived.append(waiting)
            if self._one_pass is None or self._one_pass.done():
                self._one_pass = asyncio.create_task(self._answer_arrived())
        return await waiting.future

    def send(self, waiting: Sequence[_Waiting]) -> None:
        """Begin to answer calls in passes of the model's batch size; cancelled calls are left out."""
        assert self._model is not None
        wanted, size = [one for one in waiting if not one.future.done()], self._model.batch
        for start in range(0, len(wanted), size):
            task = asyncio.create_task(self._answer_pass(wanted[start : start + size]))
            self._passes.add(task)
            task.add_done_callback(self._passes.discard)

    async def _answer_arrived(self) -> None:
        assert self._model is not None
        await asyncio.sleep(0)  # lets calls of the same loop turn join the first pass
        while self._arrived:
            now, self._arrived = self._arrived[: self._model.batch], self._arrived[self._model.batch :]
            await self._answer_pass(now)

    async def _answer_pass(self, batch: Sequence[_Waiting]) -> None:
        """Answer calls in one pass."""
        answers: Sequence[Response | Exception]
        try:
            with exits_as_errors():
                answers = await self._inner.answer_batch([waiting.call for waiting in batch])
        except Exception as error:  # third-party code may raise anything
            answers = [error] * len(batch)
        for waiting, answer in zip(batch, answers, strict=True):
            if waiting.future.done():
                continue  # its caller was cancelled
            if isinstance(answer, Exception):
                waiting.future.set_exception(answer)
            else:
                waiting.future.set_result(answer)
