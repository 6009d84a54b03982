"""Files that grow by whole lines: a killed process loses at most a torn last line."""

from __future__ import annotations

import io
import math
import os
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import IO

from stepscore._untrusted import check_regular, shown
from stepscore.errors import RunError

MAX_LINE_BYTES = 1 << 26
"""Longest line to write or read."""

SYNC_S = 1.0
"""Least seconds between two ``fsync`` calls, which may take tens of milliseconds each."""

_TAIL_BYTES = 1 << 16


class LineFile:
    """A file open for appending lines.

    Args:
        path: The file, created if missing.
        check: Called before each write; raises if this process must not write.
        sync: Call ``fsync`` about once a second, so that a failing machine loses no more than that. A killed process
            loses nothing either way.
    """

    def __init__(self, path: Path, *, check: Callable[[], None] = lambda: None, sync: bool = False) -> None:
        self.path, self._check, self._sync = path, check, sync
        self._synced, self._end = -math.inf, 0
        if os.path.lexists(path):
            check_regular(path, RunError)
        try:
            # Unbuffered: closing the file must not retry what a full disk refused.
            self.file = io.FileIO(path, "a+b")
        except OSError as error:
            raise self._cannot_write(error) from error

    def __enter__(self) -> LineFile:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def drop_torn_line(self) -> None:
        """Cut off a last line that a killed process did not finish."""
        try:
            self.file.truncate(whole_lines(self.file))
            self._end = self.file.seek(0, os.SEEK_END)
        except OSError as error:
            raise self._cannot_write(error) from error

    def drop_cut_line(self) -> int:
        """Return the bytes that something else has cut off since the last write, after dropping a torn line."""
        before, size = self._end, os.fstat(self.file.fileno()).st_size
        if size < before:
            self.drop_torn_line()
        return max(0, before - size)

    def clear(self) -> None:
        """Drop every line."""
        try:
            self.file.truncate(0)
            self._end = 0
        except OSError as error:
            raise self._cannot_write(error) from error

    def append(self, line: bytes) -> int:
        """Write a line and return its byte offset; raise RunError if the disk is full or failed."""
        self._check()
        before = self.file.seek(0, os.SEEK_END)
        try:
            rest = memoryview(line)
            while rest:
                rest = rest[self.file.write(rest) :]
            if self._sync and time.monotonic() - self._synced >= SYNC_S:
                os.fsync(self.file.fileno())
                self._synced = time.monotonic()
        except OSError as error:
            with suppress(OSError):
                self.file.truncate(before)
            raise RunError(
                f"Cannot write {shown(self.path)}: {error.strerror or error}. Finished episodes are safe: "
                "free some space, then rerun the command to continue."
            ) from error
        self._end = before + len(line)
        return before

    def close(self) -> None:
        """Close the file."""
        self.file.close()

    def _cannot_write(self, error: OSError) -> RunError:
        return RunError(f"Cannot write {shown(self.path)}: {error.strerror or error}.")


def whole_lines(file: IO[bytes] | io.FileIO) -> int:
    """Return the length of the file up to its last newline, in bytes; raise RunError for an overlong last line."""
    size = end = file.seek(0, os.SEEK_END)
    while end > 0:
        # Without this limit a file without newlines would be read back to its beginning.
        if size - end > MAX_LINE_BYTES:
            raise RunError(
                f"{shown(file.name)} is damaged (it ends in a line of more than {MAX_LINE_BYTES} bytes). "
                "Restore a copy, or remove the folder and judge again."
            )
        start = max(0, end - _TAIL_BYTES)
        file.seek(start)
        at = (file.read(end - start) or b"").rfind(b"\n")
        if at >= 0:
            return start + at + 1
        end = start
    return 0
