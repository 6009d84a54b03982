"""Requests to language models: text, scores of the next token, and scores along a recorded or live video."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol

import numpy as np

from stepscore.episodes import Clip
from stepscore.models.media import DecodedMedia, VideoFrames, label
from stepscore.models.prompts import Prompt
from stepscore.models.requests.typed import MAX_TOKENS_PER_IMAGE, PromptRequest, TypedRequest, text_bytes
from stepscore.models.responses import (
    MAX_LOGPROB,
    Answer,
    PrefixScores,
    Scores,
    TokenChoice,
    count_of,
    logprob_of,
)
from stepscore.models.schemas import Schema, object_schema
from stepscore.models.tagged import plain
from stepscore.types import FloatArray

BLOCK_MARKUP = 10
"""Tokens around a block of frames in Qwen3-VL: a timestamp, a start marker and an end marker."""

MIN_ANSWER_CHARS, CHARS_PER_TOKEN = 65_536, 16
"""An answer is cut to this many characters per requested token, but not below the minimum. Judges search it with
patterns whose time grows with the square of its length."""


@dataclass(frozen=True)
class Generate(PromptRequest[Answer]):
    """Generate text.

    Attributes:
        prompt: The prompt.
        max_tokens: Number of tokens after which generation stops.
        temperature: 0 for greedy decoding.
        top_p: Share of probability to sample from.
        seed: Random seed, for servers that accept one.
        json: Ask for a JSON object if the model supports it.
        repeat: Index among identical requests, each of which is sent and cached separately.
        top_k: Number of most likely tokens to sample from; ``None`` for all.
        top_logprobs: Number of most likely tokens to return log-probabilities for at each position.
        schema: Schema of the answer, if the model supports schemas; ``None`` for free text.
    """

    max_tokens: int = 512
    temperature: float = 0.0
    top_p: float = 1.0
    seed: int | None = None
    json: bool = False
    repeat: int = 0
    top_k: int | None = None
    top_logprobs: int = 0
    schema: Schema | None = None
    tag: ClassVar[str] = "generate"
    later: ClassVar[Mapping[str, object]] = {"top_k": None, "top_logprobs": 0, "schema": None}
    response = Answer
    unanswered = "writes no text"
    writes_text = True

    def token_bound(self) -> tuple[int, int]:
        """Return upper bounds of the tokens; a hosted API bills the schema as part of the prompt."""
        stated = 0 if self.schema is None else len(json.dumps(object_schema(self.schema)))
        return super().token_bound()[0] + stated, self.max_tokens

    def unknown(self, text: str = "") -> Answer:
        """Return an answer that holds only this text."""
        return Answer(text)

    def checked(self, response: Answer) -> Answer | None:
        """Return the answer without anything that was not requested."""
        longest = max(MIN_ANSWER_CHARS, CHARS_PER_TOKEN * self.max_tokens)
        if not isinstance(response.text, str) or len(response.text) > longest:
            return None
        finish = response.finish if isinstance(response.finish, str) else "stop"
        mass = response.schema_mass
        return Answer(
            response.text,
            finish[:40],
            *self.possible_counts(response),
            choices=self._checked_choices(response),
            schema_mass=mass if self.schema is not None and mass is not None and 0 <= mass <= 1 else None,
        )

    def _checked_choices(self, response: Answer) -> tuple[TokenChoice, ...]:
        """Return the log-probabilities of the tokens; none if there are more tokens than requested."""
        if not self.top_logprobs or len(response.choices) > self.max_tokens:
            return ()
        return tuple(
            TokenChoice(
                token, tuple(pair for pair in top[: self.top_logprobs] if not math.isnan(logprob_of(pair[1])))
            )
            for token, top in response.choices
        )


@dataclass(frozen=True)
class Score(PromptRequest[Scores]):
    """Log-probability of each candidate as the next token after the prompt (one token each)."""

    candidates: tuple[str, ...]
    repeat: int = 0
    tag: ClassVar[str] = "score"
    response = Scores
    unanswered = "gives no token scores; hf/, vllm/ and sglang/ give them"

    def token_bound(self) -> tuple[int, int]:
        """Return upper bounds of its input and output tokens."""
        return super().token_bound()[0], 1

    def unknown(self, text: str = "") -> Scores:
        """Return scores in which every candidate is censored."""
        n = len(self.candidates)
        return Scores((0.0,) * n, (True,) * n)

    def checked(self, response: Scores) -> Scores | None:
        """Return the scores; a value that is not a log-probability becomes a censored 0."""
        n = len(self.candidates)
        if len(response.logprobs) != n or len(response.censored) != n:
            return None
        values = [logprob_of(value) for value in response.logprobs]
        pairs = zip(values, response.censored, strict=True)
        return Scores(
            tuple(0.0 if math.isnan(value) else value for value in values),
            tuple(bool(hidden) or math.isnan(value) for value, hidden in pairs),
            *self.possible_counts(response),
        )


class Stream(Protocol):
    """A live video scored by an in-process model; created by ``open_stream``."""

    def append(self, clip: Clip) -> None:
        """Append frames."""

    def score(self, prompts: Sequence[Prompt], candidates: Sequence[str]) -> FloatArray:
        """Return log-probabilities for the video so far."""


class _VideoRequest(TypedRequest[PrefixScores]):
    """Prompts about one video, with candidates for the next token; a subclass declares the fields."""

    prompts: tuple[Prompt, ...]
    candidates: tuple[str, ...]
    shown = ("video",)
    response = PrefixScores

    @property
    def shape(self) -> tuple[int, int, int]:
        """Number of prompts, prefixes and candidates."""
        raise NotImplementedError

    def words(self) -> list[str]:
        """Return the texts of all prompts."""
        return [text for prompt in self.prompts for text in prompt.texts()]

    def unknown(self, text: str = "") -> PrefixScores:
        """Return NaN for every candidate."""
        return PrefixScores(np.full(self.shape, np.nan))

    def checked(self, response: PrefixScores) -> PrefixScores | None:
        """Return the scores, with NaN for log-probabilities above 0."""
        if response.logprobs.shape != self.shape or response.logprobs.dtype.kind != "f":
            return None
        values = np.asarray(response.logprobs, dtype=np.float64)
        known = np.where(values <= MAX_LOGPROB, np.minimum(values, 0.0), np.nan)
        return PrefixScores(known, *self.possible_counts(response), count_of(response.tokens_reused))


@dataclass(frozen=True)
class ScorePrefixes(_VideoRequest):
    """Log-probability of each candidate after growing prefixes of one video, under one or more prompts.

    For every length k and prompt s, the model reads prompt s with the first ``lengths[k]`` frames of
    ``video`` in place of the prompt's :class:`VideoPrefix`. The response holds the candidates'
    log-probabilities as the next token.

    Attributes:
        video: The frames, sampled once for the whole episode so that all prefixes share them.
        lengths: Number of frames in each prefix.
        prompts: One per instruction or question; all are identical up to the video.
        candidates: Words to score, one token each, the leading space included (``" True"``).
    """

    video: VideoFrames | DecodedMedia
    lengths: tuple[int, ...]
    prompts: tuple[Prompt, ...]
    candidates: tuple[str, ...]
    repeat: int = 0
    tag: ClassVar[str] = "score-prefixes"
    unanswered = Score.unanswered

    @property
    def shape(self) -> tuple[int, int, int]:
        """Number of prompts, prefixes and candidates."""
        return len(self.prompts), len(self.lengths), len(self.candidates)

    def as_text(self) -> str:
        """Return the prompts, a turn a line."""
        prefixes = f"{label(self.video)}, prefixes of {list(self.lengths)} frames"
        return "\n".join(prompt.as_text(prefixes) for prompt in self.prompts)

    def token_bound(self) -> tuple[int, int]:
        """Return upper bounds of its input and output tokens."""
        text = sum(prompt.text_tokens() for prompt in self.prompts)
        frames = sum(self.lengths) * len(self.prompts)
        tokens_in = len(self.lengths) * text + frames * MAX_TOKENS_PER_IMAGE
        return tokens_in, len(self.lengths) * len(self.prompts)

    def token_estimate(self, image_tokens: int, frames_per_block: int) -> tuple[int, int]:
        """Return an estimate of its input tokens, and no output tokens."""
        if frames_per_block > 1:
            frames = max(self.lengths)
            blocks = -(-frames // frames_per_block)
            image_tokens = image_tokens * blocks // frames + BLOCK_MARKUP * blocks
        return image_tokens + text_bytes(self.words()) * len(self.lengths) // 4, 0


@dataclass(frozen=True, eq=False)
class ScoreStream(_VideoRequest):
    """Append the frames of ``video`` to a live video, then score each candidate as the next token after each prompt.

    The answer depends on earlier frames, so it is recorded and counted, but never cached. ``stream`` comes
    from an in-process model's ``open_stream``; ``prompts`` are identical up to the video.
    """

    stream: Stream
    video: DecodedMedia
    prompts: tuple[Prompt, ...]
    candidates: tuple[str, ...]
    tag: ClassVar[str] = "score-stream"
    unanswered = "scores no live video; embedded and Qwen3-VL under hf/ do"
    cached = False

    @property
    def shape(self) -> tuple[int, int, int]:
        """Number of prompts, one prefix, and number of candidates."""
        return len(self.prompts), 1, len(self.candidates)

    def plain_fields(self) -> dict[str, Any]:
        """Return the fields, except the stream, as JSON values."""
        return {name: plain(getattr(self, name)) for name in ("video", "prompts", "candidates")}

    def as_text(self) -> str:
        """Return the prompts, a turn a line."""
        return "\n".join(prompt.as_text("live video") for prompt in self.prompts)
