"""The driver's end of a worker actor, and of what it asks of models on the cluster."""

from __future__ import annotations

import asyncio
import pickle
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, cast

from stepscore.models import BatchModel, Model, Request, Response
from stepscore.runs.engines.batch_group import BatchElsewhere
from stepscore.runs.engines.cluster.models import FramesLostError, ModelReplicas
from stepscore.runs.engines.driver import pickled
from stepscore.runs.engines.messages import Ask, FromWorker, ToWorker


class RayLink:
    """The driver's end of a worker actor; to be made in a running event loop."""

    def __init__(self, number: int, actor: Any, models: dict[int, ModelReplicas]) -> None:
        self.number, self.actor, self.heard = number, actor, False
        self.end = "its actor or its node was lost"
        self._models = models
        self._to_send: list[bytes] = []
        self._sending: asyncio.Task[None] | None = None
        actor.begin.remote()

    def send(self, message: ToWorker) -> None:
        """Send a message; those that come while others are on their way go together after them."""
        self._to_send.append(pickled(message))
        if self._sending is None or self._sending.done():
            self._sending = asyncio.get_running_loop().create_task(self._send())

    async def receive(self) -> Sequence[FromWorker]:
        """Return the messages that have come, at least one; none where the actor is gone."""
        import ray

        try:
            messages = await self.actor.take.remote()
        except ray.exceptions.RayError as error:
            self.end = (str(error).strip().splitlines() or [self.end])[-1].strip()
            self.stop()  # where only the way to it was lost, it must not keep its CPU
            return []
        self.heard = True
        return [pickle.loads(message) for message in messages]

    def elsewhere(self, ask: Ask, model: Model) -> _OnCluster | None:
        """Return the worker, which decodes, and the actors of the model."""
        return _OnCluster(self, ask.ask, self._models[ask.model or 0])

    def stop(self) -> None:
        """End the actor at once."""
        import ray

        ray.kill(self.actor)

    async def _send(self) -> None:
        import ray

        while self._to_send:
            messages, self._to_send = self._to_send, []
            try:
                await self.actor.deliver.remote(messages)
            except ray.exceptions.RayError:
                return  # it is gone, and whoever receives from it notices


@dataclass(frozen=True)
class _Decoded:
    """A request, and the reference to it with its frames, which are on the worker's node."""

    request: Request
    reference: Any


@dataclass(frozen=True)
class _OnCluster:
    """Decodes in the worker and answers in a model's actor; the frames go from one to the other."""

    link: RayLink
    ask: int
    model: ModelReplicas

    async def decode(self, request: Request) -> Request:
        """Return what stands for the decoded request, which stays on the worker's node."""
        import ray

        failed, reference = self.link.actor.decode.options(num_returns=2).remote(self.ask, request)
        try:
            error = await failed
        except ray.exceptions.RayError:
            self.link.stop()
            raise asyncio.CancelledError from None  # the worker is gone, and with it whoever asked
        if error is not None:
            raise error
        return cast(Request, _Decoded(request, reference))

    async def answer(self, decoded: Request, model: Model) -> Response:
        """Return the answer of one of the model's actors."""
        (result,) = await self._answers([(self, decoded)])
        if isinstance(result, Exception):
            raise result
        return result

    async def answer_batch(
        self, asked: Sequence[tuple[BatchElsewhere, Request]], model: BatchModel
    ) -> Sequence[Response | Exception]:
        """Return the answers of one of the model's actors, made in one pass."""
        return await self._answers(asked)

    async def _answers(self, asked: Sequence[tuple[BatchElsewhere, Request]]) -> list[Response | Exception]:
        held = [(worker, cast(_Decoded, decoded)) for worker, decoded in asked]
        while True:
            try:
                return await self.model.answer([decoded.reference for _, decoded in held])
            except FramesLostError:  # they are decoded again, if the worker is still there
                held = [(worker, cast(_Decoded, await worker.decode(one.request))) for worker, one in held]
