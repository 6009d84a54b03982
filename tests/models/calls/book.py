"""The layers of the call chain around a function that answers, for tests without a model."""

from __future__ import annotations

import contextlib
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from stepscore._threads import Threads
from stepscore.episodes import Clip
from stepscore.models import DecodedMedia, FrameRef, Generate, MediaRef, Prompt, Request, Response, Turn
from stepscore.models.calls import Budget, Call, CallCache, CallOptions, Price, RunAccount, Waits
from stepscore.models.calls.call import Asker
from stepscore.models.calls.layers.attempt import Attempt
from stepscore.models.calls.layers.cache import Cache
from stepscore.models.calls.layers.decoding import Decoding
from stepscore.models.calls.layers.retry import Retrying
from stepscore.models.calls.layers.sharing import Sharing
from stepscore.models.mock import MockModel

REQUEST = Generate(Prompt((Turn("user", ("how far?", FrameRef("top", 3))),)), max_tokens=50)
FRAME = DecodedMedia(Clip(np.zeros((1, 2, 2, 3), np.uint8), np.zeros(1), np.zeros(1, np.int64)))


def decode(named: MediaRef) -> DecodedMedia:
    return FRAME


@dataclass(frozen=True)
class Sends:
    """The innermost layer."""

    send: Callable[[Request], Awaitable[Response]]

    async def answer(self, call: Call) -> Response:
        assert call.decoded is not None
        return await self.send(call.decoded)


class Book:
    """Cache, Sharing, Decoding, Retrying and Attempt of one model, and their account."""

    def __init__(
        self,
        folder: Path,
        *,
        price: Price | None = None,
        cache: CallCache | None = None,
        budget: Budget | None = None,
        retries: int = 6,
        slots: Any = None,
        waits: Waits | None = None,
        shared: bool = False,
    ) -> None:
        self.price, self.retries, self.shared = price, retries, shared
        path = None if cache is None else cache.path
        options = CallOptions(budget or Budget(), cache=cache is not None, cache_path=path)
        options.budget.check("mock/x", price)
        self.account = RunAccount(folder, options)
        self.waits, self.slots = waits or Waits("m"), slots or contextlib.nullcontext()
        self.threads = Threads(2, "decode")

    async def ask(
        self,
        call: Call,
        send: Callable[[Request], Awaitable[Response]],
        decode: Callable[[MediaRef], DecodedMedia] = decode,
    ) -> Response:
        call.asker = Asker("e", "f", decode, [])
        attempt = Attempt(Sends(send), self.account, "mock/x", self.price, self.slots)
        decoding = Decoding(Retrying(attempt, self.retries, self.waits), self.threads)
        model = MockModel("x", served=self.shared)
        sharing = Sharing(decoding, self.account, model)
        return await Cache(sharing, self.account, model, self.price).answer(call)
