"""One walk over a folder that lists its files without opening any."""

from __future__ import annotations

import os
import stat
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from stepscore._untrusted import kind_of_file
from stepscore.episodes.naming import safe_name
from stepscore.episodes.source import Problem


@dataclass(frozen=True, slots=True)
class Folder:
    """One folder of a source.

    Attributes:
        path: Path of the folder.
        parts: Names of the folders from the source down to it; empty for the source itself.
        files: Names of its files that are neither hidden nor empty, sorted.
    """

    path: Path
    parts: tuple[str, ...]
    files: tuple[str, ...]

    def id_of(self, name: str) -> str:
        """Return the POSIX path of ``name`` in this folder, relative to the source, in safe characters."""
        return safe_name("/".join((*self.parts, name)))


def scan(root: Path, wanted: Sequence[str], *, deep: bool = True) -> tuple[list[Folder], list[Problem]]:
    """List every folder at and below ``root``, parents first, and what was left out.

    Hidden folders are not entered. A folder reached twice, by a link, is entered once, so that a loop of
    links ends. Hidden and empty files are problems where their name ends in one of ``wanted``. Without
    ``deep`` only ``root`` itself is listed.
    """
    folders: list[Folder] = []
    problems: list[Problem] = []
    suffixes = tuple(wanted)
    listed: set[tuple[int, int]] = set()
    waiting: list[tuple[Path, tuple[str, ...]]] = [(root, ())]
    while waiting:
        path, parts = waiting.pop()
        try:
            status = path.stat()
            entries = sorted(os.scandir(path), key=lambda entry: entry.name)
        except OSError as error:
            problems.append(Problem("/".join(parts) or str(root), f"cannot be listed: {error.strerror}"))
            continue
        # Windows gives every folder inode 0 through some drives; there a link cannot be detected, nor loop.
        if status.st_ino and (status.st_dev, status.st_ino) in listed:
            problems.append(Problem("/".join(parts), "a link to a folder that is listed already"))
            continue
        listed.add((status.st_dev, status.st_ino))
        files: list[str] = []
        below: list[tuple[Path, tuple[str, ...]]] = []
        for entry in entries:
            if _is_folder(entry):
                if not entry.name.startswith("."):
                    below.append((path / entry.name, (*parts, entry.name)))
            elif not entry.name.lower().endswith(suffixes):
                files.append(entry.name)
            elif why := _unusable(entry):
                problems.append(Problem("/".join((*parts, entry.name)), why))
            else:
                files.append(entry.name)
        folders.append(Folder(path, parts, tuple(files)))
        waiting.extend(reversed(below) if deep else ())
    return folders, problems


def first_file(root: Path, fits: Callable[[str], bool], depth: int, most: int = 64) -> Path | None:
    """Return a file whose name ``fits``, in ``root`` or up to ``depth`` folders below it; ``None`` if there is none.

    Not an exhaustive search: it lists the first ``most`` folders only, and never raises.
    """
    waiting = deque([(root, 0)])
    for _ in range(most):
        if not waiting:
            break
        path, level = waiting.popleft()
        try:
            entries = sorted(os.scandir(path), key=lambda entry: entry.name)
        except OSError:
            continue
        visible = [entry for entry in entries if not entry.name.startswith(".")]
        name = next((entry.name for entry in visible if fits(entry.name)), None)
        if name is not None:
            return path / name
        if level < depth:
            waiting.extend((path / entry.name, level + 1) for entry in visible if _is_folder(entry))
    return None


def _is_folder(entry: os.DirEntry[str]) -> bool:
    try:
        return entry.is_dir()
    except OSError:  # a link that points to itself
        return False


def _unusable(entry: os.DirEntry[str]) -> str:
    if entry.name.startswith("._"):
        return "a macOS resource fork, not the file itself"
    if entry.name.startswith("."):
        return "a hidden file"
    try:
        status = entry.stat()
    except OSError as error:
        return f"cannot be read: {error.strerror}"
    if not stat.S_ISREG(status.st_mode):
        return f"{kind_of_file(status.st_mode)}, not a file"
    return "an empty file (0 bytes)" if status.st_size == 0 else ""
