"""Names of a package that load on first use, so that importing the package imports no heavy library."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib import import_module


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
