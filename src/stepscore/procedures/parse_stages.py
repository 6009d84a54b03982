"""Strict parsers of a model's answer: a plan or stages, all of it or a ModelError.

The text of such an error is sent back to the model (``annotate.py``), so it is part of a prompt.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import Annotated, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from stepscore.episodes import Stage
from stepscore.errors import ModelError, first_field_error
from stepscore.judges.common import strip_thinking
from stepscore.models.schemas import UNKNOWN

_Second = Annotated[float, Field(allow_inf_nan=False)]
_Name = Annotated[str, Field(min_length=1, max_length=200)]


class _TimedStage(BaseModel):
    model_config = ConfigDict(extra="ignore", strict=True, str_strip_whitespace=True)
    name: _Name
    start: _Second
    end: _Second


class _Stages(BaseModel):
    model_config = ConfigDict(extra="ignore", strict=True)
    stages: list[_TimedStage] = Field(min_length=1)


class _Steps(BaseModel):
    model_config = ConfigDict(extra="ignore", strict=True, str_strip_whitespace=True)
    steps: list[_Name] = Field(min_length=1)


M = TypeVar("M", _Stages, _Steps)


def parse_stages(text: str) -> tuple[Stage, ...]:
    """Return the stages in the order in which an answer lists them: ``{"stages": [{"name", "start", "end"}]}``.

    Seconds are numbers; a string such as ``"00:05"`` is an error. Whether the spans are consistent is checked
    by ``span_problems``.
    """
    return tuple(Stage(s.name, s.start, s.end) for s in _only(text, "stages", _Stages).stages)


def known_stages(stages: Sequence[Stage]) -> tuple[Stage, ...]:
    """Return the stages without those called unknown, the word for it in every schema: time of no stage."""
    known = tuple(stage for stage in stages if stage.name != UNKNOWN)
    if not known:
        raise ModelError("The answer states no stage that is known.")
    return known


def parse_steps(text: str) -> tuple[str, ...]:
    """Return the stage names of a plan, ``{"steps": ["...", ...]}``; each may be there once."""
    steps = _only(text, "steps", _Steps).steps
    twice = next((step for step in steps if steps.count(step) > 1), None)
    if twice is not None:
        raise ModelError(f"The answer names the step {twice!r} twice.")
    return tuple(steps)


def _only(text: str, key: str, kind: type[M]) -> M:
    """Return the one object of an answer that has ``key``; the model's thinking is not part of the answer."""
    matches = [value for value in _objects(strip_thinking(text)) if key in value]
    if not matches:
        raise ModelError(f"The answer has no JSON object with {key!r}: {text[:200]!r}")
    if any(value != matches[0] for value in matches):
        raise ModelError(f"The answer has several JSON objects with {key!r} that differ: {text[:200]!r}")
    try:
        return kind.model_validate(matches[0])
    except ValidationError as error:
        first = first_field_error(error)
        raise ModelError(f"The answer's {first.field} is wrong ({first.message}): {text[:200]!r}") from None


def _objects(text: str) -> Iterator[dict[str, object]]:
    """Yield every outermost JSON object of a text."""
    decoder = json.JSONDecoder()
    at = text.find("{")
    while at >= 0:
        try:
            value, end = decoder.raw_decode(text, at)
        except RecursionError:
            return
        except ValueError:
            end = at + 1
        else:
            yield value
        at = text.find("{", end)
