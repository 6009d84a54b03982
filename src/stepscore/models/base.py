"""The interface of a model: it reads images and text, and returns text, token log-probabilities or stages."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, Protocol, cast, runtime_checkable

from stepscore._extras import check_extra
from stepscore.errors import CapabilityError
from stepscore.models.blocking import run_blocking
from stepscore.models.prompts import Prompt
from stepscore.models.requests import Generate, R, Request, Score, ScorePrefixes, TypedRequest
from stepscore.models.responses import Answer, PrefixScores, Response, Scores

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


@runtime_checkable
class JudgeDefaults(Protocol):
    """A model with options of its own for some judges, which hold unless the user chooses others."""

    def judge_defaults(self, judge: str) -> Mapping[str, object]:
        """Return the options that the judge of this name has by default on this model.

        ``calibration`` may be several files, of which the one that holds for the judge's options is used.
        """


Handler = Callable[..., Any]
"""Answers the requests of one type."""


Handlers = Mapping[type[Request], Handler]
"""What a model answers: a handler for each type of request."""


def handler_of(handlers: Handlers, request: Request, name: str, instead: str | None = None) -> Handler:
    """Return what answers a request in a model's table of handlers.

    Args:
        handlers: The table.
        request: The request.
        name: The model's name.
        instead: What the model answers instead, for the message where it has no handler.

    Raises:
        CapabilityError: It has none.
    """
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
