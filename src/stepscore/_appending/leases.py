"""Leases: a folder belongs to one process for a while, also where the file system has no locks (NFS, and others).

The lease is a file, ``lease.000000003.json``: who holds it, for how long it holds unless it is renewed, and a random
token. Its holder renews it from a thread. It ends when it is given back, when its holder is a process of this machine
that has ended, or when it was not renewed for its term. Ages are differences of two times that the file server wrote
(of the lease, and of a file made to ask for the time), so that no machine's clock matters.

Whoever takes over makes the file with the next number, which the file system allows once: of two that try, one wins.
The earlier file is removed after that, and whoever finds its own lease gone, or one with a higher number, has lost it
and writes nothing more. What it may be writing just then goes into a file that is no longer there:
:func:`new_file` gives the new holder a copy of each journal under the same name.
"""

from __future__ import annotations

import json
import math
import os
import re
import secrets
import shutil
import socket
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from stepscore._appending.line_files import whole_lines
from stepscore._files import atomic_path, create_once
from stepscore._locks import has_ended
from stepscore._reading import shown
from stepscore.errors import LeaseLostError, RunError

LEASE_S = 60.0
"""Seconds after which a lease ends that is not renewed."""

MIN_LEASE_S, MAX_LEASE_S = 0.5, 86_400.0
RENEWALS = 6
"""How often a lease is renewed in its term."""

_NAME = re.compile(r"lease\.([0-9]{9})\.json")
_MAX_BYTES = 4096


@dataclass(frozen=True)
class Held:
    """A lease as another process finds it.

    Attributes:
        number: Its number.
        content: What its file says; empty where it cannot be read.
        age_s: Seconds since it was renewed, by the file server's clock.
    """

    number: int
    content: Mapping[str, Any]
    age_s: float

    @property
    def term_s(self) -> float:
        """Seconds for which it holds after a renewal."""
        term = self.content.get("term_s")
        known = isinstance(term, int | float) and MIN_LEASE_S <= term <= MAX_LEASE_S
        return float(term) if known and term is not None else LEASE_S

    @property
    def released(self) -> bool:
        """Whether its holder gave it back."""
        return self.content.get("released") == 1

    @property
    def over(self) -> bool:
        """Whether it holds no more."""
        return self.released or self.age_s > self.term_s or self._holder_has_ended()

    @property
    def holder(self) -> str:
        """Its holder, for a message."""
        host, pid = self.content.get("host"), self.content.get("pid")
        return f"process {shown(str(pid))} on {shown(str(host))}" if host else "another process"

    def _holder_has_ended(self) -> bool:
        pid = self.content.get("pid")
        here = all(self.content.get(name) == value for name, value in _place().items())
        return here and isinstance(pid, int) and has_ended(pid)


class Lease:
    """A lease that this process holds; from :func:`take_lease`.

    Attributes:
        number: Its number; the highest of the folder holds.
        taken_over: Whether the one before was not given back: its holder died or stalled.
    """

    def __init__(self, folder: Path, number: int, content: Mapping[str, Any], *, taken_over: bool) -> None:
        self.number, self.taken_over = number, taken_over
        self._folder, self._content = folder, dict(content)
        self._path = folder / _name(number)
        self._file = self._path.open("r+b", buffering=0)
        self._stop = threading.Event()
        self._renewing = threading.Thread(target=self._renew, name="stepscore-lease", daemon=True)
        self._renewing.start()

    def check(self) -> None:
        """Raise LeaseLostError where another process has taken over."""
        try:
            # Opened anew each time, which makes an NFS client ask the server.
            found = self._path.read_bytes()
            lost = str(self._content["token"]).encode() not in found
        except (FileNotFoundError, PermissionError):
            lost = True
        except OSError as error:
            if error.errno != getattr(os, "ESTALE", None) and error.strerror != "Stale file handle":
                raise RunError(f"Cannot read {shown(self._path)}: {error.strerror or error}.") from error
            lost = True
        if lost or (self._folder / _name(self.number + 1)).exists():
            raise LeaseLostError(
                f"Another process has taken over {shown(self._folder)}, since this one did not renew its lease for "
                f"{self._content['term_s']:g} s. Nothing more is written here."
            )

    def holds(self) -> bool:
        """Return whether it is still this process's."""
        try:
            self.check()
        except RunError:
            return False
        return True

    def release(self) -> None:
        """Give it back; the file stays, so that numbers only grow."""
        self._stop.set()
        self._renewing.join()
        with suppress(OSError):
            self._content["released"] = 1
            self._write()
        self._file.close()

    def _renew(self) -> None:
        while not self._stop.wait(self._content["term_s"] / RENEWALS):
            with suppress(OSError):  # the next try may do; a lease that was not renewed ends
                self._content["renewed"] = f"{int(self._content['renewed']) + 1:012d}"
                self._write()

    def _write(self) -> None:
        """Write to the file that was opened at first, never to one that another process put in its place."""
        self._file.seek(0)
        self._file.write(_text(self._content).encode())
        os.fsync(self._file.fileno())


