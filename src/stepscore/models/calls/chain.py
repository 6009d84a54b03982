"""The call chain handles every request of a judge, so that you never pay twice for the same answer.

All layers implement ``async def answer(call) -> Response``. From the outermost::

    Split      divides a request that a server can only answer in many calls
    Cache      takes the answer from the cache
    Sharing    waits if the same call is in progress, in this or another process Decoding   decodes images,
    once for all attempts Retrying   repeats a failed attempt Attempt    takes a connection, checks the
    budget, records the attempt and stores the answer Batching   collects requests that a model answers in one
    pass ModelLayer asks the model

In a worker, the chain to a served model ends with Forward after Decoding. The run's owner continues with Retrying.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, Protocol

from stepscore._threads import Threads
from stepscore.episodes import Episode
from stepscore.errors import BudgetError, OptionError
from stepscore.models.base import Model
from stepscore.models.calls.account import Account, RunAccount
from stepscore.models.calls.batch_group import BatchGroup
from stepscore.models.calls.call import Asker, Call, Layer
from stepscore.models.calls.layers.attempt import Attempt
from stepscore.models.calls.layers.batching import Batching
from stepscore.models.calls.layers.cache import Cache
from stepscore.models.calls.layers.decoding import Decoding
from stepscore.models.calls.layers.model_layer import ModelLayer
from stepscore.models.calls.layers.retry import Retrying
from stepscore.models.calls.layers.sharing import Sharing
from stepscore.models.calls.layers.split import Split
from stepscore.models.calls.options import CallOptions
from stepscore.models.calls.retries import Waits
from stepscore.models.media import media_decoder
from stepscore.models.requests import R, Request, TypedRequest
from stepscore.models.responses import Response


class Ask(Protocol):
    """Sends a request to the judge's model, or to the given model."""

    async def __call__(self, request: TypedRequest[R], model: Model | None = None) -> R:
        """Return the response; no answered request is sent twice."""


@contextlib.contextmanager
def opened_chain(folder: Path, options: CallOptions, model: Model) -> Iterator[CallChain]:
    """Yield a chain to a model; attempts are recorded in a folder across all starts."""
    account = RunAccount(folder, options)
    chain = CallChain(account, options, model)
    try:
        yield chain
    finally:
        chain.close()
        account.close()


class CallChain:
    """Answers the requests of a run's judges; requests without a model go to ``default``.

    In a worker, ``forward`` supplies the layer after Decoding for a served model.
    """

    def __init__(
        self,
        account: Account,
        options: CallOptions,
        default: Model | None,
        forward: Callable[[Model], Layer] | None = None,
    ) -> None:
        self._account, self._options, self._default = account, options, default
        self._forward = forward
        self._layers: dict[str, tuple[Layer, Layer]] = {}
        # Keyed by identity. Keeping the model alive ensures that its id is not reused.
        self._known: dict[int, tuple[Model, tuple[Layer, Layer]]] = {}
        self._connections = asyncio.Semaphore(options.connections)
        self._decoders = Threads(2, "stepscore-decode")

    def close(self) -> None:
        """Close the threads."""
        self._decoders.shutdown(wait=True)

    def ask_about(self, episode: Episode, calls: list[Call], group: BatchGroup | None = None) -> Ask:
        """Return the ``ask`` function of an episode, which appends every call to ``calls``."""
        decode = media_decoder(episode)

        async def ask(request: Request, model: Model | None = None) -> Any:
            chosen = model or self._default
            if chosen is None:
                raise OptionError("This judge needs a model. Set --model.")
            whole, _ = self._of(chosen)
            with group.asking(episode.id) if group is not None else contextlib.nullcontext() as waiter:
                asker = Asker(episode.id, episode.fingerprint, decode, calls, waiter)
                try:
                    return await whole.answer(Call(episode.id, "", request, asker=asker))
                except BudgetError:
                    # Calls in flight are already billed, so wait until their answers are stored.
                    with waiter.paused() if waiter is not None else contextlib.nullcontext():
                        await self._account.settled()
                    raise

        return ask

    async def attempt(self, call: Call, model: Model) -> Response:
        """Return the response to a decoded call that a worker forwarded."""
        _, attempts = self._of(model)
        return await attempts.answer(call)

    def forget(self, calls: Iterable[Call]) -> None:
        """Delete unusable answers from the cache, so that the calls are made again."""
        for call in calls:
            self._account.forget(call.key)

    def _of(self, model: Model) -> tuple[Layer, Layer]:
        """Return a model's chain, and the part of the chain that starts at Retrying."""
        if id(model) not in self._known:
            described = dict(model.describe())
            name = json.dumps(described, sort_keys=True)  # models with the same name may differ in options
            if name not in self._layers:
                self._layers[name] = self._build(model, described)
            self._known[id(model)] = model, self._layers[name]
        return self._known[id(model)][1]

    def _build(self, model: Model, described: Mapping[str, object]) -> tuple[Layer, Layer]:
        options, account, price = self._options, self._account, self._options.price(model)
        options.budget.check(model.name, price)
        served = model.capabilities.served
        if served and self._forward is not None:
            attempts = self._forward(model)
        else:
            inner = Batching(ModelLayer(model, options.timeout_s), model)
            connection = self._connections if served else contextlib.nullcontext()
            waits = Waits(model.name, options.patience_s, options.on_wait)
            attempts = Retrying(
                Attempt(inner, account, model.name, price, connection), options.retries, waits
            )
        shared = Sharing(Decoding(attempts, self._decoders), account, model)
        return Split(Cache(shared, account, model, price), model, described), attempts
