"""``stepscore doctor``: what is installed, which judges and models can run here, and what the others need."""

from __future__ import annotations

import inspect
import platform
from collections.abc import Callable, Sequence
from importlib.metadata import PackageNotFoundError, version
from typing import Any

from rich.markup import escape

from stepscore import __version__
from stepscore._imports import EXTRAS, missing_modules
from stepscore._tables import Column, PrintedTable, TableRow, text_cell
from stepscore.cli.formats import Format, FormatName, Json, chosen_format
from stepscore.cli.tables import out, print_result, table
from stepscore.errors import install_command

CORE = ("numpy", "scipy", "pyarrow", "av", "tokenizers", "safetensors", "pydantic", "starlette")
"""Packages of the core whose versions matter most to a report of a bug."""
NOTES = {
    "embedded": "in the package, for scenes of `stepscore sim` alone",
    "mock": "for tests",
    "openai-api": "asks a server: OpenAI's, with the key in OPENAI_API_KEY, or -M base-url=URL",
    "sglang": "asks a server on this machine, or -M base-url=URL",
    "vllm": "asks a server on this machine, or -M base-url=URL",
}
"""What a backend that can run here still asks for."""

Row = dict[str, Any]


def doctor(output_format: FormatName = None, json: Json = False) -> None:
    """Show what is installed and which judges and models run here.

    Nothing is loaded, downloaded or asked: a model that can run may still lack its weights or its server.
    """
    chosen = chosen_format(output_format, json=json)
    found = examine()
    if chosen is not Format.TABLE:
        print_result(chosen, _tables(found), found)
        return
    installed = ", ".join(f"{name} {number}" for name, number in found["packages"].items())
    out().print(
        f"StepScore {found['stepscore']}, Python {found['python']}, {found['platform']}", soft_wrap=True
    )
    out().print(f"Core: {installed}", soft_wrap=True)
    _print("Extras", found["extras"], "installed")
    _print("Models", found["models"], "runs here")
    _print("Judges", found["judges"], "runs here")


def examine() -> dict[str, Any]:
    """Return the rows of all tables, as JSON values."""
    models = _models()
    return {
        "stepscore": __version__,
        "python": platform.python_version(),
        "platform": platform.platform(),
        "packages": {name: _version(name) or "missing" for name in CORE},
        "extras": [_extra(name) for name in EXTRAS],
        "models": models,
        "judges": _judges({str(row["name"]) for row in models if row["ready"]}),
    }


def _extra(name: str) -> Row:
    missing = missing_modules(name)
    listed = ", ".join(f"{module} {_version(module) or ''}".strip() for module in EXTRAS[name])
    return {
        "name": name,
        "ready": not missing,
        "note": listed if not missing else f"lacks {', '.join(missing)}. {install_command(name)}",
    }


def _models() -> list[Row]:
    from stepscore.models import model_registry

    return [_examined(name, model_registry.get, _model) for name in model_registry.names()]


def _model(name: str, make: Callable[..., object]) -> Row:
    extra = getattr(make, "extra", None)
    if extra is not None and missing_modules(extra):
        return {"name": name, "ready": False, "note": _needs(extra)}
    return {"name": name, "ready": True, "note": NOTES.get(name, "")}


def _needs(extra: str) -> str:
    return f"needs the extra {extra}: pip install 'stepscore[{extra}]'"


def _judges(ready: set[str]) -> list[Row]:
    from stepscore.judges import judge_registry

    def row(name: str, make: Callable[..., object]) -> Row:
        parameters = inspect.signature(make).parameters
        if "model" not in parameters:
            return {
                "name": name,
                "ready": True,
                "note": "" if name != "cascade" else "by the judges it is given",
            }
        own = {"robometer": {"hf"}, "sarm": {"sarm"}}.get(name)
        usable = sorted(ready & own if own is not None else ready - {"sarm", "mock"})
        note = f"--model {', '.join(usable)}" if usable else _needs("local")
        return {"name": name, "ready": bool(usable), "note": note}

    return [_examined(name, judge_registry.get, row) for name in judge_registry.names()]


def _examined(
    name: str, get: Callable[[str], Callable[..., object]], row: Callable[[str, Callable[..., object]], Row]
) -> Row:
    """Return the row of something registered; a package of another's that cannot be imported is one of them."""
    try:
        return row(name, get(name))
    except Exception as error:  # an entry point is anyone's code
        return {"name": name, "ready": False, "note": f"cannot be imported: {type(error).__name__}: {error}"}


def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None


def _tables(found: dict[str, Any]) -> list[PrintedTable]:
    """Return what is found as tables, as a report of a bug shows them."""
    versions = {name: found[name] for name in ("stepscore", "python", "platform")} | found["packages"]
    tables = [_printed("Versions", ("name", "version"), list(versions.items()))]
    for title, ready in (("Extras", "installed"), ("Models", "runs here"), ("Judges", "runs here")):
        rows = [(r["name"], "yes" if r["ready"] else "no", r["note"]) for r in found[title.lower()]]
        tables.append(_printed(title, ("name", ready, "note"), rows))
    return tables


def _printed(title: str, heads: tuple[str, ...], rows: Sequence[tuple[str, ...]]) -> PrintedTable:
    lines = tuple(TableRow(tuple(text_cell(text) for text in row)) for row in rows)
    return PrintedTable(title, tuple(Column(head, left=True) for head in heads), lines)


def _print(title: str, rows: list[Row], ready: str) -> None:
    cells = [[escape(row["name"]), "yes" if row["ready"] else "no", escape(row["note"])] for row in rows]
    listing = table(title, ["name", ready, "note"], cells)
    for column in listing.columns:
        column.justify = "left"
        column.no_wrap = column is not listing.columns[-1]  # of text, notes alone are long
    out().print(listing)
