"""Locks between processes, each on a file; the system releases a lock when its process dies.

A lock file is never removed, because another process may be waiting for it.
"""

from __future__ import annotations

import errno
import os
import stat
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

RETRY_S = 0.05
"""Seconds between two tries of a lock, on systems that cannot wait for it."""

NO_LOCKS = frozenset(
    getattr(errno, name)
    for name in ("ENOLCK", "ENOTSUP", "EOPNOTSUPP", "ENOSYS", "EPROTONOSUPPORT")
    if hasattr(errno, name)
)
"""Errors of file systems without locks, such as NFS without its lock service."""

_HELD = (errno.EWOULDBLOCK, errno.EAGAIN, errno.EACCES, errno.EDEADLK)


def try_lock(file: IO[bytes]) -> bool:
    """Lock an open file; return ``False`` if another process holds the lock. Other failures raise OSError."""
    try:
        _lock(file.fileno(), wait=False)
    except OSError as error:
        if error.errno in _HELD:
            return False
        raise
    return True


def keeps_locks_local(folder: Path) -> bool:
    """Return whether a folder is on a network file system whose locks other machines do not see.

    No error shows this: both machines get the lock. Only Linux tells, by the mount options.
    """
    try:
        device = os.stat(folder).st_dev
        mounts = Path("/proc/self/mountinfo").read_text(errors="replace").splitlines()
    except OSError:
        return False
    number = f"{os.major(device)}:{os.minor(device)}"
    return any(_is_local_lock(line) for line in mounts if line.split(" ")[2:3] == [number])


def _is_local_lock(mount: str) -> bool:
    """Return whether a line of ``mountinfo`` describes a file system with local locks."""
    kind, _, options = mount.partition(" - ")[2].partition(" ")
    found = set(options.rpartition(" ")[2].split(","))
    if kind in ("nfs", "nfs4", "lustre"):
        return not found.isdisjoint({"nolock", "local_lock=all", "local_lock=flock", "localflock"})
    return kind in ("fuse.sshfs", "fuse.fuse-nfs", "fuse.rclone")


def has_ended(process: int) -> bool:
    """Return whether a process of this machine has ended; ``False`` if that is unknown."""
    if sys.platform == "win32" or not 0 < process < 10**9:
        return False
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return True
    except OSError:
        return False  # it exists and belongs to another user
    return False


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Hold the lock of a dedicated file, created if missing, for the duration of a block.

    Raises:
        OSError: The file cannot be created, opened or locked, or is not a regular file.
    """
    # The folder is untrusted: follow no link, and wait for no pipe.
    flags = os.O_RDWR | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)
    descriptor = os.open(path, flags, 0o666)
    try:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise OSError(errno.EINVAL, "not a regular file", str(path))
        _lock(descriptor, wait=True)
        yield
    finally:
        os.close(descriptor)


if sys.platform == "win32":
    import msvcrt

    def _lock(descriptor: int, *, wait: bool) -> None:
        # A byte far past the end: Windows locks are mandatory, and must not keep out readers.
        os.lseek(descriptor, 1 << 40, os.SEEK_SET)
        while True:
            try:
                msvcrt.locking(descriptor, msvcrt.LK_NBLCK, 1)
            except OSError as error:
                if not wait or error.errno not in _HELD:
                    raise
                time.sleep(RETRY_S)
            else:
                return

else:
    import fcntl

    def _lock(descriptor: int, *, wait: bool) -> None:
        fcntl.flock(descriptor, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
