"""Workers of a run on Ray, as its driver has them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from stepscore.judges import Judge
from stepscore.models.calls import log_wait
from stepscore.runs.engines.cluster.actors import EpisodeActor
from stepscore.runs.engines.cluster.links import RayLink
from stepscore.runs.engines.cluster.models import WAIT_S, ModelReplicas
from stepscore.runs.engines.cluster.placement import Placement


class RayCrew:
    """Starts worker actors, and the actors of the judge's models.

    Args:
        packed: What each worker gets first; see ``packed_judge``.
        judge: The judge.
        plan: Returns how many actors there should be on the cluster as it is now, and what each needs.
        at_a_time: Groups that each worker works on at a time.
    """

    def __init__(
        self, packed: Sequence[bytes], judge: Judge, plan: Callable[[], Placement], at_a_time: int
    ) -> None:
        import ray

        self._plan, self._places = plan, plan()
        made: Any = ray.remote(EpisodeActor)
        self._worker = made.options(max_restarts=0, scheduling_strategy="SPREAD", **self._places.worker)
        self._packed = ray.put(list(packed))
        self._judge, self._at_a_time = judge, at_a_time
        self._models: dict[int, ModelReplicas] = {}
        self._links: list[RayLink] = []
        self._waiting: asyncio.TimerHandle | None = None

    async def wanted(self) -> int:
        """Return how many workers there should be, and start models where nodes with room for them have joined."""
        # In a thread: while the cluster's head is away this waits for it, and the work need not.
        found = await asyncio.to_thread(self._plan)
        # What a lost node had waits for room: there are never fewer.
        workers = max(found.workers, self._places.workers)
        replicas = max(found.replicas, self._places.replicas)
        self._places = replace(self._places, workers=workers, replicas=replicas)
        for number, model in self._models.items():
            if not self._judge.models[number].capabilities.served:
                model.grow(replicas)
        return workers

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
            options = {"num_cpus": 0, **on_this_node()} if served else self._places.replica
            self._models[number] = ModelReplicas(model, count, options, cloudpickle.dumps)

    def _note_wait(self) -> None:
        if not any(link.heard for link in self._links):
            log_wait(
                f"No worker could start on the Ray cluster in {WAIT_S:g} s: its CPUs or GPUs may be taken by others, "
                "or its nodes are being started. Waiting; `ray status` shows them."
            )


def on_this_node() -> dict[str, Any]:
    """Return the option of an actor that is to be on the driver's node: no other node takes it along as it leaves."""
    import ray
    from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

    here = ray.get_runtime_context().get_node_id()
    return {"scheduling_strategy": NodeAffinitySchedulingStrategy(here, soft=False)}
