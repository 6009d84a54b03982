"""A judge put to an episode without a run folder: its judgement, and how many calls it took."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass

from stepscore.episodes import Episode
from stepscore.errors import StepScoreError
from stepscore.judges import Judge
from stepscore.models import Answer, Generate, Model, Request, Response
from stepscore.models.requests import media_decoder, resolve
from stepscore.types import Judgement

Turned = Callable[[Generate], Generate]
Known = dict[tuple[str, Request], Response]
"""Answers that were given before, by episode and question."""


@dataclass(frozen=True)
class Asked:
    """What a judge said; ``judgement`` is ``None`` where it could not."""

    judgement: Judgement | None
    calls: int


def asked(
    judge: Judge,
    episode: Episode,
    answers: Model,
    *,
    begun: str = "",
    turned: Turned | None = None,
    known: Known | None = None,
) -> Asked:
    """Ask a judge about an episode.

    Args:
        judge: Who judges.
        episode: About what.
        answers: Who answers it.
        begun: What ``turned`` puts at the beginning of an answer; the judge reads it as part of the answer.
        turned: Changes every question that is answered in words.
        known: Answers to take from and to add to; a question in it counts as a call and costs nothing.
    """
    calls = 0

    async def ask(request: Request, model: Model | None = None) -> Response:
        nonlocal calls
        calls += 1
        if turned is not None and isinstance(request, Generate):
            request = turned(request)
        remembered = {} if known is None else known
        answer = remembered.get((episode.id, request))
        if answer is None:
            answer = await (model or answers).answer(resolve(request, media_decoder(episode)))
            remembered[episode.id, request] = answer
        return Answer(begun + answer.text, answer.finish) if begun and isinstance(answer, Answer) else answer

    try:
        return Asked(asyncio.run(judge.judge(episode, ask)), calls)
    except StepScoreError:
        return Asked(None, calls)
