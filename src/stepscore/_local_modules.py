"""Modules of the user's own files (``--judge mine.py:CLASS``), sent to other processes.

Other processes cannot import these modules by name, so their source code is sent along with the data.
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
"""Prefix of the names of these modules."""


@dataclass(frozen=True, slots=True)
class LocalModule:
    """A module loaded from a user's file.

    Attributes:
        name: The module's name in this process.
        path: Path of the file, for messages.
        source: The source code.
        classes: The recorded origin of each class: file, class name and sha256.
    """

    name: str
    path: str
    source: bytes
    classes: dict[str, dict[str, str]]


def local_modules() -> tuple[LocalModule, ...]:
    """Return the modules that this process has imported from users' files."""
    found = []
    for name, module in _local_modules():
        noted = {key: value.local_code for key, value in vars(module).items() if hasattr(value, "local_code")}
        found.append(LocalModule(name, module.__file__, Path(module.__file__).read_bytes(), noted))
    return tuple(found)


def import_local_modules(modules: tuple[LocalModule, ...]) -> None:
    """Import modules sent by another process; exceptions they raise are passed on."""
    for one in modules:
        module = ModuleType(one.name)
        module.__file__ = one.path
        sys.modules[one.name] = module  # dataclasses and pickle look up the module by name
        exec(compile(one.source, one.path, "exec"), vars(module))
        for name, noted in one.classes.items():
            vars(module)[name].local_code = noted


def place_in_local_code(error: BaseException) -> str:
    """Return the innermost line of user code in a traceback, as `` (mine.py, line 7)``; empty if there is none.

    User code means the files given on the command line and the files they import from their folders.
    """
    files = {module.__file__ for name, module in _local_modules()}
    folders = {Path(file).resolve().parent for file in files}
    for frame, line in reversed(list(traceback.walk_tb(error.__traceback__))):
        file = frame.f_code.co_filename
        if file in files or any(_is_beside(Path(file), folder) for folder in folders):
            return f" ({Path(file).name}, line {line})"
    return ""


def _is_beside(file: Path, folder: Path) -> bool:
    """Return whether a file in a folder is user code: part of neither this package nor an installed one."""
    path = file.resolve()
    installed = path.is_relative_to(Path(__file__).parent) or "site-packages" in path.parts
    return path.is_file() and path.is_relative_to(folder) and not installed


def _local_modules() -> Iterator[tuple[str, Any]]:
    for name, module in list(sys.modules.items()):
        if name.startswith(LOCAL_MODULE_PREFIX) and module.__file__ is not None:
            yield name, module
