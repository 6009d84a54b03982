"""A file that a library writes from its own thread through a pipe, so that a full disk is noticed here.

Rerun answers a failed write with log lines on stderr, and may wait for the failed thread in native code that no
signal interrupts. Behind the pipe a child process takes everything that is written. A thread would not do: the
library may hold the GIL while it waits for the pipe.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

_WAIT_S = 60.0
_CHILD = """
import os
failed = False
while data := os.read(0, 1 << 20):
    try:
        while data and not failed:
            data = data[os.write(1, data):]
    except OSError as error:
        failed = True
        os.write(2, b"%d" % error.errno)
"""


@contextmanager
def pumped(path: Path) -> Iterator[tuple[Path, Callable[[], None]]]:
    """Yield a path to write to, whose content is copied to ``path``, and a function that raises if that has failed.

    The writer must close the yielded path before the end.
    """
    if not os.path.exists("/dev/fd"):  # Windows
        yield path, lambda: None
        return
    read_end, write_end = os.pipe()
    try:
        with path.open("wb") as file:
            # A session of its own: Ctrl-C is for this process, which ends the other.
            child = subprocess.Popen(
                [sys.executable, "-I", "-S", "-c", _CHILD],
                stdin=read_end,
                stdout=file,
                stderr=subprocess.PIPE,
                start_new_session=True,
            )
    except BaseException:
        os.close(write_end)
        raise
    finally:
        os.close(read_end)
    assert child.stderr is not None
    with child.stderr as status:
        os.set_blocking(status.fileno(), False)

        def check() -> None:
            if code := status.read():
                raise OSError(int(code), os.strerror(int(code)))

        try:
            yield Path(f"/dev/fd/{write_end}"), check
        finally:
            os.close(write_end)
            try:
                child.wait(_WAIT_S)
            finally:
                child.kill()
                child.wait()
        check()
