"""Options that go together, as one parameter of a command: a dataclass whose fields are the options."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from dataclasses import MISSING, fields, is_dataclass
from functools import wraps
from typing import Annotated, Any, NamedTuple, get_args, get_origin, get_type_hints

from stepscore.cli.options.keys import KeyGroup


class After(NamedTuple):
    """Position of a command's own option in its help, below a group's field: ``After("limit")``."""

    field: str


def with_groups(command: Callable[..., None]) -> Callable[..., None]:
    """Return a command whose signature, which typer reads, has the fields of groups instead of the groups.

    The function is called with the groups. Groups are keyword-only parameters whose types are dataclasses with
    annotated fields; field names are unique. A :class:`KeyGroup` parameter is one option, ``-E KEY=VALUE``.
    """
    hints = get_type_hints(command, include_extras=True)
    groups: dict[str, Any] = {name: hint for name, hint in hints.items() if is_dataclass(hint)}
    keyed = {name: found for name, hint in hints.items() if (found := _key_group(hint)) is not None}
    options: list[inspect.Parameter] = []
    for own in inspect.signature(command).parameters.values():
        if own.name in groups:
            options += _fields(groups[own.name])
        elif own.name in keyed:
            declared, group = keyed[own.name]
            options.append(own.replace(annotation=group.option(declared), default=[]))
        else:
            options.append(own.replace(annotation=hints[own.name]))
    for option in list(options):
        if above := _above(option):
            options.remove(option)
            options.insert([each.name for each in options].index(above) + 1, option)
    signature = inspect.Signature(options)

    @wraps(command)
    def call(*args: Any, **kwargs: Any) -> None:
        bound = signature.bind(*args, **kwargs)
        bound.apply_defaults()
        given = bound.arguments
        for name, group in groups.items():
            given[name] = group(**{field.name: given.pop(field.name) for field in fields(group)})
        for name, (declared, keys) in keyed.items():
            given[name] = keys.read(given[name], declared)
        command(**given)

    call.key_groups = keyed  # type: ignore[attr-defined]
    call.__signature__ = signature  # type: ignore[attr-defined]
    call.__annotations__ = {option.name: option.annotation for option in options}
    return call


def key_groups(command: Callable[..., Any]) -> dict[str, list[str]]:
    """Return the keys of every ``-E KEY=VALUE`` group of a command by the group's flag."""
    keyed: dict[str, tuple[Any, KeyGroup]] = getattr(command, "key_groups", {})
    return {group.flag: list(group.keys(declared)) for declared, group in keyed.values()}


def _key_group(hint: Any) -> tuple[Any, KeyGroup] | None:
    """Return the type and the group of a parameter that is given as ``-E KEY=VALUE``; ``None`` for any other."""
    if get_origin(hint) is not Annotated:
        return None
    declared, *metadata = get_args(hint)
    return next(((declared, each) for each in metadata if isinstance(each, KeyGroup)), None)


def _fields(group: Any) -> Iterator[inspect.Parameter]:
    """Yield the fields of a group as keyword-only parameters."""
    hints = get_type_hints(group, include_extras=True)
    for field in fields(group):
        default = field.default if field.default_factory is MISSING else field.default_factory()
        yield inspect.Parameter(
            field.name,
            inspect.Parameter.KEYWORD_ONLY,
            default=inspect.Parameter.empty if default is MISSING else default,
            annotation=hints[field.name],
        )


def _above(option: inspect.Parameter) -> str | None:
    """Return the name of the field that an option is listed below; ``None`` if it keeps its place."""
    return next((each.field for each in get_args(option.annotation) if isinstance(each, After)), None)
