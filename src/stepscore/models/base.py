"""The interface of a model: it reads images and text, and returns text, token log-probabilities or stages."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, Protocol, TypeVar, runtime_checkable

import numpy as np

from stepscore._extras import check_extra
from stepscore.models.blocking import run_blocking
from stepscore.models.requests import (
    Generate,
    PredictProgress,
    PredictStages,
    PreferVideo,
    Prompt,
    Request,
    Score,
    ScorePrefixes,
    ScoreSimilarity,
    frame_count,
)
from stepscore.types import FloatArray

TOP_LOGPROBS = 20
"""The most tokens at every token of an answer that a model in this process is asked about by default."""


@dataclass(frozen=True, slots=True)
class Capabilities:
    """The capabilities of a model.

    Attributes:
        generate: Generate text.
        scores: Log-probabilities of chosen next tokens: ``"exact"`` for any token, ``"top"`` when only the most
            likely ones are returned (others come back censored), ``"none"``.
        images: Read images.
        videos: Read several frames as a video with their timestamps.
        stages: Predict stages and progress (:class:`stepscore.models.PredictStages`).
        heads: Predict progress, success and preferences by heads of its own
            (:class:`stepscore.models.PredictProgress`, :class:`stepscore.models.PreferVideo`).
        similarity: Score the similarity of images (:class:`stepscore.models.ScoreSimilarity`) with each other,
            ``"images"``, or with texts as well, ``"texts"``; ``"none"``.
        prefix_sharing: Whether growing prefixes of a video can share work and give the same numbers:
            ``"exact"``, ``"vision-only"`` (only what is computed per frame) or ``"none"``.
        served: It answers over HTTP; calls may cost money, can fail, and can be made concurrently.
        structured: Hold a generated answer to a schema (``Generate.schema``).
        answer_logprobs: Most tokens whose log-probabilities are returned at every token of an answer
            (``Generate.top_logprobs``), where that is known; 0 where it is not, or none are.
    """

    generate: bool = True
    scores: Literal["exact", "top", "none"] = "none"
    images: bool = True
    videos: bool = False
    stages: bool = False
    heads: bool = False
    similarity: Literal["none", "images", "texts"] = "none"
    prefix_sharing: Literal["exact", "vision-only", "none"] = "none"
    served: bool = False
    structured: bool = False
    answer_logprobs: int = 0


@dataclass(frozen=True)
class TokenChoice:
    """A generated token, and the most likely ones at its place with their log-probabilities, likeliest first."""

    token: str
    top: tuple[tuple[str, float], ...]


@dataclass(frozen=True)
class Answer:
    """Generated text. ``finish`` is ``"stop"``, or ``"length"`` where it was cut off.

    A count of tokens is 0 where it is not known, here as in all responses. ``choices`` are the tokens of the text,
    without the one that ends it, where the request asks for their log-probabilities and the model returns them.

    ``schema_mass`` is the smallest probability that the model gave to the tokens that the request's schema allows, at
    any token of the answer; ``None`` where there is no schema, or the model does not state it.
    """

    text: str
    finish: str = "stop"
    tokens_in: int = 0
    tokens_out: int = 0
    choices: tuple[TokenChoice, ...] = ()
    schema_mass: float | None = None


@dataclass(frozen=True)
class Scores:
    """Log-probability of each candidate as next token.

    A censored one was not among the tokens the server returned: its true value is at most the number given, and
    the number must not be used as its value.
    """

    logprobs: tuple[float, ...]
    censored: tuple[bool, ...]
    tokens_in: int = 0
    tokens_out: int = 0


@dataclass(frozen=True, eq=False)
class PrefixScores:
    """Log-probabilities by prompt, prefix and candidate, shape (S, K, C); NaN where censored.

    ``tokens_reused`` of ``tokens_in`` were read for the request before, about the same video, and not again. That
    depends on the order of requests, so it counts in the usage of an episode and is kept nowhere else.
    """

    logprobs: FloatArray
    tokens_in: int = 0
    tokens_out: int = 0
    tokens_reused: int = 0


@dataclass(frozen=True, eq=False)
class StagePrediction:
    """The prediction of one head of a stage-aware reward model at n frames.

    Attributes:
        stages: Names of the task's K stages.
        probabilities: Of each stage, (n, K).
        shares: Completed share of the most likely stage, (n,).
        progress: In 0..1, (n,).
    """

    stages: tuple[str, ...]
    probabilities: FloatArray
    shares: FloatArray
    progress: FloatArray


@dataclass(frozen=True, eq=False)
class StagePredictions:
    """Stage predictions by head (``"sparse"``, ``"dense"``, ``"whole"``); empty where nothing is known."""

    heads: Mapping[str, StagePrediction]
    tokens_in: int = 0


@dataclass(frozen=True, eq=False)
class ProgressPredictions:
    """Predictions of a reward model's heads after each of n frames; NaN where unknown.

    Attributes:
        progress: In 0..1, (n,).
        success: Probability that the task is done, (n,).
        spread: Standard deviation of the predicted distribution of progress, (n,); NaN where the head predicts a
            single number.
    """

    progress: FloatArray
    success: FloatArray
    spread: FloatArray
    tokens_in: int = 0


@dataclass(frozen=True)
class Preference:
    """Probability that the first of two videos shows more progress; NaN where unknown."""

    first: float
    tokens_in: int = 0


@dataclass(frozen=True, eq=False)
class Similarities:
    """Cosine similarities of n frames with r references, and of the references with each other; NaN where unknown.

    Attributes:
        frames: In -1..1, (n, r).
        references: In -1..1, (r, r).
    """

    frames: FloatArray
    references: FloatArray
    tokens_in: int = 0


Response = Answer | Scores | PrefixScores | StagePredictions | ProgressPredictions | Preference | Similarities


class Model(Protocol):
    """Answers requests. Picklable; loads on first use."""

    @property
    def name(self) -> str:
        """The model string, e.g. ``hf/Qwen/Qwen3-VL-8B-Instruct``."""

    @property
    def capabilities(self) -> Capabilities:
        """Its capabilities; may load the model or probe the server."""

    def describe(self) -> Mapping[str, object]:
        """Return all of it that can change a number (name, weight digest, dtype, attention); enters the protocol."""

    async def answer(self, request: Request) -> Response:
        """Return the response to a resolved request.

        Raises:
            TransientModelError: Worth another try (rate limit, time-out, cut connection).
            ModelError: Not worth another try.
        """

    def generate(self, request: Generate) -> Answer:
        """Return generated text, for use outside a run."""

    def score(self, request: Prompt, candidates: Sequence[str]) -> Scores:
        """Return the candidates' log-probabilities, for use outside a run."""


