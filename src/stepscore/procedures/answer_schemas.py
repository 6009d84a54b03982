"""The forms of the answers that this room asks for, as the prompts show them: a plan, stages, subgoals."""

from __future__ import annotations

from collections.abc import Sequence

from stepscore.errors import CapabilityError
from stepscore.models import Model
from stepscore.models.schemas import FreeText, JsonItems, JsonObject, Schema, Seconds, Word

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
    """Return whether answers are held to a schema: as the option says, else where the model supports it.

    Raises:
        CapabilityError: The option asks for it, and the model does not support it.
    """
    if structured and not model.capabilities.structured:
        raise CapabilityError(
            f"structured=true needs a model that can be held to a schema, which {model.name} cannot. "
            "Leave the option out, or choose embedded, hf/, vllm/, sglang/ or openai-api/."
        )
    return model.capabilities.structured if structured is None else structured
