"""Conversations in NumPy: generated text and scores of the next token, of prompts written in ChatML."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from stepscore.errors import ModelError
from stepscore.models.chatml import chatml_parts
from stepscore.models.embedded.runtime.language_model import KVCache
from stepscore.models.embedded.runtime.layers import Array
from stepscore.models.embedded.runtime.network import NumpyNetwork
from stepscore.models.embedded.runtime.prefix_scoring import logprobs_of
from stepscore.models.media import DecodedMedia
from stepscore.models.prompts import Prompt
from stepscore.models.qwen3vl.inputs import (
    RepeatedToken,
    block_frames,
    block_time,
    image_tokens,
    time_text,
    token_ids,
)
from stepscore.models.qwen3vl.inputs import positions as grid_positions
from stepscore.models.qwen3vl.prefix_plan import TokenSpan, concat_spans, target_ids
from stepscore.models.requests import Generate, Score
from stepscore.models.responses import Answer, Scores
from stepscore.models.schemas.token_mask import AnswerTokens

_RESERVED = "<|vision_start|>"


@dataclass(frozen=True, eq=False)
class _Read:
    """A prompt in the KV cache: the hidden state of its last token, its tokens, the next position, its last text."""

    hidden: Array
    tokens: int
    following: int
    last_text: str


def generate(network: NumpyNetwork, request: Generate) -> Answer:
    """Generate text. With a temperature, it is sampled with the request's seed (0 if none) and repeat number."""
    cache = network.text.kv_cache()
    prompt = _read(network, request.prompt, cache, room=request.max_tokens)
    rng = np.random.default_rng([abs(request.seed or 0), request.repeat])
    hidden, following, written = prompt.hidden, prompt.following, list[int]()
    answer = AnswerTokens(network.vocabulary, request.schema, request.max_tokens, request.top_logprobs)
    while not answer.is_last:
        logits = network.text.logits(hidden)[-1]
        written.append(_next_token(np.where(answer.allowed(logits), logits, -np.inf), request, rng))
        answer.take(written[-1])
        if written[-1] in network.stop_tokens or len(written) == request.max_tokens:
            break
        span = TokenSpan(np.array(written[-1:]), np.full((3, 1), following, dtype=np.int64))
        hidden, following = (
            network.text.last_hidden(span, network.image_rows(span.ids[:0]), None, cache),
            following + 1,
        )
    finish = "stop" if (written and written[-1] in network.stop_tokens) or answer.is_complete else "length"
    return Answer(
        network.tokenizer.decode(written, skip_special_tokens=True),
        finish,
        tokens_in=prompt.tokens,
        tokens_out=len(written),
        choices=answer.choices,
        schema_mass=answer.mass,
    )


def score(network: NumpyNetwork, request: Score) -> Scores:
    """Return the candidates' log-probabilities as the next token."""
    prompt = _read(network, request.prompt, network.text.kv_cache())
    targets = target_ids(network.encode, [prompt.last_text], request.candidates)
    values = logprobs_of(network.text.logits(prompt.hidden), targets)[0]
    return Scores(tuple(map(float, values)), (False,) * len(values), tokens_in=prompt.tokens)


def _next_token(logits: Array, request: Generate, rng: np.random.Generator) -> int:
    """Return the likeliest token, or one sampled from the smallest set whose probability reaches ``top_p``."""
    if request.temperature <= 0:
        return int(logits.argmax())
    scaled = logits.astype(np.float64) / request.temperature
    odds = np.exp(scaled - scaled.max())
    order = np.argsort(-odds, kind="stable")
    share = odds[order] / odds.sum()
    # A token is kept while those before it hold less than top_p, so that the likeliest always is.
    kept = order[: max(1, int(np.sum(np.cumsum(share) - share < request.top_p)))][: request.top_k]
    return int(rng.choice(kept, p=odds[kept] / odds[kept].sum()))


def _read(network: NumpyNetwork, prompt: Prompt, cache: KVCache, room: int = 0) -> _Read:
    """Read a prompt into the KV cache with room for ``room`` more tokens; ModelError if it is too long."""
    spans, features, at, text = list[TokenSpan](), list[list[Array]](), 0, ""
    parts = chatml_parts(prompt)
    for part in parts:
        if isinstance(part, str):
            if _RESERVED in part:
                raise ModelError(f"The texts of a prompt may not contain {_RESERVED}.")
            text += part
            continue
        assert isinstance(part, DecodedMedia)
        laid, encoded, grid = _media(network, part, text)
        ids = np.array(token_ids(laid, network.encode), dtype=np.int64)
        places, at = grid_positions(
            ids, network.tokens.video if part.video else network.tokens.image, grid, at
        )
        spans.append(TokenSpan(ids, places))
        features.append(encoded)
        text = ""
    ids = np.array(network.encode(text), dtype=np.int64)
    places, at = grid_positions(ids, network.tokens.video, (1, 1), at)
    spans.append(TokenSpan(ids, places))
    whole = concat_spans(spans)
    if at + room > network.max_positions:
        raise ModelError(
            f"The prompt is {at} positions long and {room} may be generated; the model was made for "
            f"{network.max_positions}. Show fewer frames, or smaller ones."
        )
    if not len(whole):
        raise ModelError("The prompt is empty.")
    joined = [np.concatenate(layer) for layer in zip(*features, strict=True)] if features else None
    hidden = network.text.last_hidden(whole, network.image_rows(whole.ids), joined, cache)
    return _Read(hidden, len(whole), at, text)


def _media(
    network: NumpyNetwork, media: DecodedMedia, before: str
) -> tuple[list[str | RepeatedToken], list[Array], tuple[int, int]]:
    """Return an image or video with the text before it as parts of a prompt, its features, and its grid."""
    clip, geometry = media.clip, network.geometry
    shown = clip.frames if media.video else clip.frames[:1]
    frames, grid = network.fit(shown, geometry.video_pixels if media.video else geometry.still_pixels)
    blocks = block_frames(len(frames), geometry.temporal)
    count = grid[0] * grid[1]
    laid: list[str | RepeatedToken] = [before]
    for block in blocks:
        if media.video:
            laid.append(time_text(block_time(clip.timestamps, block)))
        laid += image_tokens(
            network.tokens.video if media.video else network.tokens.image, count, network.tokens
        )
    return laid, _flat(network.vision.encode(frames, blocks)), grid


def _flat(layers: Sequence[Array]) -> list[Array]:
    return [layer.reshape(-1, layer.shape[-1]) for layer in layers]
