"""Schemas: what an answer in words may be.

A schema is a value. It states the form that the question already asks for, so that a request with one asks nothing
else. Every backend holds its model to it in its own way: a server gets it as a JSON schema, a regular expression or a
list of choices, a model in this process gets a mask over its tokens (``token_mask.py``).

The word ``unknown`` is a possible answer everywhere; a time is ``null`` instead, a list of any length is empty.
"""

from __future__ import annotations

import json
import re
from collections.abc import Hashable, Iterator, Mapping
from dataclasses import dataclass
from typing import ClassVar, Protocol

from stepscore.errors import OptionError
from stepscore.models.schemas.patterns import (
    AnyCharacter,
    Digit,
    InOrder,
    OneOfPatterns,
    Pattern,
    Repeated,
    Text,
)
from stepscore.models.tagged import Tagged

UNKNOWN = "unknown"
MAX_NUMBERS = 10_000
"""Most integers in a range."""

_CONTROL = "".join(map(chr, range(32)))
_IN_STRING = OneOfPatterns(
    (AnyCharacter('"\\\x7f' + _CONTROL), *(Text(f"\\{c}") for c in '"\\/bfnrt')),
)


_NOTHING: Pattern = Text("")


class Schema(Hashable, Protocol):
    """The form of an answer, or of a part of one."""

    @property
    def is_json(self) -> bool:
        """Whether it is a JSON object when it is the whole answer, so that a server can take it as a JSON schema."""

    @property
    def choices(self) -> tuple[str, ...]:
        """The possible answers, where they are a few words; else none."""

    def written(self) -> Pattern:
        """Return the texts that it may be."""

    def in_json(self) -> Pattern:
        """Return the texts that it may be as a value in JSON, spaced as Python writes JSON."""

    def json_schema(self) -> dict[str, object]:
        """Return it as a JSON schema."""


@dataclass(frozen=True)
class _Part(Tagged):
    """What schemas have in common."""

    @property
    def is_json(self) -> bool:
        """See :class:`Schema`."""
        return False

    @property
    def choices(self) -> tuple[str, ...]:
        """See :class:`Schema`."""
        return ()

    def written(self) -> Pattern:
        """See :class:`Schema`."""
        raise NotImplementedError

    def in_json(self) -> Pattern:
        """See :class:`Schema`."""
        raise TypeError(f"{type(self).__name__} is written as a text; it has no form in JSON.")

    def json_schema(self) -> dict[str, object]:
        """See :class:`Schema`. By default a string that the regular expression describes."""
        return {"type": "string", "pattern": f"^{self.written().regex()}$"}


@dataclass(frozen=True)
class Word(_Part):
    """One of some words, or ``unknown``."""

    words: tuple[str, ...]
    tag: ClassVar[str] = "word"

    @property
    def choices(self) -> tuple[str, ...]:
        """The words, ``unknown`` last."""
        return (*(word for word in self.words if word != UNKNOWN), UNKNOWN)

    def written(self) -> Pattern:
        """See :class:`Schema`."""
        return OneOfPatterns(tuple(map(Text, self.choices)))

    def in_json(self) -> Pattern:
        """See :class:`Schema`."""
        return OneOfPatterns(tuple(Text(json.dumps(word, ensure_ascii=False)) for word in self.choices))

    def json_schema(self) -> dict[str, object]:
        """See :class:`Schema`."""
        return {"type": "string", "enum": list(self.choices)}


