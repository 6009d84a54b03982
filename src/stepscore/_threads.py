"""Pools of threads that stop waiting for other machines when the pool is shut down.

A pool is shut down when all of its work is done, or when Ctrl-C ended whoever wanted it. Python waits for its threads
all the same, so that what waits in them for minutes looks at :func:`is_shut_down`.
"""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor

_this_thread = threading.local()


class Threads(ThreadPoolExecutor):
    """A pool of threads; see :func:`is_shut_down`."""

    def __init__(self, count: int, name: str) -> None:
        self._over = threading.Event()
        # A pool that is made in a thread of another one is over when either is.
        pools = (*getattr(_this_thread, "pools", ()), self._over)
        super().__init__(count, thread_name_prefix=name, initializer=_enter, initargs=(pools,))

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:  # noqa: FBT001, FBT002
        """Shut down the pool; its threads learn of it."""
        self._over.set()
        super().shutdown(wait, cancel_futures=cancel_futures)


def _enter(pools: tuple[threading.Event, ...]) -> None:
    _this_thread.pools = pools


def is_shut_down() -> bool:
    """Return whether the pool of this thread was shut down, or one that it belongs to; ``False`` in other threads."""
    return any(over.is_set() for over in getattr(_this_thread, "pools", ()))
