"""Modules of the user's own files (``--judge mine.py:CLASS``), sent to other processes.

No other process can import them by name, so their source goes with what is sent there.
"""

from __future__ import annotations

import sys
import traceback
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

LOCAL_MODULE_PREFIX = "_stepscore_local_"
"""Beginning of the names of such modules."""


@dataclass(frozen=True, slots=True)
class LocalModule:
    """A module of a user's file.

    Attributes:
        name: Its name in this process.
        path: The file, for messages.
        source: Its text.
        classes: What was noted with its classes: file, class and sha256.
    """

    name: str
    path: str
    source: bytes
    classes: dict[str, dict[str, str]]


def local_modules() -> tuple[LocalModule, ...]:
    """Return the modules of users' files that this process has imported."""
    found = []
    for name, module in _local_modules():
        noted = {key: value.local_code for key, value in vars(module).items() if hasattr(value, "local_code")}
        found.append(LocalModule(name, module.__file__, Path(module.__file__).read_bytes(), noted))
    return tuple(found)


def import_local_modules(modules: tuple[LocalModule, ...]) -> None:
    """Import the modules of another process; their exceptions pass through."""
    for one in modules:
        module = ModuleType(one.name)
        module.__file__ = one.path
        sys.modules[one.name] = module  # dataclasses and pickle look it up
        exec(compile(one.source, one.path, "exec"), vars(module))
        for name, noted in one.classes.items():
            vars(module)[name].local_code = noted


def place_in_local_code(error: BaseException) -> str:
    """Return the innermost line of the user's own files behind an error, `` (mine.py, line 7)``; empty for others.

    These are the files named on the command line, and what they import from their folders.
    """
    files = {module.__file__ for name, module in _local_modules()}
    folders = {Path(file).resolve().parent for file in files}
    for frame, line in reversed(list(traceback.walk_tb(error.__traceback__))):
        file = frame.f_code.co_filename
        if file in files or any(_is_beside(Path(file), folder) for folder in folders):
            return f" ({Path(file).name}, line {line})"
    return ""


def _is_beside(file: Path, folder: Path) -> bool:
    """Return whether a file is one of the user's own in a folder: neither this package's nor an installed one."""
    path = file.resolve()
    installed = path.is_relative_to(Path(__file__).parent) or "site-packages" in path.parts
    return path.is_file() and path.is_relative_to(folder) and not installed


def _local_modules() -> Iterator[tuple[str, Any]]:
    for name, module in list(sys.modules.items()):
        if name.startswith(LOCAL_MODULE_PREFIX) and module.__file__ is not None:
            yield name, module
