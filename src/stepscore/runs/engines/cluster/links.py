"""The owner's end of a worker actor."""

from __future__ import annotations

import asyncio
import pickle
from collections.abc import Sequence
from typing import Any

from stepscore.runs.messages import FromWorker, ToWorker
from stepscore.runs.owner import pickled


class RayLink:
    """The owner's end of a worker actor; to be made in a running event loop."""

    def __init__(self, number: int, actor: Any) -> None:
        self.number, self.actor, self.heard = number, actor, False
        self.end = "its actor or its node was lost"
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
