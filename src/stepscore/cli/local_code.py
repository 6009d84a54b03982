"""Judges and readers of the user's own, from a file named on the command line: ``--judge mine.py:Brightness``.

The file is imported, so it runs as any script does. That happens because the command line names it and for no other
reason: a run folder, a source or a name in a file never brings it about. The sha256 of the file is part of the
protocol, so that results of another version of it are never mixed with these.
"""

from __future__ import annotations

import hashlib
import importlib.util
import inspect
import sys
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

import typer

from stepscore._local_modules import LOCAL_MODULE_PREFIX
from stepscore.errors import OptionError, UnknownNameError

if TYPE_CHECKING:
    from stepscore.registry import Registry

JUDGE_PARTS = ("name", "version", "models", "options", "judge")
READER_PARTS = ("matches", "read")


def judge_name(text: str) -> str:
    """Return the name of the judge of ``--judge``; one in a file is loaded, and then has one in this process."""
    from stepscore.judges import judge_registry

    return _registered(text, "--judge", judge_registry, JUDGE_PARTS)


def reader_name(context: typer.Context, text: str | None) -> str | None:
    """Return the name of the reader of ``--reader``, as :func:`judge_name` does; a callback of the option."""
    if text is None or context.resilient_parsing:  # a shell that completes a word runs nothing
        return text
    from stepscore.episodes import reader_registry

    return _registered(text, "--reader", reader_registry, READER_PARTS)


def _registered(text: str, flag: str, registry: Registry[Any], parts: Sequence[str]) -> str:
    file, colon, attribute = text.rpartition(":")
    if not colon or not file.endswith(".py"):
        if text.endswith(".py"):
            raise OptionError(f"{flag} {text}: name the class in it, too: {flag} {text}:CLASS")
        return text
    path = Path(file).expanduser()
    try:
        code = path.read_bytes()
    except OSError as error:
        raise OptionError(f"{flag} {text}: cannot read {path}: {error.strerror or error}.") from error
    digest = hashlib.sha256(code).hexdigest()
    found = _class_in(_imported(path, digest), attribute, path)
    missing = [part for part in parts if not hasattr(found, part)]
    if missing:
        raise OptionError(
            f"{flag} {text}: {attribute} has no {', '.join(missing)}; a {registry.kind} has {', '.join(parts)}. "
            "docs/reference/extending.md has an example."
        )
    found.local_code = {"file": path.name, "class": attribute, "sha256": digest}
    name = f"{path.name}:{attribute}"
    registry.replace(name, found)
    return name


def _imported(path: Path, digest: str) -> ModuleType:
    """Import a file as a module of its own; whatever it raises is an OptionError that names the line."""
    name = f"{LOCAL_MODULE_PREFIX}{path.stem}_{digest[:8]}"
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None  # of a name that ends in .py there is always one
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module  # dataclasses and pickle look it up
    try:
        spec.loader.exec_module(module)
    except Exception as error:  # it is anyone's code
        del sys.modules[name]
        line = _line_of(error, path)
        raise OptionError(
            f"{path} cannot be imported: {type(error).__name__}{f' in line {line}' if line else ''}: {error}."
        ) from error
    return module


def _line_of(error: Exception, path: Path) -> int | None:
    if isinstance(error, SyntaxError):
        return error.lineno
    last, step = None, error.__traceback__
    while step is not None:
        if step.tb_frame.f_code.co_filename == str(path):
            last = step.tb_lineno
        step = step.tb_next
    return last


def _class_in(module: ModuleType, attribute: str, path: Path) -> Any:
    own = [name for name, value in vars(module).items() if inspect.isclass(value)]
    defined = [name for name in own if getattr(module, name).__module__ == module.__name__]
    if attribute not in defined:
        raise UnknownNameError("class", attribute, defined, where=str(path))
    return getattr(module, attribute)
