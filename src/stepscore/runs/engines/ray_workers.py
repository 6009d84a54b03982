"""Workers of a run on Ray: the actor, the owner's end of it, their number, and the pool that starts them.

Ray is imported inside functions, because every node loads this module.
"""

from __future__ import annotations

import asyncio
import os
import pickle
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from stepscore.judges import Judge
from stepscore.models.calls import log_wait
from stepscore.runs.messages import FromWorker, ToWorker
from stepscore.runs.owner import pickled
from stepscore.runs.remote_worker import RemoteWorker, load_worker

WAIT_S = 30.0
"""Seconds without any worker after which the run reports what it waits for."""

Needs = Mapping[str, float]
"""Ray options with the CPUs and GPUs of a worker."""


class EpisodeActor:
    """A worker whose messages the owner fetches; ``packed`` is from :func:`pack_work`."""

    def __init__(self, packed: Sequence[bytes]) -> None:
        limit_threads()
        self._packed = packed
        self._posted: asyncio.Queue[bytes] = asyncio.Queue()
        self._worker: RemoteWorker | None = None

    async def begin(self) -> None:
        """Load the judge."""
        loop = asyncio.get_running_loop()

        def post(messages: Sequence[bytes]) -> None:
            for message in messages:
                loop.call_soon_threadsafe(self._posted.put_nowait, message)

        self._worker = load_worker(self._packed, post)
        if self._worker is not None:
            self._worker.start()

    async def deliver(self, messages: Sequence[bytes]) -> None:
        """Take messages from the owner."""
        assert self._worker is not None
        for message in messages:
            self._worker.deliver(pickle.loads(message))

    async def take(self) -> list[bytes]:
        """Return the messages for the owner, as soon as there is one."""
        messages = [await self._posted.get()]
        while not self._posted.empty():
            messages.append(self._posted.get_nowait())
        return messages


def limit_threads() -> None:
    """Limit matrix products of this process to the CPUs that Ray gave it, unless the user set a number."""
    from threadpoolctl import threadpool_limits

    # Ray sets the variable; libraries that were loaded before did not read it.
    threads = os.environ.setdefault("OMP_NUM_THREADS", "1")
    if threads.isdecimal() and int(threads) > 0:
        threadpool_limits(int(threads))


class RayHandle:
    """The owner's end of a worker actor, made in a running event loop."""

    def __init__(self, number: int, actor: Any) -> None:
        self.number, self.actor, self.heard = number, actor, False
        self.end = "its actor or its node was lost"
        self._to_send: list[bytes] = []
        self._sending: asyncio.Task[None] | None = None
        actor.begin.remote()

    def send(self, message: ToWorker) -> None:
        """Send a message; messages that come while others are being sent go together afterwards."""
        self._to_send.append(pickled(message))
        if self._sending is None or self._sending.done():
            self._sending = asyncio.get_running_loop().create_task(self._send())

    async def receive(self) -> Sequence[FromWorker]:
        """Return the messages that have come, at least one; none if the actor is gone."""
        import ray

        try:
            messages = await self.actor.take.remote()
        except ray.exceptions.RayError as error:
            self.end = (str(error).strip().splitlines() or [self.end])[-1].strip()
            self.stop()  # if only the connection was lost, the actor must not keep its CPU
            return []
        self.heard = True
        return [pickle.loads(message) for message in messages]

    def stop(self) -> None:
        """Kill the actor."""
        import ray

        ray.kill(self.actor)

    async def _send(self) -> None:
        import ray

        while self._to_send:
            messages, self._to_send = self._to_send, []
            try:
                await self.actor.deliver.remote(messages)
            except ray.exceptions.RayError:
                self.stop()  # an actor that misses a message waits forever; ``receive`` notices its end
                return


def plan(judge: Judge, workers: int | None, resources: Mapping[str, float]) -> tuple[int, Needs]:
    """Return the number of workers, by default one per GPU or else per CPU, and what each needs.

    Each worker has its judge's models in its own process. If models are in process and the cluster has GPUs, it takes
    a GPU, else its share of the CPUs. Surplus workers share GPUs or CPUs, so that none waits forever.
    """
    cpus, gpus = max(1.0, resources.get("CPU", 1.0)), resources.get("GPU", 0.0)
    computes = any(not model.capabilities.served for model in judge.models)
    if computes and gpus >= 1:
        count = workers or int(gpus)
        return count, {"num_cpus": min(1.0, cpus / count), "num_gpus": min(1.0, gpus / count)}
    count = workers or int(cpus)
    return count, {"num_cpus": min(1.0, cpus / count)}


class RayPool:
    """Starts worker actors; ``plan`` returns how many there should be on the cluster now, and what each needs."""

    def __init__(self, packed: Sequence[bytes], plan: Callable[[], tuple[int, Needs]]) -> None:
        import ray

        self._plan = plan
        self._workers, needs = plan()
        actor: Any = ray.remote(EpisodeActor)
        self._actor = actor.options(max_restarts=0, scheduling_strategy="SPREAD", **needs)
        self._packed = ray.put(list(packed))
        self._actors: list[RayHandle] = []
        self._waiting: asyncio.TimerHandle | None = None

    async def wanted(self) -> int:
        """Return how many workers there should be; never fewer than before, as those of a lost node wait for room."""
        # In a thread: it blocks while the cluster's head is unreachable, and the work need not.
        found, _ = await asyncio.to_thread(self._plan)
        self._workers = max(found, self._workers)
        return self._workers

    def start(self, number: int) -> RayHandle:
        """Start a worker actor."""
        if not self._actors:
            self._waiting = asyncio.get_running_loop().call_later(WAIT_S, self._report_wait)
        actor = RayHandle(number, self._actor.remote(self._packed))
        self._actors.append(actor)
        return actor

    def close(self) -> None:
        """End all actors."""
        if self._waiting is not None:
            self._waiting.cancel()
        for actor in self._actors:
            actor.stop()

    def _report_wait(self) -> None:
        if not any(actor.heard for actor in self._actors):
            log_wait(
                f"No worker could start on the Ray cluster in {WAIT_S:g} s: its CPUs or GPUs may be in use, or its "
                "nodes are still starting. Waiting; `ray status` shows them."
            )
