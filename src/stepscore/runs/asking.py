"""Between a run's judges and its models: decoding, the ledger, and how many calls go at a time."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np

from stepscore.episodes import Episode
from stepscore.errors import OptionError, TransientModelError
from stepscore.judges import Ask
from stepscore.models import Model, Request, Response
from stepscore.models.cache import CallCache
from stepscore.models.calls import Call, call_key
from stepscore.models.ledger import Attempts, Budget, Ledger
from stepscore.models.prices import price_of
from stepscore.models.request import resolve, show_from
from stepscore.types import Usage


@dataclass(frozen=True)
class Spending:
    """How a run may ask its models. None of it changes a number.

    Attributes:
        budget: Calls and money that may be spent, over all starts of the run.
        price_in: Price per million tokens read; ``None`` leaves it to the table.
        price_out: Price per million tokens written.
        cache: Keep answers and use kept ones.
        cache_path: The cache file; ``None`` for the user's.
        connections: Calls under way at a time, for served models.
        timeout_s: Seconds after which a served call counts as lost.
        retries: Attempts at one call.
    """

    budget: Budget = field(default_factory=Budget)
    price_in: float | None = None
    price_out: float | None = None
    cache: bool = True
    cache_path: Path | None = None
    connections: int = 8
    timeout_s: float = 300.0
    retries: int = 6


class Asking:
    """Answers the requests of a run's judges."""

    def __init__(self, folder: Path, spending: Spending, default: Model | None) -> None:
        if spending.connections < 1:
            raise OptionError(f"connections is {spending.connections}; it must be at least 1.")
        self._spending, self._default = spending, default
        self._folder = folder
        self._attempts: Attempts | None = None
        self._cache: CallCache | None = None
        self._ledgers: dict[str, Ledger] = {}
        self._described: dict[str, dict[str, object]] = {}
        self._slots = asyncio.Semaphore(spending.connections)
        self._decoders = ThreadPoolExecutor(2, thread_name_prefix="stepscore-decode")

    def close(self) -> None:
        """Let go of files and threads."""
        self._decoders.shutdown(wait=True)
        if self._attempts is not None:
            self._attempts.close()
        if self._cache is not None:
            self._cache.close()

    def of(self, episode: Episode, calls: list[Call]) -> Ask:
        """The ``ask`` handed to a judge for one episode; what is asked is noted in ``calls``."""

        async def ask(request: Request, model: Model | None = None) -> Response:
            asked = model or self._default
            if asked is None:
                raise OptionError("This judge asks a model, and has none: give it one (--model).")
            ledger = self._ledger(asked)
            call = Call(
                episode.id, call_key(episode.fingerprint, request, self._described[asked.name]), request
            )
            calls.append(call)
            return await ledger.ask(call, lambda: self._send(episode, request, asked))

        return ask

    async def _send(self, episode: Episode, request: Request, model: Model) -> Response:
        loop = asyncio.get_running_loop()
        shown = await loop.run_in_executor(self._decoders, resolve, request, show_from(episode))
        if not model.capabilities.served:
            return await model.answer(shown)
        async with self._slots:
            try:
                return await asyncio.wait_for(model.answer(shown), self._spending.timeout_s)
            except TimeoutError:
                raise TransientModelError(
                    f"{model.name}: no answer in {self._spending.timeout_s:g} s."
                ) from None

    def _ledger(self, model: Model) -> Ledger:
        if model.name not in self._ledgers:
            spending = self._spending
            if self._attempts is None:
                self._attempts = Attempts(self._folder / "attempts.sqlite")
                self._cache = CallCache(spending.cache_path) if spending.cache else None
            self._described[model.name] = dict(model.describe())
            self._ledgers[model.name] = Ledger(
                model.name,
                attempts=self._attempts,
                price=price_of(model.name, spending.price_in, spending.price_out),
                cache=self._cache,
                budget=spending.budget,
                retries=spending.retries,
            )
        return self._ledgers[model.name]


def usage_of(calls: Sequence[Call], said: Usage) -> Usage:
    """What an episode's calls took, on top of what the judge itself reports. Unknown cost stays unknown."""
    if not calls:
        return said
    costs = [call.cost for call in calls]
    known = [cost for cost in costs if cost is not None]
    rows = [call.row() for call in calls]
    return replace(
        said,
        calls=len(calls),
        attempts=sum(call.attempts for call in calls),
        images=sum(call.images for call in calls),
        tokens_in=sum(row["tokens_in"] for row in rows),
        tokens_out=sum(row["tokens_out"] for row in rows),
        cost=float(np.sum(known)) if len(known) == len(costs) else None,
    )
