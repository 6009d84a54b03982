"""Forms and strict parsers of the answers that this room asks for: a plan, stages, subgoals.

The text of a parser's ModelError is sent back to the model (``annotate.py``), so it is part of a prompt.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import Annotated, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from stepscore.episodes import Stage
from stepscore.errors import CapabilityError, ModelError, first_field_error
from stepscore.judges.common import strip_thinking
from stepscore.models import Model
from stepscore.models.schemas import UNKNOWN, FreeText, JsonItems, JsonObject, Schema, Seconds, Word

MAX_STEPS = 8
"""Most steps of a plan, as stated in its prompt."""
MAX_STAGES = 32
"""Most stages of an episode; a repeated step counts again."""

_MODE = Word(("ever", "holds"))
STEPS = JsonObject((("steps", JsonItems(FreeText(), MAX_STEPS)),))
"""The steps of a task."""
SUBGOALS = JsonObject(
    (
        ("success", _MODE),
        (
            "subgoals",
            JsonItems(
                JsonObject((("name", FreeText()), ("criterion", FreeText()), ("mode", _MODE))), MAX_STEPS
            ),
        ),
    )
)
"""The subgoals of a task and its success mode."""


def stages_schema(names: Sequence[str] | None) -> Schema:
    """Return the form of the stages of an episode, with only these names and ``unknown``; any name for ``None``."""
    name = FreeText() if names is None else Word(tuple(names))
    stage = JsonObject((("name", name), ("start", Seconds()), ("end", Seconds())))
    return JsonObject((("stages", JsonItems(stage, MAX_STAGES)),))


def is_structured(model: Model, *, structured: bool | None) -> bool:
    """Return whether answers are held to a schema: as requested, else if the model supports it.

    Raises:
        CapabilityError: It is requested and the model does not support it.
    """
    if structured and not model.capabilities.structured:
        raise CapabilityError(
            f"structured=true needs a model that supports JSON schemas, which {model.name} does not. "
            "Leave the option out, or choose embedded, hf/, vllm/, sglang/ or openai-api/."
        )
    return model.capabilities.structured if structured is None else structured


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
    """Return the stages of an answer in its order: ``{"stages": [{"name", "start", "end"}]}``.

    Seconds are numbers; ``"00:05"`` is an error. ``span_problems`` checks whether the spans are consistent.
    """
    return tuple(Stage(s.name, s.start, s.end) for s in _only(text, "stages", _Stages).stages)


def known_stages(stages: Sequence[Stage]) -> tuple[Stage, ...]:
    """Return the stages without those called unknown, which every schema allows for time of no stage."""
    known = tuple(stage for stage in stages if stage.name != UNKNOWN)
    if not known:
        raise ModelError("The answer states no stage that is known.")
    return known


def parse_steps(text: str) -> tuple[str, ...]:
    """Return the distinct stage names of a plan, ``{"steps": ["...", ...]}``."""
    steps = _only(text, "steps", _Steps).steps
    twice = next((step for step in steps if steps.count(step) > 1), None)
    if twice is not None:
        raise ModelError(f"The answer names the step {twice!r} twice.")
    return tuple(steps)


def _only(text: str, key: str, kind: type[M]) -> M:
    """Return the only object with ``key`` in an answer, outside the model's thinking."""
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
