"""Files that grow by whole lines: what a killed process wrote is kept, but for a torn last line."""

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

from stepscore._reading import check_regular, shown
from stepscore.errors import RunError

MAX_LINE_BYTES = 1 << 26
"""Longest line that is written or read."""

SYNC_S = 1.0
"""Least seconds between two waits for the disk, which may take tens of milliseconds each."""

_TAIL_BYTES = 1 << 16


class LineFile:
    """A file open for appending lines; opening drops a torn last line.

    Args:
        path: The file; made if it is not there.
        check: Called before anything is written; what it raises stops the writing.
        sync: Wait, about once a second, until what was written is on the disk or the file server, so that a machine
            that fails takes no more with it. A process that is killed takes nothing, with or without.
    """

    def __init__(self, path: Path, *, check: Callable[[], None] = lambda: None, sync: bool = False) -> None:
        self.path, self._check, self._sync = path, check, sync
        self._synced, self._end = -math.inf, 0
        if os.path.lexists(path):
            check_regular(path, RunError)
        try:
            # Unbuffered: what a full disk refused must not be tried again when the file is closed.
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
        """Cut a last line that a killed process did not finish."""
        try:
            self.file.truncate(whole_lines(self.file))
            self._end = self.file.seek(0, os.SEEK_END)
        except OSError as error:
            raise self._cannot_write(error) from error

    def drop_cut_line(self) -> int:
        """Return how many bytes the file has lost since it was written to; cut what is left of a line then."""
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
        """Write a line, and return the offset of its first byte.

        Raises:
            RunError: The disk is full, or failed; nothing before the line is lost.
        """
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
                "make room, then run the same command to continue."
            ) from error
        self._end = before + len(line)
        return before

    def close(self) -> None:
        """Close the file."""
        self.file.close()

    def _cannot_write(self, error: OSError) -> RunError:
        return RunError(f"Cannot write {shown(self.path)}: {error.strerror or error}.")


def whole_lines(file: IO[bytes] | io.FileIO) -> int:
    """Return the length of the file up to its last newline, in bytes; RunError where no line can be that long."""
    size = end = file.seek(0, os.SEEK_END)
    while end > 0:
        if (
            size - end > MAX_LINE_BYTES
        ):  # a file is not looked through to its beginning, which may be far away
            raise RunError(
                f"{shown(file.name)} is damaged (it ends in a line of more than {MAX_LINE_BYTES} bytes). "
                "Put a copy of it there, or remove the folder and judge again."
            )
        start = max(0, end - _TAIL_BYTES)
        file.seek(start)
        at = (file.read(end - start) or b"").rfind(b"\n")
        if at >= 0:
            return start + at + 1
        end = start
    return 0
