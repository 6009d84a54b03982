"""Judges, readers and metrics in the user's own files: ``--judge mine.py:Brightness``.

A file is imported, and so run, only because the command line names it: a run folder or a source never causes it.
The sha256 of a judge's or reader's file is part of the protocol.
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
from stepscore.errors import ExitError, OptionError, UnknownNameError, exits_as_errors

if TYPE_CHECKING:
    from stepscore.registry import Registry

JUDGE_PARTS = ("name", "version", "models", "options", "judge")
READER_PARTS = ("matches", "read")
EXAMPLES = "docs/reference/extending.md"


def judge_name(text: str) -> str:
    """Return the name of the judge of ``--judge``; one in a file is loaded and registered first."""
    from stepscore.judges import judge_registry

    return _registered(text, "--judge", judge_registry, JUDGE_PARTS)


def reader_name(context: typer.Context, text: str | None) -> str | None:
    """Return the name of the reader of ``--reader``, as :func:`judge_name` does; a callback of the option."""
    if text is None or context.resilient_parsing:  # a shell that completes a word runs nothing
        return text
    from stepscore.episodes import reader_registry

    return _registered(text, "--reader", reader_registry, READER_PARTS)


def load_metrics(texts: Sequence[str] | None) -> None:
    """Register the metrics of ``--metric`` for this process."""
    from stepscore.metrics import CurveMetric, metric_registry

    for text in texts or ():
        named = _file_and_name(text, "--metric", "NAME")
        if named is None:
            raise OptionError(
                f"--metric must be FILE.py:NAME, got {text!r}. Metrics of installed packages are always measured; "
                "--metrics of `stepscore compare` chooses among them."
            )
        path, attribute = named
        module = _imported(path, _digest(path, f"--metric {text}"))
        metrics = {name: value for name, value in vars(module).items() if isinstance(value, CurveMetric)}
        if attribute not in metrics:
            raise UnknownNameError("metric", attribute, metrics, where=str(path), hint=f"See {EXAMPLES}.")
        found = metrics[attribute]
        # The file may register it, as a script does.
        if not any(known is found for _, known in metric_registry):
            metric_registry.replace(f"{path.name}:{attribute}", found)


def _registered(text: str, flag: str, registry: Registry[Any], parts: Sequence[str]) -> str:
    named = _file_and_name(text, flag, "CLASS")
    if named is None:
        return text
    path, attribute = named
    digest = _digest(path, f"{flag} {text}")
    found = _class_in(_imported(path, digest), attribute, path)
    missing = [part for part in parts if not hasattr(found, part)]
    if missing:
        raise OptionError(
            f"{flag} {text}: {attribute} has no {', '.join(missing)}; a {registry.kind} has {', '.join(parts)}. "
            f"{EXAMPLES} has an example."
        )
    found.local_code = {"file": path.name, "class": attribute, "sha256": digest}
    name = f"{path.name}:{attribute}"
    registry.replace(name, found)
    return name


def _file_and_name(text: str, flag: str, what: str) -> tuple[Path, str] | None:
    """Return file and name of ``FILE.py:NAME``; ``None`` if the text names no file."""
    file, colon, attribute = text.rpartition(":")
    if colon and file.endswith(".py"):
        return Path(file).expanduser(), attribute
    if text.endswith(".py"):
        kind = "class" if what == "CLASS" else "metric"
        raise OptionError(f"{flag} {text}: name the {kind} in it, too: {flag} {text}:{what}")
    return None


def _digest(path: Path, given: str) -> str:
    try:
        return hashlib.sha256(path.read_bytes()).hexdigest()
    except OSError as error:
        raise OptionError(f"{given}: cannot read {path}: {error.strerror or error}.") from error


def _imported(path: Path, digest: str) -> ModuleType:
    """Import a file as a separate module; an exception in it becomes an OptionError with the line."""
    name = f"{LOCAL_MODULE_PREFIX}{path.stem}_{digest[:8]}"
    known = sys.modules.get(name)
    if known is not None and known.__file__ == str(path):
        return known  # one file may hold judge and reader; a second import would make its classes again
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None  # of a name that ends in .py there is always one
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module  # dataclasses and pickle look it up
    try:
        with exits_as_errors():
            spec.loader.exec_module(module)
    except ExitError as error:
        del sys.modules[name]
        raise OptionError(f"{path} cannot be imported: {error}") from error
    except Exception as error:  # third-party code may raise anything
        del sys.modules[name]
        line = _line_of(error, path)
        raise OptionError(
            f"{path} cannot be imported: {type(error).__name__}{f' in line {line}' if line else ''}: "
            f"{str(error).rstrip('.')}."
        ) from error
    return module


def _line_of(error: Exception, path: Path) -> int | None:
    if isinstance(error, SyntaxError):
        return error.lineno
    last, step = None, error.__traceback__
    name = str(path.absolute())  # the loader's, also of a relative path
    while step is not None:
        if step.tb_frame.f_code.co_filename == name:
            last = step.tb_lineno
        step = step.tb_next
    return last


def _class_in(module: ModuleType, attribute: str, path: Path) -> Any:
    own = [name for name, value in vars(module).items() if inspect.isclass(value)]
    defined = [name for name in own if getattr(module, name).__module__ == module.__name__]
    if attribute not in defined:
        raise UnknownNameError("class", attribute, defined, where=str(path))
    return getattr(module, attribute)
