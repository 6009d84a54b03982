"""Prefix scoring on a server: one request per prefix and prompt, shortest prefix first.

A server cannot score all prefixes in one pass. It is asked about each separately, and each is a separate call in
the account, so that a budget counts what the server receives and a lost response costs one prefix, not all. Every
frame is its own image and prefixes grow at their end: a server that caches prefixes computes only what is new.

A chat server writes the markup itself, closes every turn and opens the assistant's (:func:`chat_prompt`):

* Where the server can continue an unfinished answer, the prompt's prefill opens the assistant's turn. Where it
  cannot, the prefill ends the user's turn, the answer begins a turn, and the candidates lose their leading space,
  which no turn begins with.
* A prompt that leaves the user's turn open without a prefill scores the user's own words. A chat server cannot.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Callable
from dataclasses import replace
from itertools import groupby

import numpy as np

from stepscore.episodes import Clip
from stepscore.errors import CapabilityError
from stepscore.models.base import Capabilities
from stepscore.models.media import DecodedMedia, VideoFrames, VideoPrefix
from stepscore.models.prompts import Part, Prompt, Turn
from stepscore.models.requests import ScorePrefixes
from stepscore.models.responses import PrefixScores, Scores

_SPECIAL = re.compile(r"<\|[a-z_]+\|>")


def scores_one_by_one(capabilities: Capabilities) -> bool:
    """Return whether a model is asked about every prefix on its own."""
    return capabilities.served and capabilities.prefix_sharing == "none"


async def score_one_by_one(
    request: ScorePrefixes, ask: Callable[[ScorePrefixes], Awaitable[PrefixScores]]
) -> PrefixScores:
    """Score all prefixes and prompts, each on its own; a prefix is sent when the shorter ones are answered.

    Args:
        request: Any number of lengths and prompts.
        ask: Answers a request of one length, all of its video, and one prompt.
    """
    found: dict[tuple[Prompt, int], PrefixScores] = {}
    for length, wave in groupby(single_requests(request), key=lambda single: single.lengths[0]):
        asked = list(wave)
        answers = await asyncio.gather(*(ask(single) for single in asked))
        found |= {(one.prompts[0], length): answer for one, answer in zip(asked, answers, strict=True)}
    values = [
        [found[prompt, length].logprobs[0, 0] for length in request.lengths] for prompt in request.prompts
    ]
    counts = [(answer.tokens_in, answer.tokens_out) for answer in found.values()]
    return PrefixScores(np.array(values), *(sum(column) for column in zip(*counts, strict=True)))


def single_requests(request: ScorePrefixes) -> list[ScorePrefixes]:
    """Return what a server is asked: a request for every length, shortest first, and prompt; equal ones once."""
    prompts = dict.fromkeys(request.prompts)
    return [
        replace(_first(request, length), prompts=(prompt,))
        for length in sorted(set(request.lengths))
        for prompt in prompts
    ]


def is_single(request: ScorePrefixes) -> bool:
    """Return whether a request is one prefix, all of its video, and one prompt."""
    video = request.video
    frames = len(video.clip) if isinstance(video, DecodedMedia) else len(video.indices)
    return request.lengths == (frames,) and len(request.prompts) == 1


def _first(request: ScorePrefixes, length: int) -> ScorePrefixes:
    """Return the request with the first ``length`` frames of its video as one prefix."""
    video = request.video
    if isinstance(video, VideoFrames):
        return replace(request, video=replace(video, indices=video.indices[:length]), lengths=(length,))
    clip = video.clip
    cut = Clip(clip.frames[:length], clip.timestamps[:length], clip.indices[:length])
    return replace(request, video=DecodedMedia(cut, video=True), lengths=(length,))


def of_scores(scores: Scores) -> PrefixScores:
    """Return one prefix's scores; a censored one is NaN."""
    known = [
        np.nan if hidden else value for value, hidden in zip(scores.logprobs, scores.censored, strict=True)
    ]
    return PrefixScores(np.array(known, dtype=np.float64)[None, None], scores.tokens_in, scores.tokens_out)


def chat_prompt(request: ScorePrefixes, *, prefill: bool) -> tuple[Prompt, tuple[str, ...]]:
    """Return the prompt that asks a chat server about one prefix, and the candidates as they continue it.

    Args:
        request: One prefix and one prompt.
        prefill: Whether the server can continue an unfinished assistant's turn.

    Raises:
        CapabilityError: A text holds a special token, or the candidates continue the user's own words.
    """
    (prompt,) = request.prompts
    turns = tuple(
        Turn(turn.role, tuple(_sendable(part, request.video) for part in turn.parts)) for turn in prompt.turns
    )
    if prompt.template != "chat" and not prompt.prefill:
        raise CapabilityError(
            f"A chat server cannot score what follows {_last_text(prompt)[-40:]!r}, within the user's turn; "
            "hf/ and sglang/ score any text."
        )
    if not prompt.prefill:
        return Prompt(turns), request.candidates
    if prefill:
        return Prompt(turns, prompt.prefill.lstrip()), request.candidates
    last = turns[-1]
    joint = "\n" if prompt.template == "chat" else ""
    asked = replace(last, parts=(*last.parts[:-1], f"{last.parts[-1]}{joint}{prompt.prefill}"))
    return Prompt((*turns[:-1], asked)), tuple(word.lstrip() for word in request.candidates)


def _sendable(part: Part, video: VideoFrames | DecodedMedia) -> Part:
    if isinstance(part, VideoPrefix):
        return video
    if isinstance(part, str) and (found := _SPECIAL.search(part)):
        raise CapabilityError(
            f"A chat server cannot be sent the token {found[0]}. Ask a model under hf/ or sglang/, which take tokens "
            "as they are."
        )
    return part


def _last_text(prompt: Prompt) -> str:
    texts = [part for turn in prompt.turns for part in turn.parts if isinstance(part, str)]
    return texts[-1] if texts else ""
