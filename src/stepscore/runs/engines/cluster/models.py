"""The models of a run on Ray: each is held by one or more actors, which are asked in turn by their load.

An actor that dies is started again by Ray, where there is room for it. The call that it had is lost, and the ledger
makes it again; until the actor is back, nothing is asked of it, and the others go on.
"""

from __future__ import annotations

import asyncio
import pickle
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from stepscore._local_modules import local_modules
from stepscore.errors import RunError, TransientModelError
from stepscore.models import Model, Response
from stepscore.models.calls import log_wait
from stepscore.runs.engines.cluster.actors import ModelActor

LOOK_S = 0.5
"""Seconds between two looks whether an actor that was lost is back."""

MAX_DEAD_LOOKS = 3
"""Looks that may find an actor dead, not on its way back, before it counts as gone for good."""

WAIT_S = 30.0
"""Seconds without any worker, or any actor of a model, after which a line says what the run waits for."""


class FramesLostError(Exception):
    """The decoded request is gone with the node on which it was."""


@dataclass(eq=False)
class _Replica:
    """An actor that answers, from its start to its loss, and how much it has to do."""

    actor: Any
    load: int = 0


class ModelReplicas:
    """The actors of one model; to be made in a running event loop.

    Args:
        model: The model.
        count: Number of actors.
        options: What each needs of the cluster, and where it is to be, as options of Ray's.
        dumps: Pickles the model.
    """

    def __init__(
        self, model: Model, count: int, options: Mapping[str, Any], dumps: Callable[[object], bytes]
    ) -> None:
        import ray

        self._packed = [pickle.dumps(local_modules()), dumps(model)]
        made: Any = ray.remote(ModelActor)
        self._made = made.options(max_restarts=-1, max_task_retries=0, **options)
        self._model = model
        self._actors: list[Any] = []
        self._ready: list[_Replica] = []
        self._some_ready = asyncio.Event()
        self._starting: set[asyncio.Task[None]] = set()
        self._failure, self._said = "", False
        self.grow(count)

    def grow(self, count: int) -> None:
        """Start further actors until there are this many."""
        for _ in range(count - len(self._actors)):
            actor = self._made.remote(self._packed)
            self._actors.append(actor)
            self._await_start(actor)

    async def answer(self, decoded: Sequence[Any]) -> list[Response | Exception]:
        """Return the responses to decoded requests, made in one pass by the actor that has the least to do.

        Raises:
            FramesLostError: The requests have to be decoded again.
            TransientModelError: The actor was lost.
            RunError: The model can be loaded nowhere.
        """
        import ray

        replica = await self._least_loaded()
        replica.load += 1
        try:
            results: list[Response | Exception] = await replica.actor.answer.remote(*decoded)
            return results
        except ray.exceptions.ObjectLostError:
            raise FramesLostError from None
        except ray.exceptions.RayError as error:
            if replica in self._ready:
                self._ready.remove(replica)
                self._await_start(replica.actor)
            raise TransientModelError(
                f"{self._model.name}: the actor that holds it was lost, and is started again ({_brief(error)})."
            ) from None
        finally:
            replica.load -= 1

    def close(self) -> None:
        """End the actors."""
        import ray

        for task in self._starting:
            task.cancel()
        for actor in self._actors:
            ray.kill(actor)

    async def _least_loaded(self) -> _Replica:
        while not self._ready:
            if not self._starting:
                raise RunError(
                    f"The model {self._model.name} cannot be loaded on the Ray cluster: {self._failure}. "
                    "StepScore and what the model needs must be on every node."
                )
            self._some_ready.clear()
            with suppress(TimeoutError):
                await asyncio.wait_for(self._some_ready.wait(), WAIT_S)
                continue
            if not self._said:
                self._said = True
                log_wait(
                    f"{self._model.name}: no actor for it could start on the Ray cluster in {WAIT_S:g} s: CPUs or "
                    "GPUs may be taken by others, or a node was lost. Waiting; `ray status` shows them."
                )
        return min(self._ready, key=lambda replica: replica.load)

    def _await_start(self, actor: Any) -> None:
        task = asyncio.ensure_future(self._look_for(actor))
        self._starting.add(task)
        task.add_done_callback(self._started)

    def _started(self, task: asyncio.Task[None]) -> None:
        self._starting.discard(task)
        self._some_ready.set()

    async def _look_for(self, actor: Any) -> None:
        """Count an actor as ready when it is; one that waits for room on the cluster is asked nothing."""
        import ray

        dead = 0
        while dead < MAX_DEAD_LOOKS:
            try:
                await actor.ready.remote()
            except ray.exceptions.RayError as error:
                # Unavailable: it is being started, also on another node. Dead: not even Ray can load it.
                dead = 0 if isinstance(error, ray.exceptions.ActorUnavailableError) else dead + 1
                self._failure = _last_line(error)
                await asyncio.sleep(LOOK_S)
            else:
                self._ready.append(_Replica(actor))
                self._said = False
                return


def _brief(error: Exception) -> str:
    """Return the first line of one of Ray's messages."""
    return (str(error).strip().splitlines() or [type(error).__name__])[0]


def _last_line(error: Exception) -> str:
    """Return the last line of one of Ray's messages, in which a constructor's own error stands."""
    return (str(error).strip().splitlines() or [type(error).__name__])[-1].strip()
