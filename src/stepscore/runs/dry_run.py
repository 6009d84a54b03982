"""A dry run: count the calls of a run, and estimate their cost, before any is made.

The judge runs over every episode with the answers in the cache, and with one in which nothing is known for every
other call. If its next request depends on such an answer, the real run may make more or fewer calls. The tokens of an
image depend on the model: the real counts of cached calls correct the estimate of the others.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from stepscore.episodes import Episode
from stepscore.errors import ModelError, OptionError
from stepscore.judges import Judge, default_model
from stepscore.judges.published.profiles import without_fetching
from stepscore.models import (
    MediaRef,
    Model,
    Request,
    Response,
    TiledFrames,
    count_of,
    guarded,
    media_decoder,
    run_blocking,
)
from stepscore.models.calls import Asker, Call, CallCache, CallOptions, Price, Split
from stepscore.runs.episode_record import error_text

TOKEN_SIDE = 32
"""Side in pixels of the image that Qwen3-VL reads as one token; it rounds the sides of an image to multiples of it.
Other models read more tokens (Qwen2.5-VL: 28 pixels) or fewer, so the estimate fits only its family."""


@dataclass(frozen=True)
class DryRun:
    """The numbers of episodes, calls, images and tokens of a run, and its cost.

    ``failures`` maps ids of episodes that cannot be judged to errors. In ``stopped`` are those whose judge could not
    read an unknown answer; it may read a real one, and make more calls. Input tokens are estimates, except those of
    the ``counted`` cached calls; output tokens are upper bounds. ``cost`` excludes cached calls and is ``None`` if a
    price is unknown.
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

    It raises errors that would stop the run itself, such as CapabilityError.
    """
    cache = CallCache(call_options.cache_path) if judge.models and call_options.cache else None
    models = {id(model): _ModelCalls(model, call_options.price(model), cache) for model in judge.models}
    failures: dict[str, str] = {}
    stopped: dict[str, str] = {}

    async def judged(episode: Episode, calls: list[Call]) -> None:
        async def ask(request: Request, model: Model | None = None) -> Any:
            chosen = model or default_model(judge)
            if chosen is None:
                raise OptionError("This judge needs a model. Set --model.")
            if id(chosen) not in models:
                models[id(chosen)] = _ModelCalls(chosen, call_options.price(chosen), cache)
            known = models[id(chosen)]
            layer = Split(_Counting(known, episode), chosen, known.described or {})
            asker = Asker(episode.id, episode.fingerprint, media_decoder(episode), calls)
            return await layer.answer(Call(episode.id, "", request, asker=asker))

        await judge.judge(episode, ask)

    try:
        for episode in episodes:
            calls: list[Call] = []
            try:
                with guarded(), without_fetching():
                    run_blocking(judged(episode if views is None else episode.with_views(views), calls))
            except Exception as error:  # a third-party judge may raise anything
                unknown = any(call.response is None for call in calls)
                (stopped if unknown else failures)[episode.id] = error_text(error)
    finally:
        if cache is not None:
            cache.close()
    made = list(models.values())
    unpriced = list(dict.fromkeys(each.model.name for each in made if each.price is None))
    sources = dict.fromkeys(each.price.source for each in made if each.price is not None)
    price = ", ".join(sources) or "no model is asked"
    if unpriced:
        price = f"not known for {', '.join(unpriced)}: set -E price-in and -E price-out"
    return DryRun(
        len(episodes),
        failures,
        sum(each.calls for each in made),
        sum(each.cached for each in made),
        sum(each.images for each in made),
        sum(each.tokens_in() for each in made),
        sum(each.tokens_out for each in made),
        None if unpriced else sum(each.cost() for each in made),
        price,
        sum(each.counted for each in made),
        stopped,
    )


class _ModelCalls:
    """The calls to one model, and their totals."""

    def __init__(self, model: Model, price: Price | None, cache: CallCache | None) -> None:
        self.model, self.price = model, price
        try:
            self.described: Mapping[str, object] | None = dict(model.describe())
        except ModelError:  # no server: neither the model nor its cached answers are known
            self.described = None
        self._cache = None if self.described is None else cache
        # How many frames of a video's prefix it reads as one image.
        self._block = 1 if self.described is None else getattr(model, "frames_per_block", 1)
        self.calls = self.cached = self.images = self.tokens_out = self.counted = 0
        self._to_send: list[tuple[int, int]] = []
        # Input tokens of cached calls: estimated and real if the server counted them, else only estimated.
        self._estimated = self._real = self._uncounted = 0

    def answer(self, episode: Episode, call: Call) -> Response:
        """Count a call, and return the cached answer or one in which nothing is known."""
        request = call.request
        kept = None if self._cache is None else self._cache.get(call.key)
        side = getattr(self.model, "max_image_side", None)
        read, written = estimate_tokens(episode, request, side, self._block)
        if kept is not None:
            try:
                call.response = request.check(request.response.unpack(kept), self.model.name)
            except ModelError:  # a damaged answer, which the run would ask for again
                kept = None
        self.calls += 1
        self.cached += kept is not None
        self.images += call.images
        self.tokens_out += written
        if call.response is None or kept is None:
            self._to_send.append((read, written))
            unknown: Response = request.unknown()
            return unknown
        if real := count_of(kept.get("tokens_in")):
            self._estimated, self._real = self._estimated + read, self._real + real
            self.counted += 1
        else:
            self._uncounted += read
        return call.response

    def _corrected(self) -> list[tuple[int, int]]:
        """Return the tokens of each call to send, corrected by the real counts."""
        factor = self._real / self._estimated if self._estimated and self._real else 1.0
        return [(round(read * factor), written) for read, written in self._to_send]

    def tokens_in(self) -> int:
        """Return the estimated input tokens of all calls."""
        return self._real + self._uncounted + sum(read for read, _ in self._corrected())

    def cost(self) -> float:
        """Return the estimated cost of the calls to send; 0 if the price is unknown."""
        return sum(self.price.cost(*tokens) for tokens in self._corrected()) if self.price else 0.0


@dataclass(frozen=True)
class _Counting:
    """Layer: counts a call instead of making it."""

    calls: _ModelCalls
    episode: Episode

    async def answer(self, call: Call) -> Response:
        """Return the cached response, or one in which nothing is known."""
        await asyncio.sleep(0)
        return self.calls.answer(self.episode, call)


def estimate_tokens(
    episode: Episode, request: Request, max_side: int | None = None, frames_per_block: int = 1
) -> tuple[int, int]:
    """Return estimated input tokens and most output tokens of a request: four bytes or 32 x 32 pixels are a token.

    A model scales images to ``max_side``, and reads ``frames_per_block`` frames of a video's prefix as one image.
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
