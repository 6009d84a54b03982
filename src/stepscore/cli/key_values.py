"""Options of a judge or a model on the command line, ``-J KEY=VALUE``: values read by what the option declares."""

from __future__ import annotations

import inspect
import os
import re
from collections.abc import Callable, Sequence
from typing import get_args

from stepscore._untrusted import parse_json
from stepscore.errors import OptionError


def read_pairs(pairs: list[str], flag: str, make: Callable[..., object] | None = None) -> dict[str, object]:
    """Parse ``["points=16", "path=x.csv"]`` into a mapping; values are read as JSON where they are JSON.

    Args:
        pairs: The texts given, each ``key=value``.
        flag: The flag they were given with, for messages.
        make: The function whose options they are. A value stays text where it declares text (``str``, ``Path``),
            so that a file may be called ``True``; ``None`` is read as such only where it is allowed.
    """
    parameters = inspect.signature(make).parameters if make is not None else {}
    ours = make is None or make.__module__.startswith("stepscore.")
    parsed: dict[str, object] = {}
    for pair in pairs:
        key, equals, text = pair.partition("=")
        if not equals or not key:
            kind = {"-J": "judges", "-M": "models"}.get(flag, "judges")
            raise OptionError(
                f"{flag} {pair}: expected key=value, for example {flag} points=16. List the keys: stepscore ls {kind}"
            )
        name = key.replace("-", "_")
        kinds = _type_names(parameters[name].annotation) if name in parameters else set()
        parsed[name] = text if _stays_text(text, kinds) else _parse_value(text)
        if not ours:  # ours check more than the type
            _check_type(parsed[name], kinds, f"{flag} {pair}")
    return parsed


_PAIR = re.compile(r"\w[\w-]*=.*", re.DOTALL)


def read_over(words: Sequence[str], make: Callable[..., object]) -> tuple[str, dict[str, list[object]]]:
    """Return the source and the values to try of each option, of ``SOURCE frames=8,16 views=a,a+b``.

    Args:
        words: Arguments: one is the source, the others are options with their values.
        make: The function whose options they are; ``views``, lists of cameras, are not among them.
    """
    # A path may hold "=": one that is there is the source.
    pairs = [word for word in words if _PAIR.fullmatch(word) and not _exists(word)]
    sources = [word for word in words if word not in pairs]
    if len(sources) != 1:
        found = "none is" if not sources else f"{len(sources)} are"
        raise OptionError(f"Expected one source and options to vary (frames=8,16); {found} a source.")
    tried: dict[str, list[object]] = {}
    for pair in pairs:
        key, _, text = pair.partition("=")
        name = key.replace("-", "_")
        texts = _split(text)
        if not texts:
            raise OptionError(f"{pair}: expected OPTION=A,B, for example frames=8,16.")
        if name in tried:
            raise OptionError(f"{pair}: values of {name} are given twice. Give them once: {name}=A,B")
        if name == "model":
            raise OptionError(f"{pair}: a tuning is of one model, that of --model.")
        tried[name] = [
            [view for view in each.split("+") if view]
            if name == "views"
            else read_pairs([f"{key}={each}"], "option", make)[name]
            for each in dict.fromkeys(texts)
        ]
    return sources[0], tried


def _exists(word: str) -> bool:
    try:
        return os.path.lexists(word)
    except ValueError:  # a NUL
        return False


def _split(text: str) -> list[str]:
    """Return the parts between commas, those inside of brackets and quotes left alone: ``["Yes","No"]`` is one."""
    parts, depth, quoted = [""], 0, False
    for sign in text:
        quoted ^= sign == '"'
        depth += 0 if quoted else (sign in "[{") - (sign in "]}")
        if sign == "," and depth <= 0 and not quoted:
            parts.append("")
        else:
            parts[-1] += sign
    return [part.strip() for part in parts if part.strip()]


_NUMBERS = {"int": "a whole number", "float": "a number", "bool": "true or false", "None": "none"}


def _check_type(value: object, kinds: set[str], where: str) -> None:
    """Refuse a value that is none of the declared types, where these are numbers, flags and none alone."""
    declared = {"None" if kind == "NoneType" else kind for kind in kinds}
    if not declared or not declared <= set(_NUMBERS):
        return
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    fits = (
        ("None" in declared and value is None)
        or ("bool" in declared and isinstance(value, bool))
        or ("float" in declared and is_number)
        or ("int" in declared and is_number and isinstance(value, int))
    )
    if not fits:
        raise OptionError(f"{where}: it takes {' or '.join(_NUMBERS[kind] for kind in sorted(declared))}.")


def _parse_value(text: str) -> object:
    literal = {"True": "true", "False": "false", "None": "null", "none": "null"}.get(text, text)
    try:
        return parse_json(literal, "value", _NotJsonError)
    except _NotJsonError:
        return text


class _NotJsonError(OptionError):
    """A value is a text, not JSON."""


def _type_names(declared: object) -> set[str]:
    """Return the names of the types a parameter takes; annotations may be types or their text."""
    if isinstance(declared, str):
        return {part.strip() for part in declared.split("|")}
    return {getattr(part, "__name__", str(part)) for part in get_args(declared) or (declared,)}


def _stays_text(text: str, kinds: set[str]) -> bool:
    if _parse_value(text) is None and kinds & {"None", "NoneType"}:
        return False
    return bool(kinds & {"str", "Path"}) and not kinds & {"bool", "int", "float"}
