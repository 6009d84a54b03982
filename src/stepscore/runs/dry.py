"""What a run would ask and cost, before anything is spent.

The judge runs over every episode with a model that answers nothing; what it asks is counted. A judge whose
next question depends on the answer may ask more or less than this in earnest.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from stepscore.episodes import Episode
from stepscore.errors import ModelError, StepScoreError
from stepscore.judges import Judge
from stepscore.models import Answer, Generate, Model, PrefixScores, Request, Response, Score, Scores
from stepscore.models.cache import CallCache
from stepscore.models.calls import Call, call_key
from stepscore.models.model import run_blocking
from stepscore.models.prices import Price, most_tokens, price_of
from stepscore.models.request import Named, ScorePrefixes, Tile, named_parts
from stepscore.models.served_prefixes import asks_one_by_one, singles
from stepscore.runs.asking import Spending

TOKEN_PIXELS = 28 * 28
"""Pixels a vision model reads as one token, about (Qwen2-VL and later: 28 x 28 or 32 x 32)."""


@dataclass(frozen=True)
class DryRun:
    """What a run would take.

    Attributes:
        episodes: Episodes looked at.
        failed: Those the judge cannot judge at all.
        calls: Calls it would make.
        cached: Those whose answer is already kept.
        images: Pictures it would show.
        tokens_in: Tokens it would read, about.
        tokens_out: Tokens it may write at most.
        cost: What the calls not yet kept would cost, about; ``None`` where the price is not known.
        price: Where the price is from.
    """

    episodes: int
    failed: int
    calls: int
    cached: int
    images: int
    tokens_in: int
    tokens_out: int
    cost: float | None
    price: str


def dry_run(
    episodes: Sequence[Episode], judge: Judge, spending: Spending, *, views: Sequence[str] | None = None
) -> DryRun:
    """Count what judging these episodes would ask. Decodes nothing and sends nothing."""
    model: Model | None = getattr(judge, "model", None)
    described = _described(model)
    price = price_of(model.name, spending.price_in, spending.price_out) if model is not None else None
    cache = CallCache(spending.cache_path) if spending.cache and described is not None else None
    totals = np.zeros(5, dtype=np.int64)
    cost, failed = 0.0, 0
    for episode in episodes:
        try:
            shown = episode if views is None else episode.with_views(views)
            asked = [one for request in run_blocking(_asked(shown, judge)) for one in _sent(request, model)]
        except StepScoreError:
            failed += 1
            continue
        for request in asked:
            key = call_key(shown.fingerprint, request, described or {})
            kept = cache is not None and cache.get(key) is not None
            tokens_in, tokens_out = about_tokens(shown, request)
            images = Call(shown.id, key, request).images
            totals += [1, kept, images, tokens_in, tokens_out]
            cost += 0.0 if kept or price is None else price.of(tokens_in, tokens_out)
    if cache is not None:
        cache.close()
    calls, cached, images, tokens_in, tokens_out = totals.tolist()
    known = price.source if isinstance(price, Price) else "not known: give --price-in and --price-out"
    return DryRun(
        len(episodes),
        failed,
        calls,
        cached,
        images,
        tokens_in,
        tokens_out,
        cost if price is not None else None,
        known,
    )


def _described(model: Model | None) -> dict[str, object] | None:
    """What the answers are kept under; ``None`` where no server can be reached to say it."""
    try:
        return None if model is None else dict(model.describe())
    except ModelError:
        return None


def _sent(request: Request, model: Model | None) -> Sequence[Request]:
    """The calls a request becomes: a server is asked for one prefix at a time."""
    if model is not None and isinstance(request, ScorePrefixes) and asks_one_by_one(model.capabilities):
        return singles(request)
    return [request]


async def _asked(episode: Episode, judge: Judge) -> list[Request]:
    """What a judge asks of one episode when every answer is empty."""
    requests: list[Request] = []

    async def ask(request: Request, model: Model | None = None) -> Response:
        requests.append(request)
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
    pictures = sum(_picture_tokens(episode, part) for part in named_parts(request))
    if isinstance(request, ScorePrefixes):
        text = len(request.head) + sum(len(tail) for tail in request.tails) * len(request.lengths)
        return pictures + text // 4, 0
    parts = [part for turn in request.prompt.turns for part in turn.parts if isinstance(part, str)]
    text = sum(len(part.encode()) for part in parts) // 4
    return pictures + text, most_tokens(request)[1]


def _picture_tokens(episode: Episode, part: Named) -> int:
    if isinstance(part, Tile):
        return sum(_picture_tokens(episode, still) for still in part.stills)
    info = episode.views[part.view].info() if part.view in episode.views else None
    if info is None:
        return 0
    scale = 1.0 if part.size is None else part.size / max(info.width, info.height)
    count = len(getattr(part, "indices", (0,)))
    return count * max(1, round(info.width * info.height * scale * scale / TOKEN_PIXELS))