@dataclass(frozen=True)
class Number(_Part):
    """A number of a range, or ``unknown``.

    Attributes:
        low: The lowest integer.
        high: The highest.
        decimals: Most digits after a point, below ``high``; for ranges without negative numbers.
        plus: Whether a number above 0 has a plus sign.
        unit: Text after a number, but not after ``unknown``; omitted in JSON.
    """

    low: int
    high: int
    decimals: int = 0
    plus: bool = False
    unit: str = ""
    tag: ClassVar[str] = "number"

    def __post_init__(self) -> None:
        if not self.low <= self.high < self.low + MAX_NUMBERS:
            raise OptionError(
                f"A schema's range must hold 1 to {MAX_NUMBERS:,} integers, got {self.low} to {self.high}."
            )
        if self.decimals and self.low < 0:
            raise OptionError(f"A schema's range with decimals must begin at 0 or above, got {self.low}.")

    def written(self) -> Pattern:
        """See :class:`Schema`. The number is a group of the regular expression, its unit is not."""
        number = InOrder((self._number(),), group=True)
        return OneOfPatterns((InOrder((number, Text(self.unit))), Text(UNKNOWN)))

    def in_json(self) -> Pattern:
        """See :class:`Schema`."""
        return OneOfPatterns((InOrder((self._number(),), group=True), Text(f'"{UNKNOWN}"')))

    def json_schema(self) -> dict[str, object]:
        """See :class:`Schema`."""
        kind = "number" if self.decimals else "integer"
        number = {"type": kind, "minimum": self.low, "maximum": self.high}
        return {"anyOf": [number, {"type": "string", "enum": [UNKNOWN]}]}

    def _number(self) -> Pattern:
        numbers = range(self.low, self.high + 1)
        wholes = OneOfPatterns(tuple(Text(f"{n:+d}" if self.plus and n else str(n)) for n in numbers))
        if not self.decimals:
            return wholes
        below = OneOfPatterns(tuple(Text(str(n)) for n in numbers[:-1]))
        return OneOfPatterns((wholes, InOrder((below, Text("."), _digits(1, self.decimals)))))


@dataclass(frozen=True)
class Seconds(_Part):
    """A time in seconds with up to two decimals, or ``null``."""

    tag: ClassVar[str] = "seconds"

    def written(self) -> Pattern:
        """See :class:`Schema`. A number has no leading zero but 0 itself, as in JSON."""
        first = OneOfPatterns(tuple(Text(str(n)) for n in range(1, 10)))
        whole = OneOfPatterns((Text("0"), InOrder((first, _digits(0, 4)))))
        fraction = OneOfPatterns((Text(""), InOrder((Text("."), _digits(1, 2)))))
        return OneOfPatterns((InOrder((whole, fraction)), Text("null")))

    def in_json(self) -> Pattern:
        """See :class:`Schema`."""
        return self.written()

    def json_schema(self) -> dict[str, object]:
        """See :class:`Schema`."""
        return {"type": ["number", "null"]}


@dataclass(frozen=True)
class Constant(_Part):
    """A number that is given, such as that of an entry in a list."""

    value: int
    tag: ClassVar[str] = "constant"

    def written(self) -> Pattern:
        """See :class:`Schema`."""
        return Text(str(self.value))

    def in_json(self) -> Pattern:
        """See :class:`Schema`."""
        return self.written()

    def json_schema(self) -> dict[str, object]:
        """See :class:`Schema`."""
        return {"type": "integer", "enum": [self.value]}


@dataclass(frozen=True)
class FreeText(_Part):
    """Any text, also none."""

    but: str = "\n"
    tag: ClassVar[str] = "free-text"

    def written(self) -> Pattern:
        """See :class:`Schema`."""
        return Repeated(AnyCharacter(self.but))

    def in_json(self) -> Pattern:
        """See :class:`Schema`."""
        return InOrder((Text('"'), Repeated(_IN_STRING), Text('"')))

    def json_schema(self) -> dict[str, object]:
        """See :class:`Schema`."""
        return {"type": "string"}


@dataclass(frozen=True)
class Steps(_Part):
    """A list out of some steps, numbered from 1, one on a line; or ``1. unknown``."""

    steps: tuple[str, ...]
    tag: ClassVar[str] = "steps"

    def written(self) -> Pattern:
        """See :class:`Schema`."""
        step = OneOfPatterns(tuple(map(Text, self.steps)))
        rest: Pattern = Text("")
        for number in range(len(self.steps), 1, -1):
            rest = OneOfPatterns((Text(""), InOrder((Text(f"\n{number}. "), step, rest))))
        return OneOfPatterns((InOrder((Text("1. "), step, rest)), Text(f"1. {UNKNOWN}")))


@dataclass(frozen=True)
class Written(_Part):
    """A text of fixed pieces and parts that are to be filled in."""

    parts: tuple[str | Schema, ...]
    tag: ClassVar[str] = "written"

    def written(self) -> Pattern:
        """See :class:`Schema`."""
        return InOrder(tuple(Text(p) if isinstance(p, str) else p.written() for p in self.parts))


