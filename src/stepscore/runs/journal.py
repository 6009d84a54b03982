"""The journal: one flushed line per finished episode, from which all tables of a run are made.

Killing the process at any time loses at most the episodes in flight: a torn last line is dropped when the
journal is opened again. One process writes at a time; a lock, released by the system when the process dies,
keeps a second one out.
"""

from __future__ import annotations

import hashlib
import json
import os
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from types import TracebackType
from typing import IO, Any

from stepscore.errors import RunError
from stepscore.runs.protocol import canonical_json


@dataclass(frozen=True, slots=True)
class Entry:
    """An episode's latest lines in the journal, and what decides whether it is judged again.

    Attributes:
        judged_at: Byte offset of its latest judgement.
        described_at: Byte offset of its latest description.
        key: Hash of the judge's input, from :func:`input_key`.
        description: Hash of the description, so that changed labels are noticed.
        failed: Whether the judgement is an error.
    """

    judged_at: int
    described_at: int
    key: str
    description: str
    failed: bool


class Journal:
    """A run's journal, open for appending.

    Use as a context manager; entering takes the lock and drops a torn last line.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._file: IO[bytes] | None = None

    def __enter__(self) -> Journal:
        try:
            file = self.path.open("a+b")
        except OSError as error:
            raise RunError(f"Cannot write {self.path}: {error.strerror or error}.") from error
        try:
            _lock(file)
        except OSError:
            file.close()
            raise RunError(
                f"Another process is writing to {self.path.parent}. "
                "Wait for it, or choose another folder: -o RUN"
            ) from None
        file.truncate(_whole_lines(file))
        file.seek(0, os.SEEK_END)
        self._file = file
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._file is not None:
            self._file.close()
            self._file = None

    def append(self, record: dict[str, Any]) -> None:
        """Write one line and flush it. A full disk is a RunError; nothing before it is lost."""
        assert self._file is not None, "the journal is not open"
        text = json.dumps(record, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
        # A server can send half of a surrogate pair, which no UTF-8 file can hold.
        line = text.encode("utf-8", "replace") + b"\n"
        try:
            self._file.write(line)
            self._file.flush()
        except OSError as error:
            raise RunError(
                f"Cannot write {self.path}: {error.strerror or error}. Finished episodes are safe: "
                "make room, then run the same command to continue."
            ) from error


def read_line(file: IO[bytes], offset: int) -> dict[str, Any]:
    """Return the record at a byte offset."""
    file.seek(offset)
    record: dict[str, Any] = json.loads(file.readline())
    return record


def read_lines(path: Path) -> Iterator[tuple[int, dict[str, Any]]]:
    """Iterate over byte offset and record of every whole line; a torn last line is left out."""
    offset = 0
    with path.open("rb") as file:
        for number, line in enumerate(file, start=1):
            if not line.endswith(b"\n"):
                return
            try:
                record = json.loads(line)
            except ValueError as error:
                raise RunError(
                    f"{path}, line {number} is damaged ({error}). "
                    "Delete that line to judge its episode again."
                ) from error
            yield offset, record
            offset += len(line)


def index(path: Path) -> dict[str, Entry]:
    """Return the latest state of every episode in a journal, by episode id; empty where there is no journal."""
    entries: dict[str, Entry] = {}
    if not path.is_file():
        return entries
    for offset, record in read_lines(path):
        name, description = record["id"], description_hash(record["episode"])
        if "judgement" in record:
            failed = record["judgement"]["error"] is not None
            entries[name] = Entry(offset, offset, record["key"], description, failed)
        elif name in entries:
            entries[name] = replace(entries[name], described_at=offset, description=description)
        else:
            raise RunError(f"{path}: episode {name} is described before it was judged.")
    return entries


def description_hash(row: Mapping[str, Any]) -> str:
    """Return a short hash of an episode's row."""
    return hashlib.sha256(canonical_json(row).encode()).hexdigest()[:16]


def _whole_lines(file: IO[bytes]) -> int:
    """Return the length of the file up to its last newline, in bytes."""
    size = file.seek(0, os.SEEK_END)
    chunk = 1 << 16
    end = size
    while end > 0:
        start = max(0, end - chunk)
        file.seek(start)
        at = file.read(end - start).rfind(b"\n")
        if at >= 0:
            return start + at + 1
        end = start
    return 0


if sys.platform == "win32":
    import msvcrt

    def _lock(file: IO[bytes]) -> None:
        # A byte far past the end: Windows locks are mandatory, and readers must not be kept out.
        file.seek(1 << 40)
        msvcrt.locking(file.fileno(), msvcrt.LK_NBLCK, 1)

else:
    import fcntl

    def _lock(file: IO[bytes]) -> None:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
