"""The package's extras: what each installs, and whether it is there. Nothing is imported to find out."""

from __future__ import annotations

from importlib.util import find_spec

from stepscore.errors import MissingExtraError

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
    """Raise MissingExtraError where a module of an extra is not installed; called before any work starts.

    Args:
        extra: Its name.
        purpose: What needs it, the first words of the message: ``"Training"``.
    """
    if missing_modules(extra):
        raise MissingExtraError(purpose, extra)


def _is_installed(module: str) -> bool:
    try:
        return find_spec(module) is not None
    except ValueError:  # a module that was put together by hand has no spec
        return True
