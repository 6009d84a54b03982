"""Workers of a run on Ray, as its owner has them: how many there are, what each needs, and their start."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from stepscore.judges import Judge
from stepscore.models.calls import log_wait
from stepscore.runs.engines.cluster.actors import EpisodeActor
from stepscore.runs.engines.cluster.links import RayLink

WAIT_S = 30.0
"""Seconds without any worker after which a line says what the run waits for."""

Needs = Mapping[str, float]
"""CPUs and GPUs of a worker, as options of Ray's."""


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
