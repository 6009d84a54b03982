"""The forms of the answers that this room asks for, as the prompts show them: a plan, stages, subgoals."""

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
"""Most steps of a plan, as its prompt says."""
MAX_STAGES = 32
"""Most stages of an episode; a step that is done again counts again."""

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
"""The subgoals of a task, and when its success counts."""


def stages_schema(names: Sequence[str] | None) -> Schema:
    """Return the form of the stages of an episode.

    Args:
        names: The only names allowed, beside ``unknown``; ``None`` for any.
    """
    name = FreeText() if names is None else Word(tuple(names))
    stage = JsonObject((("name", name), ("start", Seconds()), ("end", Seconds())))
    return JsonObject((("stages", JsonItems(stage, MAX_STAGES)),))


def is_structured(model: Model, *, structured: bool | None) -> bool:
    """Return whether answers are held to a schema: as the option says, else where the model supports it."""
    if structured and not model.capabilities.structured:
        raise CapabilityError(
            f"structured=true needs a model that can be held to a schema, which {model.name} cannot. "
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
