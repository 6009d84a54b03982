"""Where a command writes: a path that cannot be written is refused before anything is read, asked or measured."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from stepscore.errors import OptionError

Force = Annotated[bool, typer.Option("--force", help="Overwrite an existing file.")]


def new_folder(context: typer.Context, folder: Path | None) -> Path | None:
    """Return the folder of ``-o``; a callback of the option.

    Raises:
        OptionError: It is a file, or would lie below one.
    """
    if folder is not None and not context.resilient_parsing:  # a shell that completes a word refuses nothing
        _refuse_below_a_file(folder, folder)
    return folder


def new_file(context: typer.Context, file: Path | None) -> Path | None:
    """Return the file of ``-o``; a callback of the option.

    Raises:
        OptionError: It is a folder, or would lie below a file.
    """
    if file is not None and not context.resilient_parsing:
        if _is_folder(file):
            raise OptionError(f"-o {file}: that is a folder. Name the file to write.")
        _refuse_below_a_file(file, file.parent)
    return file


def check_overwrite(file: Path, *, force: bool) -> None:
    """Refuse to overwrite a file that a person may have worked on, unless ``--force`` is given."""
    if file.exists() and not force:
        raise OptionError(f"{file} exists and may hold a person's work. Overwrite it with --force.")


def _is_folder(path: Path) -> bool:
    try:
        return path.is_dir()
    except (OSError, ValueError):  # a name too long, a NUL: writing says so
        return False


def _refuse_below_a_file(path: Path, folder: Path) -> None:
    try:
        there = next((each for each in (folder, *folder.parents) if each.exists()), None)
    except (OSError, ValueError):
        return
    if there is not None and not there.is_dir():
        raise OptionError(f"-o {path}: {there} is a file, not a folder. Name another place.")
