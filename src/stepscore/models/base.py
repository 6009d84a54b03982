"""The interface of a model."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, Protocol, cast, runtime_checkable

from stepscore._imports import check_extra
from stepscore.errors import CapabilityError
from stepscore.models.blocking import run_blocking
from stepscore.models.prompts import Prompt
from stepscore.models.requests import Generate, R, Request, Score, ScorePrefixes, TypedRequest
from stepscore.models.responses import Answer, PrefixScores, Response, Scores

TOP_LOGPROBS = 20
"""Default number of tokens whose log-probabilities a model in process returns at every token of an answer."""


@dataclass(frozen=True, slots=True)
class Capabilities:
    """The capabilities of a model.

    Attributes:
        generate: Generates text.
        scores: Log-probabilities of the next token: ``"exact"`` for any token, ``"top"`` for the most likely ones
            (others come back censored), ``"none"``.
        images: Reads images.
        videos: Reads several frames as a video with their timestamps.
        stages: Answers :class:`stepscore.models.PredictStages`.
        heads: Answers :class:`stepscore.models.PredictProgress` and :class:`stepscore.models.PreferVideo`.
        similarity: :class:`stepscore.models.ScoreSimilarity` with ``"images"``, also with ``"texts"``, or ``"none"``.
        prefix_sharing: Whether growing prefixes of a video share work with the same results: ``"exact"``,
            ``"vision-only"`` (only the work per frame) or ``"none"``.
        served: Answers over HTTP; calls may cost money, can fail, and can be made concurrently.
        structured: Keeps a generated answer to ``Generate.schema``.
        answer_logprobs: Most ``Generate.top_logprobs``; 0 if there are none or that is unknown.
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
    """Raise MissingExtraError if a model's backend needs an extra (``extra``) that is not installed."""
    extra = getattr(model, "extra", None)
    if extra is not None:
        check_extra(extra, f"The model {model.name}")


@runtime_checkable
class JudgeDefaults(Protocol):
    """A model with other default options for some judges."""

    def judge_defaults(self, judge: str) -> Mapping[str, object]:
        """Return the default options of the judge of this name on this model.

        ``calibration`` may be several files; the one that fits the judge's options is used.
        """


Handler = Callable[..., Any]
"""Answers the requests of one type."""

Handlers = Mapping[type[Request], Handler]
"""A model's table of handlers, one for each type of request that it answers."""


def handler_of(handlers: Handlers, request: Request, name: str, instead: str | None = None) -> Handler:
    """Return the handler of a request; raise CapabilityError with what the model ``name`` answers ``instead``."""
    if (found := handlers.get(type(request))) is None:
        raise CapabilityError(f"{name} {instead or request.unanswered}.")
    return found


class SyncMethods:
    """Blocking methods on top of a model's ``answer``, for use outside a run."""

    async def answer(self, request: Request) -> Response:
        """See :class:`Model`."""
        raise NotImplementedError

    def generate(self, request: Generate) -> Answer:
        """Return generated text."""
        return self._wait(request)

    def score(self, request: Prompt, candidates: Sequence[str]) -> Scores:
        """Return the candidates' log-probabilities as the next token."""
        return self._wait(Score(request, tuple(candidates)))

    def score_prefixes(self, request: ScorePrefixes) -> PrefixScores:
        """Return the candidates' log-probabilities after every prefix."""
        return self._wait(request)

    def _wait(self, request: TypedRequest[R]) -> R:
        response = run_blocking(self.answer(request))
        assert isinstance(response, request.response)
        return cast(R, response)
