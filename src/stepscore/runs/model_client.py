"""The client through which a run's judges ask models: decoding, the ledger, and the number of calls at a time."""

from __future__ import annotations

import asyncio
import json
import math
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Protocol, runtime_checkable

import numpy as np

from stepscore._appending import Lease
from stepscore._threads import Threads
from stepscore.episodes import Episode
from stepscore.errors import BudgetError, OptionError, TransientModelError
from stepscore.judges import Ask
from stepscore.models import (
    BatchModel,
    Model,
    PrefixScores,
    Request,
    Response,
    ScorePrefixes,
    check_model_extra,
    guarded,
    media_decoder,
    resolve,
)
from stepscore.models.api import score_one_by_one, scores_one_by_one
from stepscore.models.calls import (
    PATIENCE_S,
    Attempts,
    AttemptsJournal,
    Budget,
    Call,
    CallCache,
    KeptAnswers,
    Ledger,
    OpenAttempts,
    Price,
    Spent,
    Waits,
    call_key,
    check_amount,
    check_prices,
    log_wait,
    price_of,
)
from stepscore.types import Usage

ATTEMPTS_DATABASE, ATTEMPTS_JOURNAL, KEPT_ANSWERS = "attempts.sqlite", "attempts.jsonl", "answers.jsonl"
"""Files of a run folder that models' calls write: the latter two where machines share the folder."""

MAX_CONNECTIONS = 4096
"""Most calls in flight at a time, and most attempts at one."""


@dataclass(frozen=True)
class CallOptions:
    """Budget, prices, cache and connections of a run's calls. None of it changes a number.

    Attributes:
        budget: The most calls and money, over all starts of the run.
        price_in: Price per million input tokens; ``None`` takes it from the price table.
        price_out: Price per million output tokens; given with ``price_in`` or not at all.
        cache: Whether answers are cached and taken from the cache.
        cache_path: The cache file; ``None`` for the user's.
        connections: Calls in flight at a time, for served models.
        timeout_s: Seconds after which a served call counts as lost.
        retries: Most attempts at one call.
        patience_s: Seconds for which a call waits at most, all its waits together, and all calls for a server that is
            away.
        on_wait: Called with a line before every long wait; by default it is logged, which shows it on stderr.
    """

    budget: Budget = field(default_factory=Budget)
    price_in: float | None = None
    price_out: float | None = None
    cache: bool = True
    cache_path: Path | None = None
    connections: int = 8
    timeout_s: float = 300.0
    retries: int = 6
    patience_s: float = PATIENCE_S
    on_wait: Callable[[str], None] = log_wait

    def __post_init__(self) -> None:
        check_prices(self.price_in, self.price_out)
        check_amount(self.patience_s, "patience_s (--patience)")
        for name, least in (("connections", 1), ("retries", 1)):
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= MAX_CONNECTIONS:
                raise OptionError(
                    f"{name} is {value}; it must be at least {least}, at most {MAX_CONNECTIONS}."
                )
        if not 0 < self.timeout_s < math.inf:
            raise OptionError(f"timeout_s is {self.timeout_s}; it must be above 0.")

    def price(self, model: Model) -> Price | None:
        """Return the price of the model's tokens; ``None`` where not known."""
        return price_of(model.name, self.price_in, self.price_out)

    def check(self, models: Iterable[Model]) -> None:
        """Check what can be known of the models before anything is asked.

        Raises:
            MissingExtraError: A model needs an extra that is not installed.
            OptionError: Money is limited, and one of the models has no price.
        """
        for model in models:
            check_model_extra(model)
            self.budget.check(model.name, self.price(model))

    def workers(self, models: Iterable[Model]) -> int:
        """Return how many episodes are in flight by default: as many as connections if a model is served, else 1."""
        return self.connections if any(model.capabilities.served for model in models) else 1


@runtime_checkable
class CacheHitListener(Protocol):
    """A model that is informed of responses taken from the cache, to warn of them as it would of its own."""

    def on_cache_hit(self, response: Response) -> None:
        """Called with each response that came from the cache."""


class Asked(Protocol):
    """What a call's key and record take from an episode."""

    @property
    def id(self) -> str:
        """Its id."""

    @property
    def fingerprint(self) -> str:
        """Its fingerprint."""