def take_lease(
    folder: Path, term_s: float = LEASE_S, *, on_wait: Callable[[str], None] = lambda line: None
) -> Lease:
    """Return the lease of a folder; waits for one that is not renewed to end.

    Args:
        folder: The folder, which is there.
        term_s: Seconds after which it ends unless it is renewed.
        on_wait: Called with a line before a wait.

    Raises:
        RunError: Another process holds it and renews it, or the folder cannot be written.
    """
    first: Held | None = None
    while True:
        held = find_lease(folder)
        if held is None or held.over:
            lease = _try_to_take(folder, held, term_s)
            if lease is not None:
                return lease
            first = None
            continue
        renewed = first is not None and (
            (first.number, first.content.get("renewed")) != (held.number, held.content.get("renewed"))
        )
        if renewed or _is_here(held):
            raise RunError(
                f"Another process is writing to {shown(folder)}: {held.holder}. "
                "Wait for it, or choose another folder: -o RUN"
            )
        if first is None:
            left = held.term_s - held.age_s
            on_wait(
                f"{shown(folder)} is leased by {held.holder}. If that has died, the lease ends in {left:.0f} s."
            )
            first = held
        time.sleep(min(1.0, held.term_s / 20))


def find_lease(folder: Path) -> Held | None:
    """Return the lease of a folder that holds, or held last; ``None`` where there was never one."""
    for _ in range(100):
        number = max(_numbers(folder), default=None)
        if number is None:
            return None
        try:
            with (folder / _name(number)).open("rb") as file:
                renewed, content = os.fstat(file.fileno()).st_mtime, _content(file.read(_MAX_BYTES))
            if content.get("released") == 1:  # and its age means nothing
                return Held(number, content, math.inf)
            return Held(number, content, _server_time(folder) - renewed)
        except FileNotFoundError:
            continue  # its successor was just made
        except OSError as error:
            raise RunError(f"Cannot read the lease of {shown(folder)}: {error.strerror or error}.") from error
    raise RunError(f"The lease of {shown(folder)} changes all the time. Try again.")


def is_leased(folder: Path) -> bool:
    """Return whether some process holds the lease of a folder now; where that cannot be known, not."""
    try:
        held = find_lease(folder)
    except RunError:
        return False
    return held is not None and not held.over


def new_file(path: Path) -> None:
    """Put a copy of a file's whole lines in its place: whoever has it open writes to one that is no longer there."""
    if not path.is_file():
        return
    try:
        with atomic_path(path) as temporary, path.open("rb") as old, temporary.open("xb") as new:
            left = whole_lines(old)
            old.seek(0)
            while left and (block := old.read(min(left, 1 << 20))):
                new.write(block)
                left -= len(block)
            new.flush()
            os.fsync(new.fileno())
            shutil.copymode(path, temporary)
    except OSError as error:
        raise RunError(f"Cannot write {shown(path)}: {error.strerror or error}.") from error


def _try_to_take(folder: Path, before: Held | None, term_s: float) -> Lease | None:
    """Make the file with the next number; return the lease where that was this process, else ``None``."""
    number = 1 if before is None else before.number + 1
    content: dict[str, Any] = {
        **_place(),
        "pid": os.getpid(),
        "token": secrets.token_hex(16),
        "term_s": term_s,
        "renewed": f"{0:012d}",
        "released": 0,
    }
    if not create_once(folder / _name(number), _text(content)):
        return None
    if max(_numbers(folder), default=0) > number:
        # What was found before is long past: others have come and gone meanwhile.
        with suppress(OSError):
            (folder / _name(number)).unlink()
        return None
    for earlier in [each for each in _numbers(folder) if each < number]:
        with suppress(OSError):
            (folder / _name(earlier)).unlink()
    return Lease(folder, number, content, taken_over=before is not None and not before.released)


def _numbers(folder: Path) -> Iterator[int]:
    try:
        names = os.listdir(folder)
    except OSError as error:
        raise RunError(f"Cannot read {shown(folder)}: {error.strerror or error}.") from error
    return (int(found[1]) for name in names if (found := _NAME.fullmatch(name)))


def _name(number: int) -> str:
    return f"lease.{number:09d}.json"


def _text(content: Mapping[str, Any]) -> str:
    """Return a lease's text, which has the same length at every renewal."""
    return json.dumps(content) + "\n"


def _content(text: bytes) -> Mapping[str, Any]:
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


def _server_time(folder: Path) -> float:
    """Return the time as the file server writes it, in seconds."""
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


def _is_here(held: Held) -> bool:
    """Return whether the holder is a process of this machine."""
    return all(held.content.get(name) == value for name, value in _place().items())


def _place() -> dict[str, str]:
    """Return what tells machines apart, and containers of one machine, whose processes have numbers of their own."""
    space = ""
    with suppress(OSError):
        space = os.readlink("/proc/self/ns/pid")
    with suppress(OSError):
        space += Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    return {"host": socket.gethostname(), "space": space}
