"""A dry run: count the calls of a run, and estimate their cost, before any is made.

The judge runs over every episode with the answers that are in the cache and, where there is none, one that knows
nothing; its requests are counted. A judge whose next request depends on such an answer may make more or fewer calls
in the real run, and one that cannot read it at least those counted. How many tokens a model reads an image as is
known when it has read some: the real counts of calls in the cache correct the estimate of the others.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np

from stepscore.episodes import Episode
from stepscore.errors import ModelError
from stepscore.judges import Judge, default_model
from stepscore.judges.published.profiles import without_fetching
from stepscore.models import (
    MediaRef,
    Model,
    PrefixScores,
    Request,
    Response,
    ScorePrefixes,
    TiledFrames,
    count_of,
    guarded,
    run_blocking,
)
from stepscore.models.api import score_one_by_one, scores_one_by_one
from stepscore.models.calls import (
    Call,
    CallCache,
    CallOptions,
    Price,
    call_key,
)
from stepscore.runs.episode_record import error_text

TOKEN_SIDE = 32
"""Side in pixels of what Qwen3-VL reads as one token; it rounds the sides of an image to multiples of it. Others
read an image as more tokens (Qwen2.5-VL: 28 pixels) or fewer, so the estimate is about right for its family alone."""


@dataclass(frozen=True)
class DryRun:
    """The calls that a run would make.

    Attributes:
        episodes: Number of episodes.
        failures: Episode id to error, for those that cannot be judged at all.
        calls: Number of calls.
        cached: Number of calls whose answer is in the cache.
        images: Number of images sent.
        tokens_in: Input tokens, about; those of calls in the cache as the server counted them.
        tokens_out: Output tokens at most.
        cost: Cost of the calls that are not in the cache, about; ``None`` where a price is not known.
        price: Where the price is from.
        counted: Number of calls in the cache whose real count of input tokens corrects the estimate of the others.
        stopped: Episode id to error, for those whose judge could not read an answer that knows nothing. A real answer
            may be read, and more calls be made.
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
    counted: int = 0
    stopped: Mapping[str, str] = field(default_factory=dict)

    @property
    def failed(self) -> int:
        """Number of episodes that cannot be judged."""
        return len(self.failures)


def dry_run(
    episodes: Sequence[Episode],
    judge: Judge,
    call_options: CallOptions,
    *,
    views: Sequence[str] | None = None,
) -> DryRun:
    """Count the calls that judging these episodes would make. Decodes nothing and sends nothing.

    Args:
        episodes: The episodes.
        judge: The judge.
        call_options: Prices and cache, as for the run itself.
        views: Give the judge only these views.

    Raises:
        CapabilityError: The model cannot do what the judge needs, as in the run itself.
    """
    account = _Account(call_options)
    for model in judge.models:
        account.known(model)
    failures: dict[str, str] = {}
    stopped: dict[str, str] = {}
    try:
        for episode in episodes:
            asked = _Asked(account, episode, default_model(judge))
            try:
                with guarded(), without_fetching():
                    asked.episode = episode if views is None else episode.with_views(views)
                    run_blocking(_judge(judge, asked))
            except Exception as error:  # a judge is third-party code; what stops a run is raised again
                (stopped if asked.stood_in else failures)[episode.id] = error_text(error)
    finally:
        account.close()
    calls, cached, images, tokens_out = account.totals.tolist()
    return DryRun(
        len(episodes),
        failures,
        calls,
        cached,
        images,
        account.tokens_in(),
        tokens_out,
        account.cost(),
        account.price(),
        account.counted,
        stopped,
    )


@dataclass
class _Calls:
    """The calls to one model.

    Attributes:
        model: The model; ``None`` where a judge names none.
        described: Its description; ``None`` where the server that would give it is not reached.
        price: Its price.
        frames_per_block: Frames of a video's prefix that it reads as one image.
        to_send: Estimated input and output tokens of each call that is not in the cache.
        estimated: Estimated input tokens of the calls in the cache that have a real count.
        real: Their real count.
        uncounted: Estimated input tokens of those that have none.
    """

    model: Model | None
    described: Mapping[str, object] | None = None
    price: Price | None = None
    frames_per_block: int = 1
    to_send: list[tuple[int, int]] = field(default_factory=list)
    estimated: int = 0
    real: int = 0
    uncounted: int = 0

    def corrected(self) -> list[tuple[int, int]]:
        """Return the tokens of each call to send, corrected by the real counts so far."""
        factor = self.real / self.estimated if self.estimated and self.real else 1.0
        return [(round(read * factor), written) for read, written in self.to_send]

    def cost(self) -> float:
        """Return the price of the calls to send; 0 where it is not known."""
        return sum(self.price.cost(*tokens) for tokens in self.corrected()) if self.price else 0.0


