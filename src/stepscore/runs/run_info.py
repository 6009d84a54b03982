"""``run.json``: the description of a run in its folder."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NotRequired

from pydantic import ConfigDict, TypeAdapter, ValidationError, with_config
from typing_extensions import TypedDict

from stepscore import __version__
from stepscore._files import remove_leftovers, write_json
from stepscore._untrusted import read_json, shown
from stepscore.errors import RunError, first_field_error
from stepscore.runs.protocol import Protocol

FORMAT = 1
"""Format of the run folder that this version writes. It reads this one and all earlier ones."""

MAX_BYTES = 1 << 24
"""Longest ``run.json`` that is read; a calibration map in its protocol has thousands of numbers."""

# A run can be read without these.
_DEFAULTS: Mapping[str, Any] = {
    "source": "",
    "reader": "",
    "status": "unknown",
    "created": "",
    "updated": "",
    "selected": 0,
    "versions": {},
    "last": {},
}


class _Judge(TypedDict):
    name: str
    version: int | str
    options: dict[str, Any]


class _Model(TypedDict):
    name: str


class _Protocol(TypedDict):
    judge: _Judge
    model: NotRequired[_Model | None]
    views: NotRequired[list[str] | None]


class _Last(TypedDict, total=False):
    """Counts of the last start."""

    seconds: float
    judged: int
    reused: int
    failed: int


class _Licence(TypedDict):
    name: str
    non_commercial: NotRequired[bool]


@with_config(ConfigDict(strict=True))
class _Info(TypedDict, total=False):
    protocol: _Protocol
    source: str
    reader: str
    status: str
    created: str
    updated: str
    selected: int
    versions: dict[str, str]
    last: _Last
    licences: dict[str, _Licence]


_INFO = TypeAdapter(_Info)


def read_info(folder: Path) -> dict[str, Any] | None:
    """Return the content of ``run.json``; ``None`` if there is no such file."""
    file = folder / "run.json"
    if not os.path.lexists(file):
        return None
    info = read_json(file, RunError, max_bytes=MAX_BYTES)
    if not isinstance(info, dict) or "protocol" not in info:
        raise RunError(f"{shown(file)} is not a StepScore run: it has no protocol.")
    _check_format(info, file)
    try:
        _INFO.validate_python(info)
        Protocol(info["protocol"]).hash  # noqa: B018 (NaN and half of a surrogate pair have none)
    except (ValueError, RecursionError) as error:
        wrong = first_field_error(error) if isinstance(error, ValidationError) else None
        why = f"protocol: {error}" if wrong is None else f"{wrong.field}: {wrong.message}"
        raise RunError(
            f"{shown(file)} is damaged ({shown(why)}). Restore a copy, or remove the folder and judge again."
        ) from error
    return {**_DEFAULTS, **info}


def write_info(folder: Path, info: Mapping[str, Any]) -> None:
    """Replace ``run.json``, under the journal's lock."""
    remove_leftovers(folder, ["run.json"])
    write_json(folder / "run.json", info)


def make_folder(folder: Path) -> None:
    """Make a run folder, unless it exists."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise RunError(f"Cannot make {shown(folder)}: {error.strerror or error}.") from error


def _check_format(info: Mapping[str, Any], file: Path) -> None:
    """Refuse a format that this version cannot read."""
    written = info.get("format", 1)
    if type(written) is not int or written < 1:
        raise RunError(f"{shown(file)} has the invalid format {str(written)[:50]!r}, not 1 to {FORMAT}.")
    if written > FORMAT:
        versions = info.get("versions")
        writer = versions.get("stepscore") if isinstance(versions, Mapping) else None
        needed = f"stepscore {shown(str(writer))}, which wrote it," if writer else "the version that wrote it"
        raise RunError(
            f"{shown(file)} has format {written}; stepscore {__version__} reads formats up to {FORMAT}. "
            f"Install {needed} or a newer one: pip install --upgrade stepscore"
        )
