"""Workers of a run on Ray, as its driver has them."""

from __future__ import annotations

import asyncio
import pickle
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from stepscore.judges import Judge
from stepscore.models import BatchModel, Model, Request, Response
from stepscore.models.calls import log_wait
from stepscore.runs.engines.cluster.actors import EpisodeActor
from stepscore.runs.engines.cluster.models import ModelReplicas
from stepscore.runs.engines.cluster.placement import Placement
from stepscore.runs.engines.driver import pickled
from stepscore.runs.engines.messages import Ask, FromWorker, ToWorker

WAIT_S = 30.0
"""Seconds without any worker after which a line says what the run waits for."""


class RayCrew:
    """Starts worker actors, and the actors of the judge's models.

    Args:
        packed: What each worker gets first; see ``packed_judge``.
        judge: The judge.
        places: How many actors there are, and what each needs.
        at_a_time: Groups that each worker works on at a time.
    """

    def __init__(self, packed: Sequence[bytes], judge: Judge, places: Placement, at_a_time: int) -> None:
        import ray

        made: Any = ray.remote(EpisodeActor)
        self._worker = made.options(max_restarts=0, scheduling_strategy="SPREAD", **places.worker)
        self._packed = ray.put(list(packed))
        self._judge, self._places, self._at_a_time = judge, places, at_a_time
        self._models: dict[int, ModelReplicas] = {}
        self._links: list[RayLink] = []
        self._waiting: asyncio.TimerHandle | None = None

    def start(self, number: int) -> RayLink:
        """Start a worker actor."""
        loop = asyncio.get_running_loop()
        if not self._links:
            self._waiting = loop.call_later(WAIT_S, self._note_wait)
            self._start_models()
        link = RayLink(number, self._worker.remote(self._packed, self._at_a_time), self._models)
        self._links.append(link)
        return link

    def close(self) -> None:
        """End all actors."""
        if self._waiting is not None:
            self._waiting.cancel()
        for link in self._links:
            link.stop()
        for model in self._models.values():
            model.close()

    def _start_models(self) -> None:
        from ray import cloudpickle

        for number, model in enumerate(self._judge.models):
            served = model.capabilities.served
            count = 1 if served else self._places.replicas
            needs = {"num_cpus": 0} if served else self._places.replica
            self._models[number] = ModelReplicas(model, count, needs, cloudpickle.dumps)

    def _note_wait(self) -> None:
        if not any(link.heard for link in self._links):
            log_wait(
                f"No worker could start on the Ray cluster in {WAIT_S:g} s: its CPUs or GPUs may be taken by others, "
                "or its nodes are being started. Waiting; `ray status` shows them."
            )


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
class _OnCluster:
    """Decodes in the worker and answers in a model's actor; the frames go from one to the other."""

    link: RayLink
    ask: int
    model: ModelReplicas

    async def decode(self, request: Request) -> Request:
        """Return a reference to the decoded request, which stays on the worker's node."""
        import ray

        failed, decoded = self.link.actor.decode.options(num_returns=2).remote(self.ask, request)
        try:
            error = await failed
        except ray.exceptions.RayError:
            raise asyncio.CancelledError from None  # the worker is gone, and with it whoever asked
        if error is not None:
            raise error
        reference: Request = decoded
        return reference

    async def answer(self, decoded: Request, model: Model) -> Response:
        """Return the answer of one of the model's actors."""
        (result,) = await self.model.answer([decoded])
        if isinstance(result, Exception):
            raise result
        return result

    async def answer_batch(
        self, asked: Sequence[tuple[object, Request]], model: BatchModel
    ) -> Sequence[Response | Exception]:
        """Return the answers of one of the model's actors, made in one pass."""
        return await self.model.answer([decoded for _, decoded in asked])
