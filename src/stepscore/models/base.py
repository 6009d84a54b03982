"""What a model is: something that looks at pictures and answers, in words or in probabilities of words."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Literal, Protocol, TypeVar

from stepscore.models.requests import Generate, Prompt, Request, Score, ScorePrefixes
from stepscore.types import FloatArray


@dataclass(frozen=True, slots=True)
class Capabilities:
    """What a model can do.

    Attributes:
        generate: Write text.
        scores: Log-probabilities of chosen next tokens: ``"exact"`` for any token, ``"top"`` when only the
            likeliest are told (others come back censored), ``"none"``.
        images: Look at pictures.
        videos: Look at several frames as a video with their times.
        prefix_sharing: Whether growing prefixes of a video can share work and give the same numbers:
            ``"exact"``, ``"vision-only"`` (only what is computed per frame) or ``"none"``.
        served: It answers over a connection; calls are paid, can fail, and can be made at the same time.
    """

    generate: bool = True
    scores: Literal["exact", "top", "none"] = "none"
    images: bool = True
    videos: bool = False
    prefix_sharing: Literal["exact", "vision-only", "none"] = "none"
    served: bool = False


@dataclass(frozen=True)
class Answer:
    """Text a model wrote. ``finish`` is ``"stop"``, or ``"length"`` where it was cut off."""

    text: str
    finish: str = "stop"
    tokens_in: int = 0
    tokens_out: int = 0


@dataclass(frozen=True)
class Scores:
    """Log-probability of each candidate as next token.

    A censored one was not among the tokens the server told: its true value is at most the number given, and
    it is never to be taken for it.
    """

    logprobs: tuple[float, ...]
    censored: tuple[bool, ...]
    tokens_in: int = 0


@dataclass(frozen=True, eq=False)
class PrefixScores:
    """Log-probabilities by tail, prefix and candidate, shape (S, K, C); NaN where censored."""

    logprobs: FloatArray
    tokens_in: int = 0


Response = Answer | Scores | PrefixScores


class Model(Protocol):
    """Looks at pictures and answers. Picklable; loads on first use."""

    name: str
    """The model string, e.g. ``hf/Qwen/Qwen3-VL-8B-Instruct``."""

    @property
    def capabilities(self) -> Capabilities:
        """What it can do; may load the model or probe the server."""

    def describe(self) -> Mapping[str, object]:
        """All of it that can change a number (name, weight digest, dtype, attention); enters the protocol."""

    async def answer(self, request: Request) -> Response:
        """The answer to a resolved request.

        Raises:
            TransientModelError: Worth another try (rate limit, time-out, cut connection).
            ModelError: Not worth another try.
        """

    def generate(self, request: Generate) -> Answer:
        """The answer in words, for use outside a run."""

    def score(self, request: Prompt, candidates: Sequence[str]) -> Scores:
        """The candidates' log-probabilities, for use outside a run."""


T = TypeVar("T")
R = TypeVar("R", Answer, Scores, PrefixScores)


class SyncMethods:
    """Gives a model plain, blocking methods on top of ``answer``, for use outside a run."""

    async def answer(self, request: Request) -> Response:
        """See :class:`Model`."""
        raise NotImplementedError

    def generate(self, request: Generate) -> Answer:
        """The answer in words."""
        return self._wait(request, Answer)

    def score(self, request: Prompt, candidates: Sequence[str]) -> Scores:
        """The candidates' log-probabilities as the next token."""
        return self._wait(Score(request, tuple(candidates)), Scores)

    def score_prefixes(self, request: ScorePrefixes) -> PrefixScores:
        """The candidates' log-probabilities after every prefix."""
        return self._wait(request, PrefixScores)

    def _wait(self, request: Request, kind: type[R]) -> R:
        response = run_blocking(self.answer(request))
        assert isinstance(response, kind)
        return response


def run_blocking(coroutine: Coroutine[object, object, T]) -> T:
    """The result of a coroutine, also where the calling thread already runs a loop (a notebook)."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return asyncio.run(coroutine)
    with ThreadPoolExecutor(1) as thread:
        return thread.submit(asyncio.run, coroutine).result()
