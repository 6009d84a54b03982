"""Leases: a folder belongs to one process for a while, also where the file system has no locks (NFS, and others).

The lease is a file, ``lease.000000003.json``: who holds it, for how long it holds unless it is renewed, and a random
token. Its holder renews it from a thread. It ends when it is given back, when its holder is a process of this machine
that has ended, or when it was not renewed for its term. Ages are differences of two times that the file server wrote
(of the lease, and of a file made to ask for the time), so that no machine's clock matters. A lease with a time in the
future is over when a :class:`LeaseObserver` has not found it renewed for its term, by the monotonic clock.

Whoever takes over makes the file with the next number, which the file system allows once: of two that try, one wins.
The earlier file is removed after that, and whoever finds its own lease gone, or one with a higher number, has lost it
and writes nothing more. What it may be writing just then goes into a file that is no longer there:
:func:`new_file` gives the new holder a copy of each journal under the same name.
"""

from __future__ import annotations

import json
import os
import secrets
import shutil
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from stepscore._files import atomic_path, create_once
from stepscore._journals.found_leases import (
    LEASE_S,
    MAX_NUMBER,
    Held,
    LeaseObserver,
    lease_name,
    numbers,
    place,
    read_lease,
)
from stepscore._journals.line_files import whole_lines
from stepscore._reading import shown
from stepscore.errors import LeaseLostError, RunError

RENEWALS = 6
"""How often a lease is renewed in its term."""


class Lease:
    """A lease that this process holds; from :func:`take_lease`.

    Attributes:
        number: Its number; the highest of the folder holds.
        taken_over: Whether the one before was not given back: its holder died or stalled.
    """

    def __init__(self, folder: Path, number: int, content: Mapping[str, Any], *, taken_over: bool) -> None:
        self.number, self.taken_over = number, taken_over
        self._folder, self._content = folder, dict(content)
        self._path = folder / lease_name(number)
        self._file = self._path.open("r+b", buffering=0)
        self._stop = threading.Event()
        self._renewing = threading.Thread(target=self._renew, name="stepscore-lease", daemon=True)
        self._renewing.start()

    def check(self) -> None:
        """Raise LeaseLostError where another process has taken over."""
        try:
            # Opened anew each time, which makes an NFS client ask the server.
            found = read_lease(self._path)
            lost = found is None or str(self._content["token"]).encode() not in found[0]
        except (FileNotFoundError, PermissionError):
            lost = True
        except OSError as error:
            if error.errno != getattr(os, "ESTALE", None) and error.strerror != "Stale file handle":
                raise RunError(f"Cannot read {shown(self._path)}: {error.strerror or error}.") from error
            lost = True
        if lost or (self._folder / lease_name(self.number + 1)).exists():
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
    observer, first = LeaseObserver(folder), None
    while True:
        held = observer.look()
        if held is None or held.over:
            lease = _try_to_take(folder, held, term_s)
            if lease is not None:
                return lease
            first = None
            continue
        renewed = first is not None and observer.seen != first
        if renewed or (held.is_here and not held.in_future):
            raise RunError(
                f"Another process is writing to {shown(folder)}: {held.holder}. "
                "Wait for it, or choose another folder: -o RUN"
            )
        if first is None:
            left = held.term_s - held.age_s
            on_wait(
                f"{shown(folder)} is leased by {held.holder}. If that has died, the lease ends in {left:.0f} s."
            )
            first = observer.seen
        time.sleep(min(1.0, held.term_s / 20))


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
    if number > MAX_NUMBER:
        raise RunError(
            f"{shown(folder / lease_name(MAX_NUMBER))} has the highest number of a lease. Remove that file."
        )
    content: dict[str, Any] = {
        **place(),
        "pid": os.getpid(),
        "token": secrets.token_hex(16),
        "term_s": term_s,
        "renewed": f"{0:012d}",
        "released": 0,
    }
    if not create_once(folder / lease_name(number), _text(content)):
        return None
    if max(numbers(folder), default=0) > number:
        # What was found before is long past: others have come and gone meanwhile.
        with suppress(OSError):
            (folder / lease_name(number)).unlink()
        return None
    for earlier in [each for each in numbers(folder) if each < number]:
        with suppress(OSError):
            (folder / lease_name(earlier)).unlink()
    return Lease(folder, number, content, taken_over=before is not None and not before.released)


def _text(content: Mapping[str, Any]) -> str:
    """Return a lease's text, which has the same length at every renewal."""
    return json.dumps(content) + "\n"
