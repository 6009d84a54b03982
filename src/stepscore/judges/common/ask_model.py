"""How a judge sends its requests: required capabilities, and several requests at a time."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from typing import TypeVar

from stepscore.errors import CapabilityError, ModelError
from stepscore.judges.base import Ask
from stepscore.models import (
    Answer,
    Generate,
    Model,
    PredictProgress,
    ProgressPredictions,
    Request,
    Response,
    Score,
    Scores,
)

MAX_CONCURRENT_REQUESTS = 8
"""Concurrent requests of one episode: enough for a busy server, few enough decoded frames in memory."""

R = TypeVar("R", Answer, Scores, ProgressPredictions)


def require(
    model: Model,
    judge: str,
    *,
    text: bool = False,
    scores: bool = False,
    stages: bool = False,
    heads: bool = False,
    structured: bool = False,
) -> None:
    """Raise CapabilityError if the model cannot answer as the judge needs.

    Args:
        model: The model that will be asked.
        judge: Name of the judge, for the message.
        text: It must generate text.
        scores: It must return log-probabilities of chosen tokens.
        stages: It must predict stages.
        heads: It must have the heads of a reward model.
        structured: It must constrain a generated answer by a schema.
    """
    can = model.capabilities
    if stages and not can.stages:
        raise CapabilityError(
            f"{judge} needs a trained checkpoint, not {model.name}: --model sarm/CHECKPOINT"
        )
    if heads and not can.heads:
        raise CapabilityError(
            f"{judge} reads the heads of a Robometer checkpoint, which {model.name} has not: "
            "--model hf/robometer/Robometer-4B, or hf/FOLDER"
        )
    if structured and not can.structured:
        raise CapabilityError(
            f"{judge}: structured=true needs a model that supports answer schemas, unlike {model.name}. "
            "Leave the option out, or choose embedded, hf/, vllm/, sglang/ or openai-api/."
        )
    if not can.images:
        raise CapabilityError(f"{judge} shows images; {model.name} reads none. Choose a vision model.")
    if text and not can.generate:
        raise CapabilityError(
            f"{judge} needs generated text; {model.name} generates none. "
            "hf/, vllm/, sglang/ and openai-api/ models do."
        )
    if scores and can.scores == "none":
        raise CapabilityError(
            f"{judge} needs token scores; {model.name} gives none. hf/, vllm/ and sglang/ models give them, "
            "and openai-api/ where the server returns top_logprobs (not with -M top_logprobs=0)."
        )


async def ask_texts(ask: Ask, requests: Sequence[Generate]) -> list[str]:
    """Return the generated texts, in the order of the requests."""
    return [answer.text for answer in await ask_answers(ask, requests)]


async def ask_answers(ask: Ask, requests: Sequence[Generate]) -> list[Answer]:
    """Return the answers, in the order of the requests."""
    return await _ask_all(ask, requests, Answer)


def least_mass(answers: Iterable[Answer]) -> dict[str, float]:
    """Return the fact ``schema_mass`` of several answers: the smallest; nothing if no model stated it."""
    known = [answer.schema_mass for answer in answers if answer.schema_mass is not None]
    return {"schema_mass": min(known)} if known else {}


async def ask_scores(ask: Ask, requests: Sequence[Score]) -> list[Scores]:
    """Return the candidates' log-probabilities, in the order of the requests."""
    return await _ask_all(ask, requests, Scores)


async def ask_progress(ask: Ask, requests: Sequence[PredictProgress]) -> list[ProgressPredictions]:
    """Return what heads predict after each frame, in the order of the requests."""
    return await _ask_all(ask, requests, ProgressPredictions)


async def _ask_all(ask: Ask, requests: Sequence[Request], kind: type[R]) -> list[R]:
    """Return all responses. After a failure nothing more is sent, but calls in flight are awaited: they are paid."""
    slots, failed = asyncio.Semaphore(MAX_CONCURRENT_REQUESTS), list[Exception]()

    async def send(request: Request) -> Response | None:
        async with slots:
            if failed:
                return None
            try:
                response: Response = await ask(request)
                return response
            except Exception as error:
                failed.append(error)
                return None

    responses = await asyncio.gather(*map(send, requests))
    if failed:
        raise failed[0]
    expected = [response for response in responses if isinstance(response, kind)]
    if len(expected) < len(responses):
        other = next(response for response in responses if not isinstance(response, kind))
        raise ModelError(f"The model returned {type(other).__name__}; expected {kind.__name__}.")
    return expected
