"""What a run would ask and cost, before anything is spent.

The judge runs over every episode with a model that answers nothing; what it asks is counted. A judge whose
next question depends on the answer may ask more or less than this in earnest.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from stepscore.episodes import Episode
from stepscore.errors import ModelError, StepScoreError
from stepscore.judges import Judge, models_of
from stepscore.models import (
    Answer,
    Generate,
    MediaRef,
    Model,
    PrefixScores,
    Request,
    Response,
    Score,
    ScorePrefixes,
    Scores,
    TiledFrames,
    media_refs,
    run_blocking,
)
from stepscore.models.api import scores_one_by_one, single_requests
from stepscore.models.calls import Call, CallCache, Price, call_key, most_tokens
from stepscore.runs.local import RUN_STOPPING_ERRORS
from stepscore.runs.model_client import CallOptions

TOKEN_PIXELS = 28 * 28
"""Pixels a vision model reads as one token, about (Qwen2-VL and later: 28 x 28 or 32 x 32)."""


@dataclass(frozen=True)
class DryRun:
    """What a run would take.

    Attributes:
        episodes: Episodes looked at.
        failures: Those the judge cannot judge at all, and why.
        calls: Calls it would make.
        cached: Those whose answer is already kept.
        images: Pictures it would show.
        tokens_in: Tokens it would read, about.
        tokens_out: Tokens it may write at most.
        cost: What the calls not yet kept would cost, about; ``None`` where a price is not known.
        price: Where the price is from.
    """

    episodes: int
    failures: Mapping[str, str]
    calls: int
    cached: int
    images: int
    tokens_in: int
    tokens_out: int
    cost: float | None
    price: str

    @property
    def failed(self) -> int:
        """How many cannot be judged."""
        return len(self.failures)


def dry_run(
    episodes: Sequence[Episode],
    judge: Judge,
    call_options: CallOptions,
    *,
    views: Sequence[str] | None = None,
) -> DryRun:
    """Count what judging these episodes would ask. Decodes nothing and sends nothing.

    Raises:
        CapabilityError: The model cannot do what the judge needs, as the run itself would say.
    """
    account = _Account(call_options)
    for model in models_of(judge):
        account.known(model)
    failures: dict[str, str] = {}
    try:
        for episode in episodes:
            try:
                shown = episode if views is None else episode.with_views(views)
                account.add(shown, run_blocking(_asked(shown, judge)))
            except RUN_STOPPING_ERRORS:
                raise
            except StepScoreError as error:
                failures[episode.id] = str(error)
    finally:
        account.close()
    calls, cached, images, tokens_in, tokens_out = account.totals.tolist()
    return DryRun(
        len(episodes),
        failures,
        calls,
        cached,
        images,
        tokens_in,
        tokens_out,
        account.cost(),
        account.price(),
    )


@dataclass(frozen=True)
class _Known:
    """A model, what its answers are kept under (``None`` where no server can be reached to say it), its price."""

    model: Model
    described: Mapping[str, object] | None
    price: Price | None


class _Account:
    """What is asked of each model, added up."""

    def __init__(self, call_options: CallOptions) -> None:
        self.totals = np.zeros(5, dtype=np.int64)
        self._spending, self._cost = call_options, 0.0
        self._cache: CallCache | None = None
        self._models: dict[int, _Known] = {}

    def close(self) -> None:
        """Let go of the cache."""
        if self._cache is not None:
            self._cache.close()

    def known(self, model: Model) -> _Known:
        """The model with its price, looked up once."""
        if self._cache is None and self._spending.cache:
            self._cache = CallCache(self._spending.cache_path)
        if id(model) not in self._models:
            self._models[id(model)] = _Known(model, _described(model), self._spending.price(model))
        return self._models[id(model)]

    def add(self, episode: Episode, asked: Sequence[tuple[Request, Model | None]]) -> None:
        """Count what was asked of one episode: all of it, or nothing where a model cannot be reached."""
        sent = [(one, model) for request, model in asked for one in _sent(request, model)]
        for request, model in sent:
            known = None if model is None else self.known(model)
            described = known.described if known is not None else None
            key = call_key(episode.fingerprint, request, described or {})
            kept = described is not None and self._cache is not None and self._cache.get(key) is not None
            tokens = about_tokens(episode, request)
            self.totals += [1, kept, Call(episode.id, key, request).images, *tokens]
            if not kept and known is not None and known.price is not None:
                self._cost += known.price.of(*tokens)

    def cost(self) -> float | None:
        """What the calls cost; ``None`` where one of the models has no price."""
        return None if self._unpriced() else self._cost

    def price(self) -> str:
        """Where the prices are from, or which is missing."""
        if missing := self._unpriced():
            return f"not known for {', '.join(missing)}: give --price-in and --price-out"
        sources = [known.price.source for known in self._models.values() if known.price is not None]
        return ", ".join(dict.fromkeys(sources)) or "no model is asked"

    def _unpriced(self) -> list[str]:
        return list(dict.fromkeys(k.model.name for k in self._models.values() if k.price is None))


def _described(model: Model) -> dict[str, object] | None:
    try:
        return dict(model.describe())
    except ModelError:
        return None


def _sent(request: Request, model: Model | None) -> Sequence[Request]:
    """The calls a request becomes: a server is asked for one prefix at a time."""
    if model is not None and isinstance(request, ScorePrefixes) and scores_one_by_one(model.capabilities):
        return single_requests(request)
    return [request]


async def _asked(episode: Episode, judge: Judge) -> list[tuple[Request, Model | None]]:
    """What a judge asks of one episode, and whom, when every answer is empty."""
    requests: list[tuple[Request, Model | None]] = []
    own: Model | None = getattr(judge, "model", None)

    async def ask(request: Request, model: Model | None = None) -> Response:
        requests.append((request, model or own))
        await asyncio.sleep(0)
        if isinstance(request, Generate):
            return Answer("")
        if isinstance(request, Score):
            unknown = (float("nan"),) * len(request.candidates)
            return Scores(unknown, (True,) * len(request.candidates))
        shape = (len(request.tails), len(request.lengths), len(request.candidates))
        return PrefixScores(np.full(shape, np.nan))

    await judge.judge(episode, ask)
    return requests


def about_tokens(episode: Episode, request: Request) -> tuple[int, int]:
    """Tokens a request reads, about, and writes at most: a token is four bytes, or 28 x 28 pixels."""
    pictures = sum(_picture_tokens(episode, part) for part in media_refs(request))
    if isinstance(request, ScorePrefixes):
        text = len(request.head) + sum(len(tail) for tail in request.tails) * len(request.lengths)
        return pictures + text // 4, 0
    parts = [part for turn in request.prompt.turns for part in turn.parts if isinstance(part, str)]
    text = sum(len(part.encode()) for part in parts) // 4
    return pictures + text, most_tokens(request)[1]


def _picture_tokens(episode: Episode, part: MediaRef) -> int:
    if isinstance(part, TiledFrames):
        return sum(_picture_tokens(episode, still) for still in part.stills)
    info = episode.views[part.view].info() if part.view in episode.views else None
    if info is None:
        return 0
    scale = 1.0 if part.size is None else part.size / max(info.width, info.height)
    count = len(getattr(part, "indices", (0,)))
    return count * max(1, round(info.width * info.height * scale * scale / TOKEN_PIXELS))
