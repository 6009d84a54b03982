"""``run.json``: what a run folder says about itself."""

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
"""Format of the run folder that this version writes; it reads this one and all before it."""

MAX_BYTES = 1 << 24
"""Longest ``run.json`` that is read; a calibration map in its protocol has thousands of numbers."""

_STRICT = ConfigDict(strict=True)
# Without these a run can still be read; what is missing is unknown.
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


@with_config(_STRICT)
class _Judge(TypedDict):
    name: str
    version: int | str
    options: dict[str, Any]


@with_config(_STRICT)
class _Model(TypedDict):
    name: str


@with_config(_STRICT)
class _Protocol(TypedDict):
    judge: _Judge
    model: NotRequired[_Model | None]
    views: NotRequired[list[str] | None]


@with_config(_STRICT)
class _Last(TypedDict):
    """Counts of the last start."""

    seconds: NotRequired[float]
    judged: NotRequired[int]
    reused: NotRequired[int]
    failed: NotRequired[int]


@with_config(_STRICT)
class _Licence(TypedDict):
    """Licence of a model."""

    name: str
    non_commercial: NotRequired[bool]


@with_config(_STRICT)
class _Info(TypedDict):
    protocol: _Protocol
    source: NotRequired[str]
    reader: NotRequired[str]
    status: NotRequired[str]
    created: NotRequired[str]
    updated: NotRequired[str]
    selected: NotRequired[int]
    versions: NotRequired[dict[str, str]]
    last: NotRequired[_Last]
    licences: NotRequired[dict[str, _Licence]]


_INFO = TypeAdapter(_Info)


def read_info(folder: Path) -> dict[str, Any] | None:
    """Return the content of ``run.json``; ``None`` where there is none."""
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
    except ValidationError as error:
        wrong = first_field_error(error)
        raise _damaged(file, f"{wrong.field}: {wrong.message}") from error
    except (ValueError, RecursionError) as error:
        raise _damaged(file, f"protocol: {error}") from error
    return {**_DEFAULTS, **info}


def write_info(folder: Path, info: Mapping[str, Any]) -> None:
    """Replace ``run.json``; the caller holds the journal's lock."""
    remove_leftovers(folder, ["run.json"])
    write_json(folder / "run.json", info)


def _check_format(info: Mapping[str, Any], file: Path) -> None:
    """Refuse a format that this version does not read; a run.json without one is of the first."""
    written = info.get("format", 1)
    if type(written) is not int or written < 1:
        raise RunError(
            f"{shown(file)} has the invalid format {str(written)[:50]!r}; "
            f"a number from 1 to {FORMAT} was expected."
        )
    if written > FORMAT:
        versions = info.get("versions")
        writer = versions.get("stepscore") if isinstance(versions, Mapping) else None
        needed = f"stepscore {shown(str(writer))}, which wrote it," if writer else "the version that wrote it"
        raise RunError(
            f"{shown(file)} has format {written}; stepscore {__version__} reads formats up to {FORMAT}. "
            f"Install {needed} or a newer one: pip install --upgrade stepscore"
        )


def _damaged(file: Path, why: str) -> RunError:
    return RunError(
        f"{shown(file)} is damaged ({shown(why)}). Put a copy of it there, or remove the folder and judge again."
    )
