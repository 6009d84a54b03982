"""Schemas of answers, and the masks that hold a model in this process to them."""

from stepscore.models.schemas.schema import (
    UNKNOWN,
    Constant,
    Either,
    FreeText,
    JsonItems,
    JsonList,
    JsonObject,
    Number,
    Schema,
    Seconds,
    Steps,
    Word,
    Written,
    from_object,
    number_spans,
    object_schema,
)

__all__ = [
    "UNKNOWN",
    "Constant",
    "Either",
    "FreeText",
    "JsonItems",
    "JsonList",
    "JsonObject",
    "Number",
    "Schema",
    "Seconds",
    "Steps",
    "Word",
    "Written",
    "from_object",
    "number_spans",
    "object_schema",
]
