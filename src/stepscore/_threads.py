"""Thread pools whose threads stop waiting for other machines when the pool is shut down.

A pool is shut down when its work is done, or when Ctrl-C ended its caller. Python still waits for its threads, so
code that waits in them for minutes checks :func:`is_shut_down`.
"""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor

_this_thread = threading.local()


class Threads(ThreadPoolExecutor):
    """A pool of threads; see :func:`is_shut_down`."""

    def __init__(self, count: int, name: str) -> None:
        self._over = threading.Event()
        # A pool made in a thread of another pool is shut down when either is.
        pools = (*getattr(_this_thread, "pools", ()), self._over)
        super().__init__(count, thread_name_prefix=name, initializer=_enter, initargs=(pools,))

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:  # noqa: FBT001, FBT002
        """Shut down the pool and notify its threads."""
        self._over.set()
        super().shutdown(wait, cancel_futures=cancel_futures)


def _enter(pools: tuple[threading.Event, ...]) -> None:
    _this_thread.pools = pools


def is_shut_down() -> bool:
    """Return whether the pool of this thread, or a pool around it, was shut down; ``False`` in other threads."""
    return any(over.is_set() for over in getattr(_this_thread, "pools", ()))
