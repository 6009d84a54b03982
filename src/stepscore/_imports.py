"""Imports on first use: names of a package, and optional dependencies with the extras that install them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib import import_module
from importlib.util import find_spec
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


EXTRAS: dict[str, tuple[str, ...]] = {
    "hdf5": ("h5py",),
    "hub": ("huggingface_hub",),
    "local": ("torch", "transformers"),
    "pandas": ("pandas",),
    "plot": ("matplotlib",),
    "ray": ("ray",),
    "remote": ("fsspec", "s3fs"),
    "rerun": ("rerun",),
    "rl": ("gymnasium",),
    "sim": ("metaworld", "mujoco", "gymnasium"),
    "train": ("torch", "transformers", "peft"),
}
"""The modules that each extra of ``pyproject.toml`` brings."""


def missing_modules(extra: str) -> tuple[str, ...]:
    """Return the modules of an extra that are not installed."""
    return tuple(module for module in EXTRAS[extra] if not _is_installed(module))


def check_extra(extra: str, purpose: str) -> None:
    """Raise MissingExtraError where a module of an extra is not installed; called before any work starts."""
    if missing_modules(extra):
        raise MissingExtraError(purpose, extra)


def _is_installed(module: str) -> bool:
    try:
        return find_spec(module) is not None
    except ValueError:  # a module that was put together by hand has no spec
        return True
