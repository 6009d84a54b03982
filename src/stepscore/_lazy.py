"""Imports on first use: names of a package, and optional dependencies."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any

from stepscore.errors import MissingExtraError


def lazy_attributes(package: str, homes: Mapping[str, str]) -> Callable[[str], object]:
    """Return a module's ``__getattr__`` that imports each name from its home module when it is first used.

    Args:
        package: The package's ``__name__``.
        homes: Module of each public name, relative to the package: ``{"SarmNetwork": "network"}``.
    """

    def load(name: str) -> object:
        if name in homes:
            return getattr(import_module(f"{package}.{homes[name]}"), name)
        raise AttributeError(
            f"module {package!r} has no attribute {name!r}; it has {', '.join(sorted(homes))}"
        )

    return load


def import_extra(module: str, *, extra: str, purpose: str) -> Any:
    """Import an optional dependency.

    Args:
        module: Its import name, e.g. ``"pandas"``.
        extra: The extra of this package that installs it.
        purpose: What needs it, for the message.

    Raises:
        MissingExtraError: It is not installed; the message has the command that installs it.
    """
    try:
        return import_module(module)
    except ImportError as error:
        raise MissingExtraError(purpose, extra) from error
