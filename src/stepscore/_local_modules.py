"""Modules of the user's own files (``--judge mine.py:CLASS``), taken along to other processes.

No other process can import them by name, so their source goes with what is sent there.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType

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
    for name, module in list(sys.modules.items()):
        if name.startswith(LOCAL_MODULE_PREFIX) and module.__file__ is not None:
            noted = {
                key: value.local_code for key, value in vars(module).items() if hasattr(value, "local_code")
            }
            found.append(LocalModule(name, module.__file__, Path(module.__file__).read_bytes(), noted))
    return tuple(found)


def import_local_modules(modules: tuple[LocalModule, ...]) -> None:
    """Import modules that another process had; what they raise is raised."""
    for one in modules:
        module = ModuleType(one.name)
        module.__file__ = one.path
        sys.modules[one.name] = module  # dataclasses and pickle look it up
        exec(compile(one.source, one.path, "exec"), vars(module))
        for name, noted in one.classes.items():
            vars(module)[name].local_code = noted
