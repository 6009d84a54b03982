"""Leases: a folder belongs to one process for a while, even on file systems without locks (such as NFS).

The lease is a file, ``lease.000000003.json``, with its holder, its term and a random token. The holder renews it from
a thread. It ends when it is released, when its holder is a process of this machine that has ended, or when it was not
renewed for its term. Its age is the difference of two times written by the file server (of the lease, and of a file
made to ask for the time), so that no machine's clock matters. A lease with a time in the future expires when a
:class:`LeaseObserver` has seen no renewal for its term, by the monotonic clock.

To take over, a process creates the file with the next number, which the file system allows only once: of two that
try, one wins. Then it removes the earlier file. A process that finds its own lease gone, or one with a higher number,
has lost it and stops writing. A write in progress goes to a nameless file: :func:`new_file` gives the new holder
a copy of each journal under the same name.
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
from stepscore._untrusted import shown
from stepscore.errors import LeaseLostError, RunError

RENEWALS = 6
"""Renewals of a lease within its term."""


class Lease:
    """A lease that this process holds; from :func:`take_lease`.

    Attributes:
        number: Its number; the highest one in the folder is valid.
        taken_over: Whether the lease before was not released, because its holder died or stalled.
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
        """Raise LeaseLostError if another process has taken over."""
        try:
            # Opened each time, which makes an NFS client ask the server.
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
                f"Another process has taken over {shown(self._folder)}, because this one did not renew its lease for "
                f"{self._content['term_s']:g} s. This process writes nothing more there."
            )

    def holds(self) -> bool:
        """Return whether this process still holds it."""
        try:
            self.check()
        except RunError:
            return False
        return True

    def release(self) -> None:
        """Release it; the file stays, so that numbers only grow."""
        self._stop.set()
        self._renewing.join()
        with suppress(OSError):
            self._content["released"] = 1
            self._write()
        self._file.close()

    def _renew(self) -> None:
        while not self._stop.wait(self._content["term_s"] / RENEWALS):
            with suppress(OSError):  # the next renewal may succeed; otherwise the lease expires
                self._content["renewed"] = f"{int(self._content['renewed']) + 1:012d}"
                self._write()

    def _write(self) -> None:
        """Write to the file that was opened first, never to one that has replaced it."""
        self._file.seek(0)
        self._file.write(_text(self._content).encode())
        os.fsync(self._file.fileno())


def take_lease(
    folder: Path, term_s: float = LEASE_S, *, on_wait: Callable[[str], None] = lambda line: None
) -> Lease:
    """Take the lease of a folder, after waiting for one that is not renewed to expire.

    Args:
        folder: An existing folder.
        term_s: Seconds without renewal after which it expires.
        on_wait: Called with a message before a wait.

    Raises:
        RunError: Another process holds and renews it, or the folder is not writable.
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
                f"{shown(folder)} is leased by {held.holder}. If it has died, the lease expires in {left:.0f} s."
            )
            first = observer.seen
        time.sleep(min(1.0, held.term_s / 20))


def new_file(path: Path) -> None:
    """Replace a file by a copy of its whole lines: a process that has the old one open cannot change the copy."""
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
    """Create the file with the next number; return the lease, or ``None`` if another process was faster."""
    number = 1 if before is None else before.number + 1
    if number > MAX_NUMBER:
        raise RunError(
            f"{shown(folder / lease_name(MAX_NUMBER))} has the highest possible number. Remove that file."
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
        # The lease found before is outdated: others have come and gone meanwhile.
        with suppress(OSError):
            (folder / lease_name(number)).unlink()
        return None
    for earlier in [each for each in numbers(folder) if each < number]:
        with suppress(OSError):
            (folder / lease_name(earlier)).unlink()
    return Lease(folder, number, content, taken_over=before is not None and not before.released)


def _text(content: Mapping[str, Any]) -> str:
    """Return a lease's text; it keeps its length at every renewal, so that it can be overwritten in place."""
    return json.dumps(content) + "\n"
