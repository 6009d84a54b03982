"""Where the parts of a page are kept: scripts next to it, which load from disk, or files that a server serves."""

from __future__ import annotations

import json
import re
import shutil
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Protocol

from stepscore._files import write_text

MAX_BYTES = 15_000_000
"""Data, about, up to which a page is one file."""

NAME = re.compile(r"[a-z0-9-]{1,80}", re.ASCII)
_BYTES_PER_POINT = (2 + 4) * 4 / 3
_BYTES_PER_CHANNEL = 2 * 4 / 3
_BYTES_PER_VALUE = 8 * 4 / 3
_BYTES_PER_EPISODE = 150


class Parts(Protocol):
    """A place for the parts of a page."""

    def write(self, name: str, value: Mapping[str, object]) -> str:
        """Keep a part; return the name by which the page asks for it."""


class FileParts:
    """Scripts in a folder next to the page, emptied first: a page on disk may load scripts, and nothing else."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._begun = False

    def write(self, name: str, value: Mapping[str, object]) -> str:
        """Write ``NAME.js``, which hands its data to the page as one string of JSON."""
        if not self._begun:
            remove_parts(self._folder)
            self._begun = True
        text = json.dumps(_json(value))
        write_text(
            self._folder / f"{name}.js",
            f'stepscorePart("{name}",{text});\n',
            errors="replace",
            make_folder=True,
        )
        return name


class ServedParts:
    """Files in the server's own folder, of the current page and the one before."""

    def __init__(self) -> None:
        self._temporary = tempfile.TemporaryDirectory(prefix="stepscore-page-")
        self._build = 0

    def begin(self) -> None:
        """Begin the parts of a newer page; those of the one before the last are removed."""
        self._build += 1
        shutil.rmtree(self._at(self._build - 2), ignore_errors=True)

    def write(self, name: str, value: Mapping[str, object]) -> str:
        """Keep a part under a separate name for every build."""
        write_text(self._at(self._build) / f"{name}.json", _json(value), errors="replace", make_folder=True)
        return f"{self._build}-{name}"

    def read(self, name: str) -> bytes | None:
        """Return a part as JSON; ``None`` if there is none."""
        build, _, rest = name.partition("-")
        if not NAME.fullmatch(name) or not build.isdigit():
            return None
        try:
            return (self._at(int(build)) / f"{rest}.json").read_bytes()
        except OSError:
            return None

    def _at(self, build: int) -> Path:
        return Path(self._temporary.name) / str(build)


def parts_folder(page: Path) -> Path:
    """Return the folder of a page's parts: ``page-data`` beside ``page.html``."""
    return page.parent / f"{page.stem}-data"


def remove_parts(folder: Path) -> None:
    """Remove the parts of an earlier page, and their folder if nothing else is in it."""
    if not folder.is_dir():
        return
    for path in folder.glob("*.js"):
        if NAME.fullmatch(path.stem):
            path.unlink()
    if not any(folder.iterdir()):
        folder.rmdir()


def data_bytes(points: int, channels: int, episodes: int, metrics: int) -> float:
    """Return the approximate bytes that the data of one run take on a page."""
    return points * (_BYTES_PER_POINT + _BYTES_PER_CHANNEL * channels) + episodes * (
        _BYTES_PER_EPISODE + _BYTES_PER_VALUE * metrics
    )


def _json(value: Mapping[str, object]) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