@dataclass(frozen=True)
class Either(_Part):
    """One of several forms."""

    forms: tuple[Schema, ...]
    tag: ClassVar[str] = "either"

    def written(self) -> Pattern:
        """See :class:`Schema`."""
        return OneOfPatterns(tuple(form.written() for form in self.forms))


@dataclass(frozen=True)
class JsonObject(_Part):
    """A JSON object with these keys in this order."""

    fields: tuple[tuple[str, Schema], ...]
    tag: ClassVar[str] = "json-object"

    @property
    def is_json(self) -> bool:
        """See :class:`Schema`."""
        return True

    def written(self) -> Pattern:
        """See :class:`Schema`."""
        parts: list[Pattern] = []
        for at, (key, value) in enumerate(self.fields):
            parts += [Text(f"{', ' if at else ''}{json.dumps(key)}: "), value.in_json()]
        return InOrder((Text("{"), *parts, Text("}")))

    def in_json(self) -> Pattern:
        """See :class:`Schema`."""
        return self.written()

    def json_schema(self) -> dict[str, object]:
        """See :class:`Schema`. All keys are required and no others allowed, as OpenAI's strict mode wants it."""
        return {
            "type": "object",
            "properties": {key: value.json_schema() for key, value in self.fields},
            "required": [key for key, _ in self.fields],
            "additionalProperties": False,
        }


@dataclass(frozen=True)
class JsonList(_Part):
    """A JSON list of exactly these items in this order; as a JSON schema the order is left open."""

    items: tuple[Schema, ...]
    tag: ClassVar[str] = "json-list"

    def written(self) -> Pattern:
        """See :class:`Schema`."""
        parts: list[Pattern] = []
        for at, item in enumerate(self.items):
            parts += [Text(", " if at else ""), item.in_json()]
        return InOrder((Text("["), *parts, Text("]")))

    def in_json(self) -> Pattern:
        """See :class:`Schema`."""
        return self.written()

    def json_schema(self) -> dict[str, object]:
        """See :class:`Schema`."""
        n = len(self.items)
        items = [item.json_schema() for item in dict.fromkeys(self.items)]
        return {"type": "array", "items": {"anyOf": items}, "minItems": n, "maxItems": n}


@dataclass(frozen=True)
class JsonItems(_Part):
    """A JSON list of items of one kind; an empty one says that nothing is known."""

    item: Schema
    most: int
    tag: ClassVar[str] = "json-items"

    def written(self) -> Pattern:
        """See :class:`Schema`."""
        item, rest = self.item.in_json(), _NOTHING
        for _ in range(self.most - 1):
            rest = OneOfPatterns((_NOTHING, InOrder((Text(", "), item, rest))))
        return InOrder((Text("["), OneOfPatterns((_NOTHING, InOrder((item, rest)))), Text("]")))

    def in_json(self) -> Pattern:
        """See :class:`Schema`."""
        return self.written()

    def json_schema(self) -> dict[str, object]:
        """See :class:`Schema`."""
        return {"type": "array", "items": self.item.json_schema(), "maxItems": self.most}


def object_schema(schema: Schema) -> dict[str, object]:
    """Return a schema as the JSON schema of an object; what is no object becomes the value of its key ``answer``."""
    if schema.is_json:
        return schema.json_schema()
    return JsonObject((("answer", schema),)).json_schema()


def from_object(schema: Schema, text: str) -> str:
    """Return an answer to :func:`object_schema` as the schema's own text; any other text as it is."""
    if schema.is_json:
        return text
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        return text
    value = found.get("answer") if isinstance(found, Mapping) and len(found) == 1 else None
    return text if value is None or isinstance(value, Mapping | list) else str(value)


def number_spans(schema: Schema, text: str) -> Iterator[tuple[int, int] | None]:
    """Yield the span of each number in an answer, ``None`` if it is unknown; yield nothing for another form."""
    match = re.fullmatch(schema.written().regex(), text)
    groups = 0 if match is None else match.re.groups
    for group in range(1, groups + 1):
        assert match is not None
        start, stop = match.span(group)
        yield None if start < 0 else (start, stop)


def _digits(least: int, most: int) -> Pattern:
    rest: Pattern = Text("")
    for _ in range(most - least):
        rest = OneOfPatterns((Text(""), InOrder((Digit(), rest))))
    return InOrder((*([Digit()] * least), rest))
