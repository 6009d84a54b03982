"""Prompts written in ChatML, the markup of the Qwen family, for backends that take text as it is.

``hf/`` and ``sglang/`` send special tokens themselves, so that a turn can be left open; chat servers write the
markup on their side (see ``api/prefix_requests.py``).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from stepscore.episodes import Clip
from stepscore.errors import ModelError, OptionError
from stepscore.models.media import DecodedMedia, VideoPrefix
from stepscore.models.prompts import Part, Prompt
from stepscore.models.requests import ScorePrefixes


def chatml_parts(prompt: Prompt) -> list[Part]:
    """Return a prompt as texts and media in order, markup included."""
    if prompt.template == "none":
        return [*(part for turn in prompt.turns for part in turn.parts), prompt.prefill]
    parts: list[Part] = []
    for turn in prompt.turns:
        parts += [f"<|im_start|>{turn.role}\n", *turn.parts, "<|im_end|>\n"]
    if prompt.template == "open":
        return [*parts[:-1], prompt.prefill]
    return [*parts, f"<|im_start|>assistant\n{prompt.prefill}"]


def split_at_video(prompt: Prompt) -> tuple[str, str]:
    """Return the text before and after a prompt's only :class:`VideoPrefix`; ModelError if it has other media."""
    parts = chatml_parts(prompt)
    at = [i for i, part in enumerate(parts) if isinstance(part, VideoPrefix)]
    others = [part for part in parts if not isinstance(part, str | VideoPrefix)]
    if len(at) != 1 or others:
        raise ModelError("A prompt for prefix scoring has one VideoPrefix and no other image or video.")
    return "".join(map(str, parts[: at[0]])), "".join(map(str, parts[at[0] + 1 :]))


def tails_after(head: str, prompts: Sequence[Prompt]) -> list[str]:
    """Return each prompt's text after the video; OptionError if one differs from ``head`` before it."""
    split = [split_at_video(prompt) for prompt in prompts]
    if any(before != head for before, _ in split):
        raise OptionError(
            "The prompts of a stream are alike up to the video; open another stream for others."
        )
    return [tail for _, tail in split]


@dataclass(frozen=True, eq=False)
class RenderedPrefixes:
    """A resolved :class:`ScorePrefixes` as a tokenizer takes it.

    Attributes:
        clip: The frames of the whole video.
        lengths: Number of frames in each prefix.
        head: Text before the video, markup included.
        tails: Text after it, one per prompt.
        candidates: Words to score, one token each.
    """

    clip: Clip
    lengths: tuple[int, ...]
    head: str
    tails: tuple[str, ...]
    candidates: tuple[str, ...]


def render_prefixes(request: ScorePrefixes) -> RenderedPrefixes:
    """Write a resolved request in ChatML; ModelError if its prompts differ before the video."""
    assert isinstance(request.video, DecodedMedia)
    heads, tails = zip(*(split_at_video(prompt) for prompt in request.prompts), strict=True)
    if len(set(heads)) > 1:
        raise ModelError("The prompts of one request differ before the video; ask for them one by one.")
    return RenderedPrefixes(request.video.clip, request.lengths, heads[0], tails, request.candidates)
