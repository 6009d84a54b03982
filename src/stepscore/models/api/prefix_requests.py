r"""Prefix scoring on a server: one request per prefix and text, shortest prefix first.

A server cannot score all prefixes in one pass. It is asked about each on its own, and each is a call of its
own in the ledger, so that a budget counts what the server sees and a lost answer costs one prefix, not all.
Every frame is its own image and prefixes grow at their end: a server that caches prefixes computes only what
is new.

``head`` and ``tails`` are written for a model whose tokens can be set one by one (``<|im_start|>user\n``). A
chat server makes those tokens itself, so :func:`conversation` reads the turns back out of them:

* ``<|im_start|>ROLE\n`` and ``<|im_end|>`` begin and end a turn; text outside any turn is the user's.
* An assistant's turn that is begun and empty at the end is what a server adds by itself: it is left out.
* A tail that ends inside a turn ends in a cue that the candidates go on from. Inside the user's turn the cue
  is its last sentence, which must end with a colon (``The answer is:``). Where the server can go on from an
  unfinished answer, the cue opens the assistant's turn. Where it cannot, the cue stays with the user, the
  answer begins a turn, and the candidates lose their leading space, which no turn begins with.
* A tail that ends amid the user's own words cannot be asked of a chat server at all, and is refused.
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
from stepscore.models.base import Capabilities, PrefixScores, Scores
from stepscore.models.requests import DecodedMedia, Part, Prompt, Role, ScorePrefixes, Turn, VideoFrames

_MARK = re.compile(r"<\|im_start\|>(system|user|assistant)\n|<\|im_end\|>\n?")
_SPECIAL = re.compile(r"<\|[a-z_]+\|>")
_CUE = re.compile(r"(.*[.?!\n])\s+(\S[^.?!\n]*:)", re.DOTALL)


def scores_one_by_one(capabilities: Capabilities) -> bool:
    """Whether a model is asked about every prefix on its own."""
    return capabilities.served and capabilities.prefix_sharing == "none"


async def score_one_by_one(
    request: ScorePrefixes, ask: Callable[[ScorePrefixes], Awaitable[PrefixScores]]
) -> PrefixScores:
    """All prefixes and tails, each asked on its own; a prefix is sent when the shorter ones are answered.

    Args:
        request: Any number of lengths and tails.
        ask: Answers a request of one length, all of its film, and one tail.
    """
    found: dict[tuple[str, int], PrefixScores] = {}
    for length, wave in groupby(single_requests(request), key=lambda single: single.lengths[0]):
        asked = list(wave)
        answers = await asyncio.gather(*(ask(single) for single in asked))
        found |= {(one.tails[0], length): answer for one, answer in zip(asked, answers, strict=True)}
    values = [[found[tail, length].logprobs[0, 0] for length in request.lengths] for tail in request.tails]
    return PrefixScores(np.array(values), sum(answer.tokens_in for answer in found.values()))


def single_requests(request: ScorePrefixes) -> list[ScorePrefixes]:
    """What a server is asked: a request for every length, shortest first, and tail; equal ones once."""
    tails = dict.fromkeys(request.tails)
    return [
        replace(_first(request, length), tails=(tail,))
        for length in sorted(set(request.lengths))
        for tail in tails
    ]


def is_single(request: ScorePrefixes) -> bool:
    """Whether it is one prefix, all of its film, and one tail."""
    film = request.film
    frames = len(film.clip) if isinstance(film, DecodedMedia) else len(film.indices)
    return request.lengths == (frames,) and len(request.tails) == 1


def _first(request: ScorePrefixes, length: int) -> ScorePrefixes:
    """The request with the first ``length`` frames of its film, all of them shown."""
    film = request.film
    if isinstance(film, VideoFrames):
        return replace(request, film=replace(film, indices=film.indices[:length]), lengths=(length,))
    clip = film.clip
    cut = Clip(clip.frames[:length], clip.timestamps[:length], clip.indices[:length])
    return replace(request, film=DecodedMedia(cut, video=True), lengths=(length,))


def of_scores(scores: Scores) -> PrefixScores:
    """One prefix's scores; a censored one is not known, and NaN."""
    known = [
        np.nan if hidden else value for value, hidden in zip(scores.logprobs, scores.censored, strict=True)
    ]
    return PrefixScores(np.array(known, dtype=np.float64)[None, None], scores.tokens_in)


def conversation(request: ScorePrefixes, *, prefill: bool) -> tuple[Prompt, tuple[str, ...]]:
    """The conversation that asks a chat server about one prefix, and the candidates as they go on from it.

    Args:
        request: One prefix and one tail.
        prefill: Whether the server can go on from an unfinished assistant's turn.
    """
    (tail,) = request.tails
    turns, open_turn = _turns(request.head, request.film, tail)
    role, parts = turns[-1]
    if not open_turn:
        return _prompt(turns), request.candidates
    if role == "assistant" and not parts:
        return _prompt(turns[:-1]), request.candidates
    if role == "assistant":
        before, cue = turns[:-1], "".join(str(part) for part in parts)
    else:
        said, cue = _split_cue(parts[-1])
        before = [*turns[:-1], (role, [*parts[:-1], said])]
    if prefill:
        return replace(_prompt([*before, ("assistant", [cue])]), continued=True), request.candidates
    if role == "assistant":
        turns = [*before[:-1], (before[-1][0], [*before[-1][1], f"\n{cue}"])]
    return _prompt(turns), tuple(word.lstrip() for word in request.candidates)


def _turns(head: str, film: Part, tail: str) -> tuple[list[tuple[Role, list[Part]]], bool]:
    """The turns that a head, a film and a tail spell, and whether the last is unfinished."""
    turns: list[tuple[Role, list[Part]]] = []
    open_turn = False
    for piece in (head, film, tail):
        at = 0
        marks = list(_MARK.finditer(piece)) if isinstance(piece, str) else []
        for mark in [*marks, None]:
            text = piece[at : mark.start() if mark else None] if isinstance(piece, str) else piece
            if text != "":
                if not open_turn:
                    turns.append(("user", []))
                    open_turn = True
                turns[-1][1].append(_plain(text))
            if mark is not None:
                at, open_turn = mark.end(), mark[1] is not None
                if open_turn:
                    turns.append((mark[1], []))  # type: ignore[arg-type]
    return turns, open_turn


def _plain(part: Part) -> Part:
    if isinstance(part, str) and (found := _SPECIAL.search(part)):
        raise CapabilityError(
            f"A chat server cannot be sent the token {found[0]}; only <|im_start|>ROLE and <|im_end|> are "
            "understood. Ask a model under hf/ or sglang/, which take tokens as they are."
        )
    return part


def _split_cue(last: Part) -> tuple[str, str]:
    found = _CUE.fullmatch(last) if isinstance(last, str) else None
    if found is None:
        raise CapabilityError(
            f"A chat server cannot score what follows {str(last)[-40:]!r}, amid the user's own words; it can "
            "after a last sentence that ends with a colon. hf/ and sglang/ score any text."
        )
    return found[1], found[2]


def _prompt(turns: list[tuple[Role, list[Part]]]) -> Prompt:
    return Prompt(tuple(Turn(role, tuple(parts)) for role, parts in turns))
