"""How many actors a run has on a cluster, and what each needs of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from stepscore.judges import Judge

Needs = Mapping[str, float]
"""CPUs and GPUs of an actor, as options of Ray's."""


@dataclass(frozen=True)
class Placement:
    """The actors of a run.

    Attributes:
        workers: Actors that judge episodes.
        worker: What each of them needs.
        replicas: Actors of each model that computes; a served model has one, for its connections.
        replica: What each of them needs.
    """

    workers: int
    worker: Needs
    replicas: int
    replica: Needs


def plan(
    judge: Judge, workers: int | None, replicas: int | None, resources: Mapping[str, float]
) -> Placement:
    """Return the actors of a run.

    Models that compute have a GPU each where the cluster has any; else the CPUs are theirs, and the workers beside
    them, which only decode and wait, need none. Where more actors are asked for than there are CPUs, they share them,
    so that none waits for ever. A replica that needs a GPU waits for one: two would rarely fit on it.

    Args:
        judge: The judge.
        workers: Number of workers; ``None`` for as many as there are CPUs.
        replicas: Actors of each model; ``None`` for all GPUs, else one for each worker.
        resources: The cluster's, as Ray counts them.
    """
    cpus, gpus = max(1.0, resources.get("CPU", 1.0)), resources.get("GPU", 0.0)
    models = sum(not model.capabilities.served for model in judge.models)
    workers = workers or int(cpus)
    if gpus >= 1:
        share = 1.0 if gpus >= models else gpus / models
        count = replicas or max(1, int(gpus) // max(1, models))
        return Placement(
            workers, {"num_cpus": min(1.0, cpus / workers)}, count, {"num_cpus": 0, "num_gpus": share}
        )
    count = replicas or workers
    replica = {"num_cpus": min(1.0, cpus / (count * max(1, models)))}
    return Placement(workers, {"num_cpus": 0 if models else min(1.0, cpus / workers)}, count, replica)
