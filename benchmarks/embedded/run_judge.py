"""Runs a judge on an episode without a run folder; returns its judgement and the number of calls."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from stepscore.episodes import Episode
from stepscore.errors import StepScoreError
from stepscore.judges import Judge
from stepscore.models import Answer, Generate, Model, Request, Response
from stepscore.models.media import media_decoder
from stepscore.types import Judgement

ChangeRequest = Callable[[Generate], Generate]
KnownAnswers = dict[tuple[str, Request], Response]
"""Responses already received, by episode id and request."""


@dataclass(frozen=True)
class JudgeResult:
    """A judgement, ``None`` where the judge failed, and the calls it took."""

    judgement: Judgement | None
    calls: int


def run_judge(
    judge: Judge,
    episode: Episode,
    answers: Model,
    *,
    prefill: str = "",
    change: ChangeRequest | None = None,
    known: KnownAnswers | None = None,
) -> JudgeResult:
    """Judge an episode.

    Args:
        judge: The judge.
        episode: The episode.
        answers: The model that answers, unless the judge names another.
        prefill: Text that ``change`` puts at the beginning of a response; the judge reads it as part of it.
        change: Changes every request that is answered in words.
        known: Responses to take from and to add to; a request in it counts as a call and costs nothing.
    """
    calls = 0

    async def ask(request: Request, model: Model | None = None) -> Any:
        nonlocal calls
        calls += 1
        if change is not None and isinstance(request, Generate):
            request = change(request)
        remembered = {} if known is None else known
        answer = remembered.get((episode.id, request))
        if answer is None:
            answer = await (model or answers).answer(request.resolved(media_decoder(episode)))
            remembered[episode.id, request] = answer
        return (
            Answer(prefill + answer.text, answer.finish) if prefill and isinstance(answer, Answer) else answer
        )

    try:
        return JudgeResult(asyncio.run(judge.judge(episode, ask)), calls)
    except StepScoreError:
        return JudgeResult(None, calls)
