"""Responses of models: text, token log-probabilities, stages, heads, similarities; how each is stored and checked.

A count of tokens is an integer from 1 to the most that its request can have, else it is unknown, which is 0 here:
every request has tokens. A log-probability is at most 0, else it is unknown, which is NaN; so is a probability or
predicted progress outside of 0 to 1. A response of another kind or shape than its request asks for is an error.
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
"""Largest plausible number of tokens of one call; the longest contexts have ten million."""

MAX_ADDED_IN = 16_384
MAX_ADDED_OUT = 131_072
"""Plausible tokens beyond the most a request can have, which may be billed: a gateway's own prompt, and
reasoning that the server does not count towards the limit of output tokens."""

MAX_LOGPROB = 1e-6
"""Largest log-probability that rounding explains; it counts as 0, and a larger one is unknown."""

MAX_COSINE_ERROR = 1e-5
"""By how much rounding explains a cosine outside of -1..1; beyond it, it is unknown."""


def count_of(value: object) -> int:
    """Return a count of tokens; 0 (unknown) for anything but an integer (not a boolean) from 0 to the bound."""
    if isinstance(value, bool) or not isinstance(value, int):
        return 0
    return value if 0 <= value <= MAX_TOKENS else 0


def logprob_of(value: object) -> float:
    """Return a log-probability; NaN, for unknown, where it is no number or above 0 by more than rounding."""
    if isinstance(value, bool) or not isinstance(value, int | float | np.floating):
        return math.nan
    if not value <= MAX_LOGPROB:
        return math.nan
    return min(float(value), 0.0) if value > -1e300 else -math.inf


def probabilities(values: FloatArray | np.float64) -> FloatArray:
    """Return values with NaN in place of those outside of 0..1."""
    return np.where((values >= 0) & (values <= 1), values, np.nan)


def cosines(values: FloatArray) -> FloatArray:
    """Return values with NaN in place of those outside of -1..1 by more than rounding."""
    return np.where(np.abs(values) <= 1 + MAX_COSINE_ERROR, np.clip(values, -1, 1), np.nan)


def _floats(values: Any) -> FloatArray:
    """Return stored numbers as they were: null is NaN, an infinity has its name."""

    def number(value: Any) -> Any:
        return [number(item) for item in value] if isinstance(value, list) else _float(value)

    return np.array(number(values), dtype=np.float64)


def _float(value: float | str | None) -> float:
    return math.nan if value is None else float(value)


@dataclass(frozen=True, eq=False)
class Response(Tagged):
    """What a model answers."""

    @property
    def tokens_in(self) -> int:
        """Input tokens; 0 where their number is not known."""
        return 0

    @property
    def tokens_out(self) -> int:
        """Output tokens; 0 where their number is not known."""
        return 0

    @property
    def tokens_reused(self) -> int:
        """Input tokens that were not read again, at most all of them."""
        return 0

    def pack(self) -> dict[str, Any]:
        """Return it as it is stored."""
        return {"kind": self.tag, **self.plain_fields()}

    def stored_text(self) -> str:
        """Return it as the table ``calls`` has it."""
        return json.dumps(self.pack())

    @classmethod
    def unpack(cls, value: Mapping[str, Any]) -> Self:
        """Return the response from the values of :meth:`pack`; ModelError for invalid ones: caches are untrusted."""
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
    """A generated token, and the most likely ones at its place with their log-probabilities, likeliest first."""

    token: str
    top: tuple[tuple[str, float], ...]


@dataclass(frozen=True)
class Answer(Response):
    """Generated text. ``finish`` is ``"stop"``, or ``"length"`` where it was cut off.

    ``choices`` are the tokens of the text, without the one that ends it, where the request asks for their
    log-probabilities and the model returns them.

    ``schema_mass`` is the smallest probability that the model gave to the tokens that the request's schema allows, at
    any token of the answer; ``None`` if there is no schema, or the model does not state it.
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
    """Log-probability of each candidate as next token.

    A censored one was not among the tokens the server returned: its true value is at most the number given, and
    the number must not be used as its value.
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
    """Log-probabilities by prompt, prefix and candidate, shape (S, K, C); NaN where censored.

    ``tokens_reused`` of ``tokens_in`` were read for the request before, about the same video, and not again. That
    depends on the order of requests, so it counts in the usage of an episode and is kept nowhere else.
    """

    logprobs: FloatArray
    tokens_in: int = 0
    tokens_out: int = 0
    tokens_reused: int = 0
    tag: ClassVar[str] = "prefixes"
    later: ClassVar[Mapping[str, object]] = {"tokens_out": 0}

    def plain_fields(self) -> dict[str, Any]:
        """Return its fields as JSON values: flat numbers and their shape."""
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
        probabilities: Of each stage, (n, K).
        shares: Completed share of the most likely stage, (n,).
        progress: In 0..1, (n,).
    """

    stages: tuple[str, ...]
    probabilities: FloatArray
    shares: FloatArray
    progress: FloatArray

    def plain(self) -> dict[str, Any]:
        """Return its fields as JSON values."""
        return self.plain_fields()

    @property
    def fits(self) -> bool:
        """Whether its arrays have the shapes that belong together."""
        n = (len(self.shares),)
        return (
            self.probabilities.shape == (*n, len(self.stages))
            and self.shares.shape == self.progress.shape == n
        )


@dataclass(frozen=True, eq=False)
class StagePredictions(Response):
    """Stage predictions by head (``"sparse"``, ``"dense"``, ``"whole"``); empty where nothing is known."""

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
    tag: ClassVar[str] = "progress"


@dataclass(frozen=True)
class Preference(Response):
    """Probability that the first of two videos shows more progress; NaN where unknown."""

    first: float
    tokens_in: int = 0
    tag: ClassVar[str] = "preference"

    @classmethod
    def read(cls, stored: dict[str, Any]) -> Self:
        """Return the response with these stored fields."""
        return cls(_float(stored["first"]), stored["tokens_in"])


@dataclass(frozen=True, eq=False)
class Similarities(Response):
    """Cosine similarities of n frames with r references, and of the references with each other; NaN where unknown.

    Attributes:
        frames: In -1..1, (n, r).
        references: In -1..1, (r, r).
    """

    frames: FloatArray
    references: FloatArray
    tokens_in: int = 0
    tag: ClassVar[str] = "similarities"
