"""Model responses (text, token log-probabilities, stages, heads, similarities), with storage and checks.

A token count must be an integer from 1 to the largest number the request allows; any other count is stored as
0 (unknown), because every request has tokens. A log-probability above 0 becomes NaN (unknown), as does a
probability or predicted progress outside 0..1. A response whose type or shape does not match the request is
an error.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np

from stepscore.errors import ModelError
from stepscore.models.tagged import Tagged, plain
from stepscore.types import FloatArray

MAX_TOKENS = 100_000_000
"""Largest plausible number of tokens in one call; the longest contexts have ten million."""

MAX_ADDED_IN = 16_384
MAX_ADDED_OUT = 131_072
"""Plausible number of billed tokens beyond a request's bound: a gateway's additional prompt, and reasoning
that the server does not count towards the limit of output tokens.
"""

MAX_LOGPROB = 1e-6
"""Largest positive log-probability attributed to rounding. It becomes 0, and larger values become unknown."""

MAX_COSINE_ERROR = 1e-5
"""Largest excess over -1..1 of a cosine that is attributed to rounding; values beyond it become unknown."""


def count_of(value: object) -> int:
    """Return a token count; 0 (unknown) unless the value is a non-boolean integer from 0 to ``MAX_TOKENS``."""
    if isinstance(value, bool) or not isinstance(value, int):
        return 0
    return value if 0 <= value <= MAX_TOKENS else 0


def logprob_of(value: object) -> float:
    """Return a log-probability; NaN (unknown) if it is not a number or is above 0 by more than rounding."""
    if isinstance(value, bool) or not isinstance(value, int | float | np.floating):
        return math.nan
    if not value <= MAX_LOGPROB:
        return math.nan
    return min(float(value), 0.0) if value > -1e300 else -math.inf


def probabilities(values: FloatArray | np.float64) -> FloatArray:
    """Return the values, with NaN for values outside 0..1."""
    return np.where((values >= 0) & (values <= 1), values, np.nan)


def cosines(values: FloatArray) -> FloatArray:
    """Return the values, with NaN for values outside -1..1 by more than rounding."""
    return np.where(np.abs(values) <= 1 + MAX_COSINE_ERROR, np.clip(values, -1, 1), np.nan)


def _floats(values: Any) -> FloatArray:
    """Restore stored numbers: null is NaN, and infinities are stored by name."""

    def number(value: Any) -> Any:
        return [number(item) for item in value] if isinstance(value, list) else _float(value)

    return np.array(number(values), dtype=np.float64)


def _float(value: float | str | None) -> float:
    return math.nan if value is None else float(value)


@dataclass(frozen=True, eq=False)
class Response(Tagged):
    """Base class of model responses."""

    @property
    def tokens_in(self) -> int:
        """Number of input tokens; 0 if unknown."""
        return 0

    @property
    def tokens_out(self) -> int:
        """Number of output tokens; 0 if unknown."""
        return 0

    @property
    def tokens_reused(self) -> int:
        """Number of input tokens reused from an earlier request, at most ``tokens_in``."""
        return 0

    def pack(self) -> dict[str, Any]:
        """Return the response in its stored form."""
        return {"kind": self.tag, **self.plain_fields()}

    def stored_text(self) -> str:
        """Return the response as text for the table ``calls``."""
        return json.dumps(self.pack())

    @classmethod
    def unpack(cls, value: Mapping[str, Any]) -> Self:
        """Restore a response from :meth:`pack`; ModelError if invalid, because caches are untrusted."""
        try:
            if value["kind"] != cls.tag:
                raise ModelError(
                    f"The call cache holds an answer of another kind, {str(value['kind'])[:40]!r}."
                )
            return cls.read({name: item for name, item in value.items() if name != "kind"})
        except (AttributeError, KeyError, OverflowError, TypeError, ValueError) as error:
            raise ModelError(f"The call cache holds a malformed answer ({type(error).__name__}).") from error

    @classmethod
    def read(cls, stored: dict[str, Any]) -> Self:
        """Return the response with these stored fields."""
        return cls(
            **{name: _floats(item) if isinstance(item, list) else item for name, item in stored.items()}
        )


class TokenChoice(NamedTuple):
    """A generated token, and the most likely tokens at its position with log-probabilities, likeliest first."""

    token: str
    top: tuple[tuple[str, float], ...]


@dataclass(frozen=True)
class Answer(Response):
    """Generated text. ``finish`` is ``"stop"``, or ``"length"`` if the text was cut off.

    ``choices`` holds the tokens of the text without the end token, if the request asks for log-probabilities
    and the model returns them.

    ``schema_mass`` is the total probability of the tokens allowed by the request's schema, as the minimum
    over the positions of the answer; ``None`` without a schema, or if the model does not report it.
    """

    text: str
    finish: str = "stop"
    tokens_in: int = 0
    tokens_out: int = 0
    choices: tuple[TokenChoice, ...] = ()
    schema_mass: float | None = None
    tag: ClassVar[str] = "answer"
    later: ClassVar[Mapping[str, object]] = {"choices": (), "schema_mass": None}

    def stored_text(self) -> str:
        """Return the text."""
        return self.text

    @classmethod
    def read(cls, stored: dict[str, Any]) -> Self:
        """Return the response with these stored fields."""
        choices = tuple(
            TokenChoice(str(token), tuple((str(word), float(value)) for word, value in top))
            for token, top in stored.pop("choices", ())
        )
        return cls(**stored, choices=choices)


@dataclass(frozen=True)
class Scores(Response):
    """Log-probability of each candidate as the next token.

    A censored candidate was not among the tokens the server returned. The number given is only an upper bound
    and must not be used as a value.
    """

    logprobs: tuple[float, ...]
    censored: tuple[bool, ...]
    tokens_in: int = 0
    tokens_out: int = 0
    tag: ClassVar[str] = "scores"
    later: ClassVar[Mapping[str, object]] = {"tokens_out": 0}

    @classmethod
    def read(cls, stored: dict[str, Any]) -> Self:
        """Return the response with these stored fields."""
        values = tuple(map(_float, stored.pop("logprobs")))
        return cls(values, tuple(stored.pop("censored")), **stored)


@dataclass(frozen=True, eq=False)
class PrefixScores(Response):
    """Log-probabilities by prompt, prefix and candidate, shape (S, K, C); NaN if censored.

    ``tokens_reused`` of the ``tokens_in`` were already processed for the previous request about the same
    video. This number depends on the order of requests, so it only counts towards an episode's usage and is
    not stored.
    """

    logprobs: FloatArray
    tokens_in: int = 0
    tokens_out: int = 0
    tokens_reused: int = 0
    tag: ClassVar[str] = "prefixes"
    later: ClassVar[Mapping[str, object]] = {"tokens_out": 0}

    def plain_fields(self) -> dict[str, Any]:
        """Return the fields as JSON values: a flat list of numbers, and the shape."""
        stored = {**super().plain_fields(), "logprobs": plain(self.logprobs.ravel())}
        del stored["tokens_reused"]
        return {"shape": list(self.logprobs.shape), **stored}

    @classmethod
    def read(cls, stored: dict[str, Any]) -> Self:
        """Return the response with these stored fields."""
        shape = stored.pop("shape")
        return cls(_floats(stored.pop("logprobs")).reshape(shape), **stored)


@dataclass(frozen=True, eq=False)
class StagePrediction(Tagged):
    """The prediction of one head of a stage-aware reward model at n frames.

    Attributes:
        stages: Names of the task's K stages.
        probabilities: Probability of each stage, (n, K).
        shares: Completed share of the most likely stage, (n,).
        progress: In 0..1, (n,).
    """

    stages: tuple[str, ...]
    probabilities: FloatArray
    shares: FloatArray
    progress: FloatArray

    def plain(self) -> dict[str, Any]:
        """Return the fields as JSON values."""
        return self.plain_fields()

    @property
    def fits(self) -> bool:
        """Whether the shapes of the arrays match."""
        n = (len(self.shares),)
        return (
            self.probabilities.shape == (*n, len(self.stages))
            and self.shares.shape == self.progress.shape == n
        )


@dataclass(frozen=True, eq=False)
class StagePredictions(Response):
    """Stage predictions by head (``"sparse"``, ``"dense"``, ``"whole"``); empty if unknown."""

    heads: Mapping[str, StagePrediction]
    tokens_in: int = 0
    tag: ClassVar[str] = "stages"

    @classmethod
    def read(cls, stored: dict[str, Any]) -> Self:
        """Return the response with these stored fields."""
        heads = {
            name: StagePrediction(tuple(head.pop("stages")), **{key: _floats(v) for key, v in head.items()})
            for name, head in stored["heads"].items()
        }
        return cls(heads, stored["tokens_in"])


@dataclass(frozen=True, eq=False)
class ProgressPredictions(Response):
    """Predictions of a reward model's heads after each of n frames; NaN if unknown.

    Attributes:
        progress: In 0..1, (n,).
        success: Probability that the task is done, (n,).
        spread: Standard deviation of the predicted distribution of progress, (n,); NaN if the head predicts a
            single number.
    """

    progress: FloatArray
    success: FloatArray
    spread: FloatArray
    tokens_in: int = 0
    tag: ClassVar[str] = "progress"


@dataclass(frozen=True)
class Preference(Response):
    """Probability that the first of two videos shows more progress; NaN if unknown."""

    first: float
    tokens_in: int = 0
    tag: ClassVar[str] = "preference"

    @classmethod
    def read(cls, stored: dict[str, Any]) -> Self:
        """Return the response with these stored fields."""
        return cls(_float(stored["first"]), stored["tokens_in"])


@dataclass(frozen=True, eq=False)
class Similarities(Response):
    """Cosine similarities of n frames with r references, and of the references with each other; NaN if unknown.

    Attributes:
        frames: Similarity of each frame with each reference in -1..1, (n, r).
        references: Similarity of the references with each other in -1..1, (r, r).
    """

    frames: FloatArray
    references: FloatArray
    tokens_in: int = 0
    tag: ClassVar[str] = "similarities"
