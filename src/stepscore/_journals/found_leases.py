"""Inspect the leases of other processes: the holder, the term, and whether the lease has expired."""

from __future__ import annotations

import json
import math
import os
import re
import secrets
import socket
import stat
import time
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from stepscore._locks import has_ended
from stepscore._untrusted import shown
from stepscore.errors import RunError

LEASE_S = 60.0
"""Seconds without renewal after which a lease expires."""

MIN_LEASE_S, MAX_LEASE_S = 0.5, 86_400.0
MAX_NUMBER = 999_999_999
"""Highest number of a lease."""

_NAME = re.compile(r"lease\.([0-9]{9})\.json")
_MAX_BYTES = 4096


@dataclass(frozen=True)
class Held:
    """A lease, as read by another process.

    Attributes:
        number: Number of the lease.
        content: Content of the lease file; empty if the file cannot be read.
        age_s: Seconds since the last renewal by the file server's clock, or since the first observation.
        in_future: Whether the lease file's time is in the future, so that the age must be measured by observation.
    """

    number: int
    content: Mapping[str, Any]
    age_s: float
    in_future: bool = False

    @property
    def term_s(self) -> float:
        """Seconds from a renewal until the lease expires."""
        term = self.content.get("term_s")
        known = isinstance(term, int | float) and MIN_LEASE_S <= term <= MAX_LEASE_S
        return float(term) if known and term is not None else LEASE_S

    @property
    def released(self) -> bool:
        """Whether the holder released the lease."""
        return self.content.get("released") == 1

    @property
    def over(self) -> bool:
        """Whether the lease was released or has expired, or its holder has exited."""
        return self.released or self.age_s > self.term_s or self._holder_has_ended()

    @property
    def holder(self) -> str:
        """The holder, for messages."""
        host, pid = self.content.get("host"), self.content.get("pid")
        return f"process {shown(str(pid))} on {shown(str(host))}" if host else "another process"

    @property
    def is_here(self) -> bool:
        """Whether the holder is a process on this machine."""
        return all(self.content.get(name) == value for name, value in place().items())

    def _holder_has_ended(self) -> bool:
        pid = self.content.get("pid")
        return self.is_here and isinstance(pid, int) and has_ended(pid)


class LeaseObserver:
    """Observe the lease of a folder over time; a lease expires if it is not renewed within its term.

    ``seen`` holds the number and text of the lease when last read; both change with each renewal.
    """

    def __init__(self, folder: Path) -> None:
        self._folder, self._since = folder, 0.0
        self.seen: tuple[int, bytes] | None = None

    def look(self) -> Held | None:
        """Return the current or last lease; ``None`` if there was never one."""
        for _ in range(100):
            try:
                return self._look()
            except FileNotFoundError:
                continue  # a successor has just replaced it
            except OSError as error:
                raise RunError(
                    f"Cannot read the lease of {shown(self._folder)}: {error.strerror or error}."
                ) from error
        raise RunError(f"The lease of {shown(self._folder)} keeps changing. Try again.")

    def _look(self) -> Held | None:
        found_numbers = sorted(numbers(self._folder), reverse=True)
        if not found_numbers:
            return None
        for number in found_numbers:
            found = read_lease(self._folder / lease_name(number))
            if found is not None:
                return self._held(found_numbers[0], *found)
        return Held(found_numbers[0], {"released": 1}, math.inf)  # not a lease file, but its number is taken

    def _held(self, number: int, text: bytes, renewed: float) -> Held:
        content = _content(text)
        if content.get("released") == 1:  # the age of a released lease is meaningless
            return Held(number, content, math.inf)
        age_s, now = _server_time(self._folder) - renewed, time.monotonic()
        if self.seen != (number, text):
            self.seen, self._since = (number, text), now
        return Held(number, content, max(age_s, now - self._since), age_s < 0)


def find_lease(folder: Path) -> Held | None:
    """Return the current or last lease of a folder; ``None`` if there was never one."""
    return LeaseObserver(folder).look()


def is_leased(folder: Path, observer: LeaseObserver | None = None) -> bool:
    """Return whether a process holds the lease of a folder now; ``False`` if that is unknown.

    Pass the same ``observer`` each time, so that a lease with a time in the future can expire.
    """
    try:
        held = (observer or LeaseObserver(folder)).look()
    except RunError:
        return False
    return held is not None and not held.over


def numbers(folder: Path) -> Iterator[int]:
    """Return the numbers of a folder's lease files, unordered."""
    try:
        names = os.listdir(folder)
    except OSError as error:
        raise RunError(f"Cannot read {shown(folder)}: {error.strerror or error}.") from error
    return (int(found[1]) for name in names if (found := _NAME.fullmatch(name)))


def lease_name(number: int) -> str:
    """Return the file name of a lease."""
    return f"lease.{number:09d}.json"


def read_lease(path: Path) -> tuple[bytes, float] | None:
    """Return a lease's text and the time of its file; ``None`` for anything but a regular file."""
    if not stat.S_ISREG(path.lstat().st_mode):
        return None
    flags = ("O_NONBLOCK", "O_NOFOLLOW", "O_BINARY")  # a pipe or a link may have replaced the file since
    descriptor = os.open(path, os.O_RDONLY | sum(getattr(os, flag, 0) for flag in flags))
    with open(descriptor, "rb") as file:
        status = os.fstat(descriptor)
        return (file.read(_MAX_BYTES), status.st_mtime) if stat.S_ISREG(status.st_mode) else None


def _content(text: bytes) -> Mapping[str, Any]:
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


def _server_time(folder: Path) -> float:
    """Return the file server's time, in seconds."""
    probe = folder / f".lease.{secrets.token_hex(4)}.tmp"
    try:
        with probe.open("xb") as file:
            file.write(b"?")
            file.flush()
            os.fsync(file.fileno())
            return os.fstat(file.fileno()).st_mtime
    finally:
        with suppress(OSError):
            probe.unlink()


def place() -> dict[str, str]:
    """Return what identifies this machine or container; containers number their processes separately."""
    space = ""
    with suppress(OSError):
        space = os.readlink("/proc/self/ns/pid")
    with suppress(OSError):
        space += Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    return {"host": socket.gethostname(), "space": space}
