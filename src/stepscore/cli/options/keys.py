"""Groups of options, ``-E KEY=VALUE``: the fields of dataclasses, with the help in their docstrings."""

from __future__ import annotations

import builtins
import inspect
import re
import sys
import types
from collections.abc import Callable, Mapping, Sequence
from dataclasses import MISSING, dataclass, fields
from importlib import import_module
from pathlib import Path
from typing import Annotated, Any, Literal, Union, get_args, get_origin, get_type_hints

import typer

from stepscore._options import Range
from stepscore._untrusted import shown
from stepscore.cli.numbers import MAX_SEED, shown_number
from stepscore.errors import OptionError, UnknownNameError

_NOT_GIVEN = ("none", "None", "null")
_KINDS = {int: "an integer", float: "a number", bool: "true or false"}


@dataclass(frozen=True)
class KeyGroup:
    """Declares a parameter of a command as a group: ``engine: Annotated[Engine, KeyGroup("-E", "engine")]``.

    A parameter of a dataclass gets an instance. With ``of``, a dict of the values given.

    Attributes:
        flag: The flag, such as ``-E``.
        what: What the keys are options of.
        of: Dataclasses as ``package.module:name``, imported on use, if the parameter is a dict.
        leave_out: Their fields that are not keys.
    """

    flag: str
    what: str
    of: tuple[str, ...] = ()
    leave_out: tuple[str, ...] = ()

    def keys(self, declared: Any) -> dict[str, Key]:
        """Return the keys by name; ``declared`` is the type of the parameter."""
        classes = [_imported(target) for target in self.of] or [declared]
        return {key.name: key for each in classes for key in keys_of(each) if key.name not in self.leave_out}

    def option(self, declared: Any) -> Any:
        """Return the option that typer declares in the place of the parameter."""

        def print_and_exit(context: typer.Context, pairs: list[str]) -> list[str]:
            if "help" in pairs and not context.resilient_parsing:
                typer.echo(self.help(declared))
                raise typer.Exit
            return pairs

        info = typer.Option(
            self.flag,
            metavar="KEY=VALUE",
            help=f"Option of the {self.what}; `{self.flag} help` lists them.",
            callback=print_and_exit,
            is_eager=True,
        )
        return Annotated[list[str], info]

    def read(self, pairs: Sequence[str], declared: Any) -> Any:
        """Return the values of the pairs given: an instance of the parameter's type, or a dict."""
        keys, given = self.keys(declared), {}
        for pair in pairs:
            name, equals, text = pair.partition("=")
            if not equals or not name:
                first = next(iter(keys.values()))
                raise OptionError(
                    f"{self.flag} {shown(pair)}: expected KEY=VALUE, for example {self.flag} {first.shown}. "
                    f"{self.flag} help lists all keys."
                )
            key = keys.get(name.replace("-", "_"))
            if key is None:
                valid = [each.replace("_", "-") for each in keys]
                raise UnknownNameError(f"key of {self.flag}", name, valid)
            given[key.name] = key.read(text, f"{self.flag} {name}")
        return given if self.of else declared(**given)

    def help(self, declared: Any) -> str:
        """Return a line for each key: its name, its default and what it means."""
        keys = self.keys(declared).values()
        width = min(max(len(key.shown) for key in keys), 32)
        lines = [f"  {key.shown:<{width}}  {key.help}{key.allowed}" for key in keys]
        return "\n".join(
            [
                f"Options of the {self.what}, each as {self.flag} KEY=VALUE, with its default if it has one:",
                *lines,
            ]
        )