class Elsewhere(Protocol):
    """Where the frames of an episode are decoded and its requests answered, if not in this process."""

    async def decode(self, request: Request) -> Request:
        """Return the request with its frames, or what stands for it there."""

    async def answer(self, decoded: Request, model: Model) -> Response:
        """Return the model's response to what ``decode`` returned."""


class ModelClient:
    """Answers the requests of a run's judges.

    Args:
        folder: The run folder; attempts are recorded in it.
        call_options: Budget, prices, cache and connections.
        default: The model for requests that name none; ``None`` where every request must.
        lease: The lease of a folder that machines share: attempts are then lines of a file, and answers are kept
            beside them for another machine. ``None`` where the folder is locked.
    """

    def __init__(
        self, folder: Path, call_options: CallOptions, default: Model | None, lease: Lease | None = None
    ) -> None:
        self._options, self._default = call_options, default
        self._folder, self._lease = folder, lease
        # Opened at once where earlier starts left it: a damaged one is better known before anything is asked.
        kept = any((folder / name).exists() for name in (ATTEMPTS_DATABASE, ATTEMPTS_JOURNAL))
        self._attempts: OpenAttempts | None = self._open_attempts() if kept else None
        self._cache: CallCache | KeptAnswers | None = None
        self._ledgers: dict[str, tuple[Ledger, dict[str, object]]] = {}
        # By identity; the model is kept with its description, so that no other can take its id.
        self._known: dict[int, tuple[Model, dict[str, object]]] = {}
        self._slots = asyncio.Semaphore(call_options.connections)
        self._decoders = Threads(2, "stepscore-decode")

    def close(self) -> None:
        """Close files and threads."""
        self._decoders.shutdown(wait=True)
        if self._attempts is not None:
            self._attempts.close()
        if self._cache is not None:
            self._cache.close()

    def spent(self) -> tuple[Spent, Spent]:
        """Return attempts and cost of this start, and of all starts of the run."""
        if self._attempts is None:
            return Spent(), Spent()
        return self._attempts.this_start(), self._attempts.total()

    def ask_about(self, episode: Episode, calls: list[Call]) -> Ask:
        """Return the ``ask`` for one episode; every call is appended to ``calls``."""
        return self.ask_elsewhere(episode, calls, self.here(episode))

    def here(self, episode: Episode) -> Here:
        """Return this process, where an episode's frames are decoded and its requests answered."""
        return Here(episode, self._decoders)

    def ask_elsewhere(
        self,
        episode: Asked,
        calls: list[Call],
        elsewhere: Elsewhere,
        on_same: Callable[[], None] = lambda: None,
    ) -> Ask:
        """Return the ``ask`` for an episode of another process: only the account of its calls is kept here.

        Args:
            episode: The episode.
            calls: Every call is appended to it.
            elsewhere: Where its frames are decoded and its requests answered.
            on_same: Called before the answer to the same request of another episode is waited for.
        """

        async def ask(request: Request, model: Model | None = None) -> Response:
            chosen = model or self._default
            if chosen is None:
                raise OptionError("This judge asks a model, and has none: give it one (--model).")
            if isinstance(request, ScorePrefixes) and scores_one_by_one(chosen.capabilities):
                one = partial(self._ask_prefix, episode, elsewhere, chosen, calls, on_same)
                return await score_one_by_one(request, one)
            return await self._ask(episode, elsewhere, request, chosen, calls, on_same)

        return ask

    def forget(self, calls: Iterable[Call]) -> None:
        """Delete the answers to calls from the cache, where they cannot be used, so that they are asked for again."""
        for call in calls:
            if self._cache is not None:
                self._cache.forget(call.key)

    async def _ask_prefix(
        self,
        episode: Asked,
        elsewhere: Elsewhere,
        model: Model,
        calls: list[Call],
        on_same: Callable[[], None],
        request: ScorePrefixes,
    ) -> PrefixScores:
        response = await self._ask(episode, elsewhere, request, model, calls, on_same)
        assert isinstance(response, PrefixScores)
        return response

    async def _ask(
        self,
        episode: Asked,
        elsewhere: Elsewhere,
        request: Request,
        model: Model,
        calls: list[Call],
        on_same: Callable[[], None],
    ) -> Response:
        """Return the response to a request that is one call."""
        ledger, described = self._ledger(model)
        call = Call(episode.id, call_key(episode.fingerprint, request, described), request)
        calls.append(call)
        try:
            response = await ledger.ask(
                call,
                lambda: elsewhere.decode(request),
                lambda decoded: self._send(elsewhere.answer(decoded, model), model),
                on_same,
            )
        except BudgetError:
            # Calls in flight are paid for already: their answers are awaited and kept.
            await asyncio.gather(*(other.settled() for other, _ in self._ledgers.values()))
            raise
        if call.cached and isinstance(model, CacheHitListener):
            model.on_cache_hit(response)
        return response

    async def _send(self, answer: Awaitable[Response], model: Model) -> Response:
        if not model.capabilities.served:
            return await answer
        try:
            return await asyncio.wait_for(answer, self._options.timeout_s)
        except TimeoutError:
            raise TransientModelError(f"{model.name}: no answer in {self._options.timeout_s:g} s.") from None

    def _ledger(self, model: Model) -> tuple[Ledger, dict[str, object]]:
        """Return the model's ledger and description. Two models of one name and other options are two models."""
        if id(model) not in self._known:
            self._known[id(model)] = (model, dict(model.describe()))
        described = self._known[id(model)][1]
        name = json.dumps(described, sort_keys=True)
        if name not in self._ledgers:
            self._ledgers[name] = (self._open(model), described)
        return self._ledgers[name]

    def _open_attempts(self) -> OpenAttempts:
        """Return the record of attempts; the one that earlier starts of the run wrote goes on."""
        database, journal = self._folder / ATTEMPTS_DATABASE, self._folder / ATTEMPTS_JOURNAL
        if database.exists() or (self._lease is None and not journal.exists()):
            return Attempts(database)
        return AttemptsJournal(journal, lambda: None if self._lease is None else self._lease.check())

    def _open(self, model: Model) -> Ledger:
        options = self._options
        if self._attempts is None:
            self._attempts = self._open_attempts()
        if self._cache is None and options.cache:
            cache = CallCache(options.cache_path)
            shared = None if self._lease is None else self._lease.check
            self._cache = cache if shared is None else KeptAnswers(cache, self._folder / KEPT_ANSWERS, shared)
        served = model.capabilities.served
        return Ledger(
            model.name,
            attempts=self._attempts,
            price=options.price(model),
            cache=self._cache,
            budget=options.budget,
            retries=options.retries,
            slots=self._slots if served else None,
            waits=Waits(model.name, options.patience_s, options.on_wait),
            shared=served,
        )


