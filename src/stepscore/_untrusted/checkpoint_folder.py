"""The files of a checkpoint's folder: only regular files that stand in it are opened.

A file may be a symbolic link to another file of the folder, or, in the layout of the Hugging Face cache, from
``snapshots/REVISION`` to ``blobs``. Any other link could show a file of this machine as weights or configuration,
and is refused before it is opened; so is every name that leads out of the folder.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from stepscore._untrusted.files import check_regular, parse_json, read_text, shown
from stepscore.errors import ModelError

MAX_CONFIG_BYTES = 1 << 26
"""Longest configuration file or index of weights, in bytes; an index of 90,000 tensors has 9 million."""
READ_SUFFIXES = frozenset({".json", ".txt", ".jinja", ".model", ".safetensors"})
"""Files that transformers may read of a checkpoint without remote code."""

TEMPLATES = "additional_chat_templates"
"""Folder of further chat templates, which transformers opens too."""


def named_folder(checkpoint: str) -> Path:
    """Return the path of a checkpoint, ``~`` expanded.

    Raises:
        ModelError: No path can be made of it.
    """
    try:
        folder = Path(checkpoint).expanduser()
        os.lstat(folder)
    except FileNotFoundError:
        return folder
    except (OSError, ValueError, RuntimeError) as error:  # too long, a NUL, a user that does not exist
        why = getattr(error, "strerror", None) or error
        raise ModelError(f"Cannot read the checkpoint {shown(checkpoint)}: {why}.") from error
    return folder


def has_file(folder: Path, name: str) -> bool:
    """Return whether the folder has an entry of this name, whatever it is; opening checks that it is a file."""
    return os.path.lexists(folder / name)


def checked_file(folder: Path, name: str) -> Path:
    """Return the path of a file of a checkpoint.

    Raises:
        ModelError: The name leads out of the folder, the file links to one outside, or it is not a regular file.
    """
    if not name or name in {".", ".."} or any(char in name for char in "/\\\0"):
        raise ModelError(
            f"{shown(folder)} names the file {shown(name)!r}; the files of a checkpoint stand in its own folder."
        )
    check_inside(folder, folder / name)
    return folder / name


def check_inside(folder: Path, path: Path) -> None:
    """Check a path below a checkpoint's folder: a regular file, which links to none outside.

    Raises:
        ModelError: It is not.
    """
    target = Path(os.path.realpath(path))
    home = Path(os.path.realpath(folder))
    blobs = home.parent.parent / "blobs" if home.parent.name == "snapshots" else None
    if not target.is_relative_to(home) and target.parent != blobs:
        raise ModelError(
            f"{shown(path)} is a link to {shown(target)}, outside of the checkpoint, and is not read. "
            "Copy the file into the folder."
        )
    check_regular(path, ModelError)


def file_names(folder: Path) -> list[str]:
    """Return the names in a folder, sorted.

    Raises:
        ModelError: It cannot be read.
    """
    try:
        return sorted(os.listdir(folder))
    except OSError as error:
        raise ModelError(f"Cannot read {shown(folder)}: {error.strerror or error}.") from error


def check_files(folder: Path, *, code: bool = False) -> None:
    """Check every file that a library may read of a checkpoint; ``code`` includes Python files.

    Raises:
        ModelError: As in :func:`checked_file`.
    """
    suffixes = READ_SUFFIXES | ({".py"} if code else set())
    names = file_names(folder)
    for name in names:
        if Path(name).suffix in suffixes:
            checked_file(folder, name)
    if TEMPLATES in names:
        for name in file_names(folder / TEMPLATES):
            check_inside(folder, folder / TEMPLATES / name)
    if "adapter_config.json" in names:
        # The library would load the model that the adapter names, from wherever that is.
        raise ModelError(
            f"{shown(folder)} holds an adapter (adapter_config.json), which is not loaded. Merge it into its model "
            "where you trust both: model.merge_and_unload().save_pretrained(FOLDER)"
        )


def read_object(folder: Path, name: str, *, huge_integers: bool = False) -> dict[str, Any]:
    """Return the JSON object in a file of the checkpoint.

    Args:
        folder: The checkpoint's folder.
        name: Name of the file.
        huge_integers: Allow integers beyond 64 bits.

    Raises:
        ModelError: There is no such file, or it holds no JSON object.
    """
    path = checked_file(folder, name)
    text = read_text(path, ModelError, max_bytes=MAX_CONFIG_BYTES)
    content = parse_json(text, shown(path), ModelError, huge_integers=huge_integers)
    if not isinstance(content, dict):
        raise ModelError(f"{shown(path)} is not a JSON object.")
    return content


def whole_number(content: Mapping[str, Any], field: str, where: str, least: int, most: int) -> int | None:
    """Return an integer field of a configuration; ``None`` where it is missing or null.

    Args:
        content: The object that has it.
        field: Its name.
        where: File and outer fields, for the message.
        least: Smallest value.
        most: Largest value.

    Raises:
        ModelError: It is something else, or outside of these limits.
    """
    value = content.get(field)
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
        raise ModelError(f"{where}{field} is {brief(value)}; it is a whole number, {least} to {most}.")
    return value


def brief(value: object) -> str:
    """Return a value as a message shows it."""
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:50]}…"
