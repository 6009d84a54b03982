"""The models of a run on Ray: each is held by one or more actors, which are asked in turn by their load.

An actor that dies is started again by Ray. The call that it had is lost, and the ledger makes it again.
"""

from __future__ import annotations

import asyncio
import pickle
from collections.abc import Callable, Sequence
from typing import Any

from stepscore._local_modules import local_modules
from stepscore.errors import TransientModelError
from stepscore.models import Model, Response
from stepscore.runs.engines.cluster.actors import ModelActor
from stepscore.runs.engines.cluster.placement import Needs


class ModelReplicas:
    """The actors of one model.

    Args:
        model: The model.
        count: Number of actors.
        needs: What each needs of the cluster, as options of Ray's.
        dumps: Pickles the model.
    """

    def __init__(self, model: Model, count: int, needs: Needs, dumps: Callable[[object], bytes]) -> None:
        import ray

        packed = [pickle.dumps(local_modules()), dumps(model)]
        made: Any = ray.remote(ModelActor)
        actor = made.options(max_restarts=-1, max_task_retries=0, **needs)
        self._model = model
        self._actors = [actor.remote(packed) for _ in range(count)]
        self._loads: dict[int, int] = {}
        self._some_ready = asyncio.Event()
        self._starting = [asyncio.ensure_future(self._await_start(place)) for place in range(count)]

    async def answer(self, decoded: Sequence[Any]) -> list[Response | Exception]:
        """Return the responses to decoded requests, made in one pass by the actor that has the least to do."""
        import ray

        await self._some_ready.wait()
        place = min(self._loads, key=self._loads.__getitem__)
        self._loads[place] += 1
        try:
            results: list[Response | Exception] = await self._actors[place].answer.remote(*decoded)
            return results
        except ray.exceptions.RayError as error:
            raise TransientModelError(
                f"{self._model.name}: the actor that holds it was lost, and is started again ({_brief(error)})."
            ) from None
        finally:
            self._loads[place] -= 1

    def close(self) -> None:
        """End the actors."""
        import ray

        for task in self._starting:
            task.cancel()
        for actor in self._actors:
            ray.kill(actor)

    async def _await_start(self, place: int) -> None:
        """Count an actor as ready when it is; one that waits for room on the cluster is asked nothing."""
        await self._actors[place].ready.remote()
        self._loads[place] = 0
        self._some_ready.set()


def _brief(error: Exception) -> str:
    """Return the first line of one of Ray's messages."""
    return (str(error).strip().splitlines() or [type(error).__name__])[0]