def check_model_extra(model: Model) -> None:
    """Raise MissingExtraError where a model's backend names an extra (``extra``) that is not installed."""
    extra = getattr(model, "extra", None)
    if extra is not None:
        check_extra(extra, f"The model {model.name}")


R = TypeVar(
    "R", Answer, Scores, PrefixScores, StagePredictions, ProgressPredictions, Preference, Similarities
)


@runtime_checkable
class JudgeDefaults(Protocol):
    """A model with options of its own for some judges, which hold unless the user chooses others."""

    def judge_defaults(self, judge: str) -> Mapping[str, object]:
        """Return the options that the judge of this name has by default on this model."""


class SyncMethods:
    """Blocking methods on top of a model's ``answer``, for use outside a run."""

    async def answer(self, request: Request) -> Response:
        """See :class:`Model`."""
        raise NotImplementedError

    def generate(self, request: Generate) -> Answer:
        """Return generated text."""
        return self._wait(request, Answer)

    def score(self, request: Prompt, candidates: Sequence[str]) -> Scores:
        """Return the candidates' log-probabilities as the next token."""
        return self._wait(Score(request, tuple(candidates)), Scores)

    def score_prefixes(self, request: ScorePrefixes) -> PrefixScores:
        """Return the candidates' log-probabilities after every prefix."""
        return self._wait(request, PrefixScores)

    def _wait(self, request: Request, kind: type[R]) -> R:
        response = run_blocking(self.answer(request))
        assert isinstance(response, kind)
        return response


def unknown_response(request: Request, text: str = "") -> Response:
    """Return the response in which nothing is known: NaN, censored scores, no stages; ``text`` for generated text."""
    if isinstance(request, Generate):
        return Answer(text)
    if isinstance(request, Score):
        n = len(request.candidates)
        return Scores((0.0,) * n, (True,) * n)
    if isinstance(request, PredictStages):
        return StagePredictions({})
    if isinstance(request, PredictProgress):
        unknown = np.full(frame_count(request.prompt), np.nan)
        return ProgressPredictions(unknown, unknown, unknown)
    if isinstance(request, PreferVideo):
        return Preference(math.nan)
    if isinstance(request, ScoreSimilarity):
        n, r = request.shape
        return Similarities(np.full((n, r), np.nan), np.full((r, r), np.nan))
    return PrefixScores(
        np.full((len(request.prompts), len(request.lengths), len(request.candidates)), np.nan)
    )


def is_unknown(response: Response, text: str = "") -> bool:
    """Return whether a response is what :func:`unknown_response` makes."""
    if isinstance(response, Answer):
        return response.text == text
    if isinstance(response, Scores):
        return all(response.censored)
    if isinstance(response, StagePredictions):
        return not response.heads
    if isinstance(response, ProgressPredictions):
        return bool(np.isnan(response.progress).all() and np.isnan(response.success).all())
    if isinstance(response, Preference):
        return math.isnan(response.first)
    if isinstance(response, Similarities):
        return bool(np.isnan(response.frames).all())
    return bool(np.isnan(response.logprobs).all())