class _Account:
    """Totals of the calls to each model."""

    def __init__(self, call_options: CallOptions) -> None:
        self.totals = np.zeros(4, dtype=np.int64)
        self.counted = 0
        self._options = call_options
        self._cache: CallCache | None = None
        self._models: dict[int, _Calls] = {}

    def close(self) -> None:
        """Close the cache."""
        if self._cache is not None:
            self._cache.close()

    def known(self, model: Model | None) -> _Calls:
        """Return the calls to a model, which is described and priced once."""
        if self._cache is None and self._options.cache:
            self._cache = CallCache(self._options.cache_path)
        if id(model) not in self._models:
            self._models[id(model)] = _Calls(None) if model is None else self._describe(model)
        return self._models[id(model)]

    def _describe(self, model: Model) -> _Calls:
        described, price = _described(model), self._options.price(model)
        # A model that cannot be reached does not know how it reads a video either.
        block = getattr(model, "frames_per_block", 1) if described is not None else 1
        return _Calls(model, described, price, block)

    def add(self, episode: Episode, request: Request, asked: Model | None) -> Response | None:
        """Count a call, and return its answer; ``None`` where it is not in the cache, or no answer to it."""
        calls = self.known(asked)
        key = call_key(episode.fingerprint, request, calls.described or {})
        # Nothing is in the cache of a model that cannot be reached: what it is like is not known.
        look = self._cache is not None and calls.described is not None
        kept = self._cache.get(key) if look and self._cache is not None else None
        answer = None if kept is None or asked is None else _answer_of(kept, request, asked)
        side = getattr(asked, "max_image_side", None)
        read, written = estimate_tokens(episode, request, side, calls.frames_per_block)
        self.totals += [1, answer is not None, Call(episode.id, key, request).images, written]
        if answer is None:
            calls.to_send.append((read, written))
        elif real := count_of((kept or {}).get("tokens_in")):
            calls.estimated, calls.real = calls.estimated + read, calls.real + real
            self.counted += 1
        else:
            calls.uncounted += read
        return answer

    def tokens_in(self) -> int:
        """Return the input tokens of all calls, about."""
        return sum(
            calls.real + calls.uncounted + sum(read for read, _ in calls.corrected())
            for calls in self._models.values()
        )

    def cost(self) -> float | None:
        """Return the cost of the calls to send; ``None`` where one of the models has no price."""
        return None if self._unpriced() else sum(calls.cost() for calls in self._models.values())

    def price(self) -> str:
        """Return where the prices are from, or which is missing."""
        if missing := self._unpriced():
            return f"not known for {', '.join(missing)}: give -E price-in and -E price-out"
        sources = [known.price.source for known in self._models.values() if known.price is not None]
        return ", ".join(dict.fromkeys(sources)) or "no model is asked"

    def _unpriced(self) -> list[str]:
        models = [calls.model for calls in self._models.values() if calls.price is None]
        return list(dict.fromkeys(model.name for model in models if model is not None))


def _described(model: Model) -> dict[str, object] | None:
    try:
        return dict(model.describe())
    except ModelError:
        return None


def _answer_of(kept: Mapping[str, Any], request: Request, model: Model) -> Response | None:
    """Return a cached answer as the run would take it; ``None`` for a damaged one, which it would ask for again."""
    try:
        found: Response = request.check(request.response.unpack(kept), model.name)
        return found
    except ModelError:
        return None


@dataclass
class _Asked:
    """What a judge asks about one episode.

    Attributes:
        account: Where each call is counted.
        episode: The episode.
        own: The model of requests that name none.
        stood_in: Whether a call was answered by an answer that knows nothing.
    """

    account: _Account
    episode: Episode
    own: Model | None
    stood_in: bool = False

    async def ask(self, request: Request, model: Model | None = None) -> Any:
        """Return the cached response to a request, or one that knows nothing."""
        await asyncio.sleep(0)
        chosen = model or self.own
        if (
            chosen is not None
            and isinstance(request, ScorePrefixes)
            and scores_one_by_one(chosen.capabilities)
        ):
            return await score_one_by_one(request, partial(self._prefix, chosen))
        return self._answer(chosen, request)

    async def _prefix(self, model: Model, request: ScorePrefixes) -> PrefixScores:
        response = self._answer(model, request)
        assert isinstance(response, PrefixScores)
        return response

    def _answer(self, model: Model | None, request: Request) -> Response:
        answer = self.account.add(self.episode, request, model)
        if answer is None:
            self.stood_in = True
            answer = request.unknown()
        return answer


async def _judge(judge: Judge, asked: _Asked) -> None:
    await judge.judge(asked.episode, asked.ask)


def estimate_tokens(
    episode: Episode, request: Request, max_side: int | None = None, frames_per_block: int = 1
) -> tuple[int, int]:
    """Return a request's input tokens, about, and its output tokens at most: one is four bytes, or 32 x 32 pixels.

    Args:
        episode: The episode it is about.
        request: The request.
        max_side: Longer side in pixels above which the model scales an image down; ``None`` for no limit.
        frames_per_block: Frames of a video's prefix that are read as one image, after a timestamp.
    """
    image_tokens = sum(_image_tokens(episode, part, max_side) for part in request.refs())
    return request.token_estimate(image_tokens, frames_per_block)


def _image_tokens(episode: Episode, part: MediaRef, max_side: int | None) -> int:
    if isinstance(part, TiledFrames):
        if part.cell is not None:
            return len(part.frames) * max(1, round(part.cell / TOKEN_SIDE)) ** 2
        return sum(_image_tokens(episode, frame, max_side) for frame in part.frames)
    info = episode.views[part.view].info() if part.view in episode.views else None
    if info is None:
        return 0
    longer = max(info.width, info.height)
    side = min(part.size or longer, max_side or part.size or longer)
    columns, rows = (
        max(1, round(pixels * side / longer / TOKEN_SIDE)) for pixels in (info.width, info.height)
    )
    return len(getattr(part, "indices", (0,))) * rows * columns
