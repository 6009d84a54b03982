"""A prompt on a vLLM server token by token as ``hf/`` writes it: an open turn, a video in pairs of frames.

A chat server writes the markup itself and closes every turn. vLLM does so by a chat template, and passes a request's
``chat_template_kwargs`` to it: :func:`template_with_raw_turn` puts a branch before a model's own template that, where
``raw_turn`` is asked for, writes the parts of the message and nothing else. Servers are not trusted to do it: the ids
of the tokens that a server read are compared with the expected ones.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np

from stepscore.episodes import Clip
from stepscore.errors import ModelError
from stepscore.models.api.frame_pairs import FramePair, frame_pairs

VISION_START, VIDEO_PAD, VISION_END = "<|vision_start|>", "<|video_pad|>", "<|vision_end|>"
BARE, WRAPPED = VIDEO_PAD, f"{VISION_START}{VIDEO_PAD}{VISION_END}"
"""The placeholder of a video in a text. A server's transformers replaces the first since 5.10, the second before."""

RAW_TURN = (
    "{%- for message in messages -%}{%- for part in message['content'] -%}"
    "{%- if part['type'] == 'text' -%}{{- part['text'] -}}"
    "{%- elif part['type'] == 'video' -%}{{- VIDEO -}}{%- endif -%}"
    "{%- endfor -%}{%- endfor -%}"
)
"""Writes only the parts of the messages. vLLM looks for the loop over ``message['content']`` to decide whether a
template takes parts as a list."""

Tokenize = Callable[[str], Awaitable[list[int]]]


@dataclass(frozen=True)
class Way:
    """A way to have a server write a message as it is."""

    name: str
    fields: Mapping[str, Any]


def ways() -> tuple[Way, ...]:
    """Return the ways to try, in order."""
    return (
        Way("template file", {"chat_template_kwargs": {"raw_turn": "bare"}}),
        Way("template file, wrapped", {"chat_template_kwargs": {"raw_turn": "wrapped"}}),
        Way("template of the request", {"chat_template": _raw_turn(f"'{BARE}'")}),
        Way("template of the request, wrapped", {"chat_template": _raw_turn(f"'{WRAPPED}'")}),
    )


def _raw_turn(video: str) -> str:
    return RAW_TURN.replace("VIDEO", video)


def template_with_raw_turn(own: str) -> str:
    """Return a model's own chat template with a branch before it for requests that ask for ``raw_turn``.

    Other requests get the same text as before, with the template compiled as transformers and vLLM do
    (``trim_blocks`` and ``lstrip_blocks``): it begins on a new line, and jinja drops a file's last newline.
    """
    video = f"'{WRAPPED}' if raw_turn == 'wrapped' else '{BARE}'"
    begin = f"{{%- if raw_turn is defined and raw_turn -%}}\n{_raw_turn(video)}\n{{%- else %}}\n"
    return f"{begin}{own.removesuffix(chr(10))}{{{{ '' }}}}{{% endif %}}\n"


def raw_message(head: str, videos: Sequence[Mapping[str, Any]], tail: str) -> list[dict[str, Any]]:
    """Return the one message of a request: text, videos, text."""
    texts = [[{"type": "text", "text": text}] if text else [] for text in (head, tail)]
    return [{"role": "user", "content": [*texts[0], *videos, *texts[1]]}]


async def expected_ids(tokenize: Tokenize, head: str, pairs: Sequence[FramePair], tail: str) -> list[int]:
    """Return the token ids of a prompt, as ``hf/`` reads it (``models/qwen3vl/prefix_plan.py``).

    Args:
        tokenize: Returns the ids of a text, special tokens included.
        head: Text before the video. It is encoded together with the first timestamp: the two may share a token.
        pairs: The video.
        tail: Text after it.

    Raises:
        ModelError: The model has no image tokens: it is not of the Qwen family.
    """
    marks = []
    for mark in (VISION_START, VIDEO_PAD, VISION_END):
        found = await tokenize(mark)
        if len(found) != 1:
            raise ModelError(f"{mark} is {len(found)} tokens of the model; in the Qwen family it is one.")
        marks += found
    start, pad, end = marks
    ids: list[int] = []
    for number, pair in enumerate(pairs):
        ids += await tokenize(pair.time if number else head + pair.time)
        ids += [start, *[pad] * pair.tokens, end]
    return ids + await tokenize(tail)


async def target_ids(tokenize: Tokenize, tail: str, candidates: Sequence[str], where: str) -> list[int]:
    """Return the token id of each candidate after a text; ModelError unless each is exactly one token there."""
    before, found = await tokenize(tail), []
    for candidate in candidates:
        after = await tokenize(tail + candidate)
        if after[:-1] != before:
            raise ModelError(
                f"{where}: the candidate {candidate!r} is not exactly one token after {tail[-40:]!r}: the two "
                f"together are {len(after)} tokens, the text alone is {len(before)}. Choose another word; its "
                "leading space counts."
            )
        found.append(after[-1])
    return found


@cache
def probe() -> tuple[str, tuple[FramePair, ...], str]:
    """Return the prompt by which a server is asked whether it reads a message as it is: head, video and tail.

    Two pairs at uneven timestamps and of a size that is not square: a server that samples, pads or resizes, or
    writes other timestamps, reads other tokens.
    """
    frames = np.random.default_rng(0).integers(0, 256, (4, 96, 160, 3), dtype=np.uint8)
    clip = Clip(frames, np.array([0.0, 0.6, 2.3, 4.7]), np.arange(4))
    return "<|im_start|>user\n", frame_pairs(clip), "The above video shows a robot. The answer is:"
