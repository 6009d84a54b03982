"""Workers of a run on Ray: the actor, the owner's end of it, how many there are, and their start.

Ray itself is imported where it is used: an actor's module is loaded on every node.
"""

from __future__ import annotations

import asyncio
import os
import pickle
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from stepscore._local_modules import import_local_modules
from stepscore.errors import exits_as_errors
from stepscore.judges import Judge
from stepscore.models.calls import log_wait
from stepscore.runs.messages import FromWorker, ToWorker, Unable
from stepscore.runs.owner import pickled
from stepscore.runs.worker_link import WorkerLink

WAIT_S = 30.0
"""Seconds without any worker after which a line says what the run waits for."""

Needs = Mapping[str, float]
"""CPUs and GPUs of a worker, as options of Ray's."""


class EpisodeActor:
    """Judges episodes: a worker whose messages are fetched by the owner.

    Args:
        packed: Modules of the user's own files, then what a worker's link is made of; see ``packed_work``.
    """

    def __init__(self, packed: Sequence[bytes]) -> None:
        limit_threads()
        self._packed = packed
        self._posted: asyncio.Queue[bytes] = asyncio.Queue()
        self._worker: WorkerLink | None = None

    async def begin(self) -> None:
        """Load the judge."""
        loop = asyncio.get_running_loop()

        def post(messages: Sequence[bytes]) -> None:
            for message in messages:
                loop.call_soon_threadsafe(self._posted.put_nowait, message)

        try:
            with exits_as_errors():
                import_local_modules(pickle.loads(self._packed[0]))
                judge, views, options, at_a_time = pickle.loads(self._packed[1])
                self._worker = WorkerLink(judge, views, options, at_a_time, post)
        except Exception as error:  # a judge is anyone's code
            post([pickle.dumps(Unable(f"{type(error).__name__}: {error}"))])
            return
        self._worker.start()

    async def deliver(self, messages: Sequence[bytes]) -> None:
        """Take messages of the owner."""
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
    # Ray sets it to them; libraries that were loaded before have not read it.
    threads = os.environ.setdefault("OMP_NUM_THREADS", "1")
    if threads.isdecimal() and int(threads) > 0:
        _limit_loaded(int(threads))


def _limit_loaded(threads: int) -> Any:
    from threadpoolctl import threadpool_limits

    return threadpool_limits(threads)


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
                self.stop()  # a worker that misses a message waits for ever; whoever receives notices its end
                return


def plan(judge: Judge, workers: int | None, resources: Mapping[str, float]) -> tuple[int, Needs]:
    """Return how many workers a run has, and what each needs.

    A worker has its judge's models in its own process. Where models compute and the cluster has GPUs, each worker has
    one, else its share of the CPUs; where more workers are asked for than there are, they share them, so that none
    waits for ever.

    Args:
        judge: The judge.
        workers: Number of workers; ``None`` for as many as there are GPUs, else CPUs.
        resources: The cluster's, as Ray counts them.
    """
    cpus, gpus = max(1.0, resources.get("CPU", 1.0)), resources.get("GPU", 0.0)
    computes = any(not model.capabilities.served for model in judge.models)
    if computes and gpus >= 1:
        count = workers or int(gpus)
        return count, {"num_cpus": min(1.0, cpus / count), "num_gpus": min(1.0, gpus / count)}
    count = workers or int(cpus)
    return count, {"num_cpus": min(1.0, cpus / count)}


class RayCrew:
    """Starts worker actors.

    Args:
        packed: What each gets first; see ``packed_work``.
        plan: Returns how many workers there should be on the cluster as it is now, and what each needs.
    """

    def __init__(self, packed: Sequence[bytes], plan: Callable[[], tuple[int, Needs]]) -> None:
        import ray

        self._plan = plan
        self._workers, needs = plan()
        made: Any = ray.remote(EpisodeActor)
        self._made = made.options(max_restarts=0, scheduling_strategy="SPREAD", **needs)
        self._packed = ray.put(list(packed))
        self._links: list[RayLink] = []
        self._waiting: asyncio.TimerHandle | None = None

    async def wanted(self) -> int:
        """Return how many workers there should be; what a lost node had waits for room, so there are never fewer."""
        # In a thread: while the cluster's head is away this waits for it, and the work need not.
        found, _ = await asyncio.to_thread(self._plan)
        self._workers = max(found, self._workers)
        return self._workers

    def start(self, number: int) -> RayLink:
        """Start a worker actor."""
        if not self._links:
            self._waiting = asyncio.get_running_loop().call_later(WAIT_S, self._note_wait)
        link = RayLink(number, self._made.remote(self._packed))
        self._links.append(link)
        return link

    def close(self) -> None:
        """End all actors."""
        if self._waiting is not None:
            self._waiting.cancel()
        for link in self._links:
            link.stop()

    def _note_wait(self) -> None:
        if not any(link.heard for link in self._links):
            log_wait(
                f"No worker could start on the Ray cluster in {WAIT_S:g} s: its CPUs or GPUs may be taken by others, "
                "or its nodes are being started. Waiting; `ray status` shows them."
            )