@dataclass(frozen=True)
class Key:
    """One key of a group, read from a field of a dataclass.

    Attributes:
        name: Its name in Python.
        kind: The type of its value; ``tuple`` for names separated by commas, ``Path`` also for a mapping in a file.
        default: Its default.
        help: What it means.
        optional: Whether ``none`` is a value.
        range: The numbers it allows.
        choices: The words it allows.
    """

    name: str
    kind: type
    default: object
    help: str
    optional: bool
    range: Range | None
    choices: tuple[str, ...]

    @property
    def shown(self) -> str:
        """The key with its default, or with what stands for a value."""
        text = str(self.default).lower() if isinstance(self.default, bool) else str(self.default)
        if isinstance(self.default, float):
            text = f"{self.default:g}"
        if self.default in (None, (), ""):
            text = {int: "N", float: "NUMBER", Path: "FILE", tuple: "A,B"}.get(self.kind, "TEXT")
        return f"{self.name.replace('_', '-')}={text}"

    @property
    def allowed(self) -> str:
        """The range or choices, as the help has them."""
        if self.choices:
            return f" One of: {', '.join(self.choices)}."
        return f" ({self.range})" if self.range and self.range.most < MAX_SEED else ""

    def read(self, text: str, where: str) -> object:
        """Return the value of a text; ``where`` begins the message of an error."""
        if self.optional and text in _NOT_GIVEN:
            return None
        if self.choices and text not in self.choices:
            raise UnknownNameError(f"value of {where}", text, self.choices)
        if self.kind in _KINDS:
            return self._read_number(text, where)
        if self.kind is tuple:
            return tuple(part.strip() for part in text.split(",") if part.strip())
        return Path(text) if self.kind is Path else text

    def _read_number(self, text: str, where: str) -> object:
        values = {"true": True, "True": True, "false": False, "False": False}
        value: Any = values.get(text) if self.kind is bool else _number(text, self.kind)
        if value is None or (self.range is not None and not self.range.allows(value)):
            must = _KINDS[self.kind] + (f" {self.range}" if self.range else "")
            got = shown(text)[:60] if value is None else shown_number(value)
            raise OptionError(f"{where} must be {must}{' or none' * self.optional}, got {got or 'nothing'}.")
        return value


def keys_of(declared: Any) -> list[Key]:
    """Return a key for every field of a dataclass."""
    hints, texts = _hints(declared), documented(declared)
    return [
        _key(field.name, hints[field.name], _default(field), texts.get(field.name, ""))
        for field in fields(declared)
    ]


def documented(declared: Any) -> dict[str, str]:
    """Return what a docstring says of each attribute or argument, those of base classes included."""
    bases = reversed(getattr(declared, "__mro__", (declared,)))
    found: dict[str, str] = {}
    for each in bases:
        text = inspect.cleandoc(each.__doc__ or "") if each is not object else ""
        section = re.search(r"^(?:Attributes|Args):\n((?:[ ]+.*\n?|\n(?=[ ]))+)", text, re.MULTILINE)
        listed = section[1] if section else ""
        for name, meaning in re.findall(r"^ {4}(\w+): (.*(?:\n {5,}.*)*)", listed, re.MULTILINE):
            found[name] = re.sub(r":\w+:(?=`)", "", " ".join(meaning.split())).replace("``", "`")
    return found


def _imported(target: str) -> Any:
    module, _, name = target.partition(":")
    return getattr(import_module(module), name)


class _Names(dict[str, Any]):
    """Names in annotations; one that is imported for type checking only is taken for text."""

    def __missing__(self, name: str) -> type:
        return str


def _hints(declared: Any) -> dict[str, Any]:
    names = _Names(vars(builtins))
    for base in reversed(declared.__mro__):
        names.update(vars(sys.modules[base.__module__]))
    return get_type_hints(declared, localns=names, include_extras=True)


def _default(field: Any) -> object:
    return field.default if field.default_factory is MISSING else field.default_factory()


def _key(name: str, hint: Any, default: object, text: str) -> Key:
    limits = [each for each in getattr(hint, "__metadata__", ()) if isinstance(each, Range)]
    bare = get_args(hint)[0] if get_origin(hint) is Annotated else hint
    parts = get_args(bare) if get_origin(bare) in (Union, types.UnionType) else (bare,)
    parts = tuple(get_args(part)[0] if get_origin(part) is Annotated else part for part in parts)
    (kind, *_) = [part for part in parts if part is not type(None)]
    choices = get_args(kind) if get_origin(kind) is Literal else ()
    origin = get_origin(kind) or kind
    if isinstance(origin, type) and origin not in (str, Path, *_KINDS):
        kind = tuple if issubclass(origin, Sequence) else Path if issubclass(origin, Mapping) else str
    return Key(
        name,
        str if choices else kind,
        default,
        text,
        optional=type(None) in parts,
        range=limits[0] if limits else None,
        choices=choices,
    )


def _number(text: str, kind: Callable[[str], float]) -> float | None:
    """Return a number written in ASCII digits; ``None`` for any other text."""
    if not text.isascii() or "_" in text:
        return None
    try:
        return kind(text)
    except ValueError:
        return None


def given_only(values: Mapping[str, object]) -> dict[str, object]:
    """Return the values that are not ``None``."""
    return {name: value for name, value in values.items() if value is not None}
