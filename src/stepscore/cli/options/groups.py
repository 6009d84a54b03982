"""Options that go together, as one parameter of a command: a dataclass whose fields are the options."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from dataclasses import MISSING, fields, is_dataclass
from functools import wraps
from typing import Any, NamedTuple, get_args, get_type_hints


class After(NamedTuple):
    """Where an option of a command's own stands in the help: ``Annotated[str, typer.Option(...), After("limit")]``.

    Attributes:
        field: The field of a group that it stands below.
    """

    field: str


def with_groups(command: Callable[..., None]) -> Callable[..., None]:
    """Return a command in whose signature, which typer reads, the fields of groups stand instead of the groups.

    The function itself is called with the groups, each made of its fields.

    Args:
        command: A function, some keyword-only parameters of which are dataclasses, their fields annotated as options
            are. No two have a field of the same name.
    """
    hints = get_type_hints(command, include_extras=True)
    groups: dict[str, Any] = {name: hint for name, hint in hints.items() if is_dataclass(hint)}
    options: list[inspect.Parameter] = []
    for own in inspect.signature(command).parameters.values():
        options += (
            _fields(groups[own.name]) if own.name in groups else [own.replace(annotation=hints[own.name])]
        )
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
        command(**given)

    call.__signature__ = signature  # type: ignore[attr-defined]
    call.__annotations__ = {option.name: option.annotation for option in options}
    return call


def _fields(group: Any) -> Iterator[inspect.Parameter]:
    """Yield the fields of a group as parameters, by keyword alone as those of groups are."""
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
    """Return the name of the field that an option stands below; ``None`` where it stays in its place."""
    return next((each.field for each in get_args(option.annotation) if isinstance(each, After)), None)
