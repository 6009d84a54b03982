"""A schema accepts what it says and nothing else, in all the forms in which it is handed to a model."""

from __future__ import annotations

import json
import random
import re
from collections.abc import Iterator
from itertools import product

import pytest

from stepscore.errors import OptionError
from stepscore.models.schemas import (
    Constant,
    JsonItems,
    Number,
    Schema,
    Steps,
    Word,
    Written,
    from_object,
    number_spans,
    object_schema,
)
from stepscore.models.schemas.patterns import DEAD, START, Automaton
from tests.models.schemas.examples import KINDS, of_judges

ALL = {**KINDS, **of_judges()}
ALPHABET = 'yesnounknowabcxy0123456789+-.%<>/[]{}"\\:, \n\té€🙂|()'


def accepted(automaton: Automaton, draw: random.Random) -> str:
    """A random accepted text: bytes that keep it possible, then the shortest way to the end."""
    text, state = bytearray(), START
    for step in range(2000):
        row = automaton.row(state)
        possible = [byte for byte in range(256) if row[byte] != DEAD]
        if automaton.is_end(state) and (not possible or draw.random() < 0.2):
            break
        if step > 25:
            distances = {state: automaton.distance(state) for state in {int(row[byte]) for byte in possible}}
            nearest = min(distances.values())
            possible = [byte for byte in possible if distances[int(row[byte])] == nearest]
        byte = draw.choice(possible)
        text.append(byte)
        state = int(row[byte])
    assert automaton.is_end(state)
    return text.decode()


def changed(text: str, draw: random.Random) -> str:
    """The text with one character more, less or other."""
    at = draw.randrange(len(text) + 1)
    return text[:at] + draw.choice(["", draw.choice(ALPHABET)]) + text[at + draw.randrange(2) :]


@pytest.mark.parametrize("name", ALL)
def test_an_automaton_accepts_what_the_regular_expression_matches(name: str) -> None:
    schema, draw = ALL[name], random.Random(name)
    automaton, regex = Automaton(schema.written()), re.compile(schema.written().regex())
    outcomes = set()
    for _ in range(30):
        text = accepted(automaton, draw)
        assert regex.fullmatch(text), text
        for _ in range(5):
            other = changed(text, draw)
            outcomes.add(automaton.accepts(other))
            assert automaton.accepts(other) == (regex.fullmatch(other) is not None), other
    assert outcomes == {True, False} or name == "text"


@pytest.mark.parametrize(
    ("schema", "texts"),
    [
        (Word(("yes", "no", "unknown")), {"yes", "no", "unknown"}),
        (Number(-2, 11), {"unknown", *map(str, range(-2, 12))}),
        (Number(-1, 1, plus=True, unit="%"), {"unknown", "-1%", "0%", "+1%"}),
        (
            Number(0, 2, decimals=1),
            {"unknown", "0", "1", "2", *(f"{a}.{b}" for a in range(2) for b in range(10))},
        ),
        (Steps(("a", "b")), {"1. unknown", *(f"1. {a}{b}" for a in "ab" for b in ("", "\n2. a", "\n2. b"))}),
        (Written(("<", Word(("x",)), ">")), {"<x>", "<unknown>"}),
        (
            JsonItems(Constant(7), 3),
            {"[]", "[7]", "[7, 7]", "[7, 7, 7]"},
        ),
        (
            JsonItems(Word(("a",)), 2),
            {f"[{', '.join(p)}]" for n in range(3) for p in product(('"a"', '"unknown"'), repeat=n)},
        ),
    ],
    ids=lambda value: "texts" if isinstance(value, set) else str(value),
)
def test_a_finite_schema_accepts_exactly_its_texts(schema: Schema, texts: set[str]) -> None:
    automaton, found, waiting = Automaton(schema.written()), set(), [(START, b"")]
    while waiting:
        state, text = waiting.pop()
        if automaton.is_end(state):
            found.add(text.decode())
        row = automaton.row(state)
        waiting += [(int(row[byte]), text + bytes([byte])) for byte in range(256) if row[byte] != DEAD]
    assert found == texts


def fits(value: object, schema: dict[str, object]) -> bool:
    """Whether a value fits a JSON schema, of the few words that are used here."""
    if "anyOf" in schema:
        return any(fits(value, each) for each in schema["anyOf"])  # type: ignore[attr-defined]
    if "enum" in schema and value not in schema["enum"]:  # type: ignore[operator]
        return False
    kinds = {
        "object": dict,
        "array": list,
        "string": str,
        "number": (int, float),
        "integer": int,
        "null": type(None),
    }
    named = schema["type"]
    if not any(isinstance(value, kinds[kind]) for kind in ([named] if isinstance(named, str) else named)):  # type: ignore[attr-defined,arg-type]
        return False
    if isinstance(value, dict):
        properties = schema["properties"]
        assert isinstance(properties, dict)
        return list(value) == schema["required"] and all(fits(v, properties[k]) for k, v in value.items())
    if isinstance(value, list):
        least, most = schema.get("minItems", 0), schema["maxItems"]
        return least <= len(value) <= most and all(fits(item, schema["items"]) for item in value)  # type: ignore[operator,arg-type]
    if isinstance(value, str):
        return re.fullmatch(str(schema.get("pattern", "(?s:.*)")), value) is not None
    return value is None or schema.get("minimum", value) <= value <= schema.get("maximum", value)  # type: ignore[operator]


@pytest.mark.parametrize("name", ALL)
def test_every_accepted_text_is_what_the_json_schema_allows(name: str) -> None:
    schema, draw = ALL[name], random.Random(name)
    automaton, described = Automaton(schema.written()), object_schema(schema)
    json.dumps(described)
    for _ in range(10):
        text = accepted(automaton, draw)
        if schema.is_json:
            assert fits(json.loads(text), described), text
        elif name not in ("range", "signed", "decimals", "seconds", "constant"):
            assert fits({"answer": text}, described), text
    assert not fits({"answer": "<nothing of this kind>", "more": 1}, described)


def test_an_answer_inside_an_object_is_read_as_the_schemas_own() -> None:
    word = Word(("yes", "no"))
    assert from_object(word, '{"answer": "no"}') == "no"
    assert from_object(Number(0, 9), '{"answer": 7}') == "7"
    for other in ("no", '{"answer": ["no"]}', '{"answer": "no", "why": ""}', "[1]", "{", '{"answer": null}'):
        assert from_object(word, other) == other
    own = KINDS["object"]
    assert from_object(own, '{"answer": "no"}') == '{"answer": "no"}'


def spans(name: str, text: str) -> Iterator[str | None]:
    for span in number_spans(ALL[name], text):
        yield None if span is None else text[slice(*span)]


def test_numbers_are_found_by_their_place_in_the_schema() -> None:
    assert list(spans("hop", "<score>-40%</score>")) == ["-40"]
    assert list(spans("hop", "<score>unknown</score>")) == [None]
    assert list(spans("hop", "-40%")) == []
    lines = [
        f"Frame {n}: Frame Description: 9% of it, Task Completion Percentages:{v}"
        for n, v in zip((3, 4, 5), ("5%", "unknown", "100%"), strict=True)
    ]
    assert list(spans("gvl", "\n".join(lines))) == ["5", None, "100"]


def test_a_range_that_is_none_is_refused() -> None:
    for low, high, decimals in ((1, 0, 0), (0, 10_000, 0), (-1, 1, 2)):
        with pytest.raises(OptionError, match="range"):
            Number(low, high, decimals)