@dataclass(frozen=True)
class Here:
    """Decodes the frames of an episode in threads, and answers in this process."""

    episode: Episode
    threads: Threads

    async def decode(self, request: Request) -> Request:
        """Return the request with its frames."""
        loop = asyncio.get_running_loop()
        with guarded():
            return await loop.run_in_executor(self.threads, resolve, request, media_decoder(self.episode))

    async def answer(self, decoded: Request, model: Model) -> Response:
        """Return the model's response."""
        with guarded():
            return await model.answer(decoded)

    async def answer_batch(
        self, asked: Sequence[tuple[object, Request]], model: BatchModel
    ) -> Sequence[Response | Exception]:
        """Return the model's response to each request, or why there is none."""
        with guarded():
            return await model.answer_batch([decoded for _, decoded in asked])


def usage_of(calls: Sequence[Call], reported: Usage) -> Usage:
    """Return the usage of an episode's calls, with the rest as the judge reported it. Unknown cost stays unknown."""
    if not calls:
        return reported
    costs = [call.cost for call in calls]
    known = [cost for cost in costs if cost is not None]
    rows = [call.row() for call in calls]
    return replace(
        reported,
        calls=len(calls),
        attempts=sum(call.attempts for call in calls),
        images=sum(call.images for call in calls),
        tokens_in=sum(row["tokens_in"] or 0 for row in rows) - sum(map(_tokens_reused, calls)),
        tokens_out=sum(row["tokens_out"] or 0 for row in rows),
        cost=float(np.sum(known)) if len(known) == len(costs) else None,
    )


def _tokens_reused(call: Call) -> int:
    """Return the tokens of a call that the model did not read again."""
    response = call.response
    if call.cached or not isinstance(response, PrefixScores):
        return 0
    return min(response.tokens_reused, response.tokens_in)
