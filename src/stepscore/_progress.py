"""Progress of long loops, reported to whoever asked for it: nobody by default, a bar in the command line.

Work announces its phases with :func:`track` and :func:`doing`. The command line sets a tracker with
:func:`tracked_by` (``cli/progress.py``). It is a context variable, read in the calling thread: threads and processes
that work starts report nothing, unless they are given a copy of the context.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, TypeVar

T = TypeVar("T")

Tracker = Callable[[Iterable[T], str, int | None], Iterable[T]]
"""Returns the given items unchanged and shows how many were taken. Arguments as in :func:`track`."""

_TRACKER: ContextVar[Tracker[Any] | None] = ContextVar("stepscore_progress", default=None)


def track(items: Iterable[T], title: str, total: int | None) -> Iterable[T]:
    """Return the items unchanged, and report how many were taken.

    Args:
        items: The items of a loop.
        title: What the loop does.
        total: Number of items; ``None`` if it is unknown.
    """
    tracker = _TRACKER.get()
    return items if tracker is None else tracker(items, title, total)


@contextmanager
def doing(title: str) -> Iterator[None]:
    """Report what is done inside, for work without items to count."""
    for _ in track((None,), title, None):
        yield


@contextmanager
def tracked_by(tracker: Tracker[Any]) -> Iterator[None]:
    """Report what is done inside to a tracker."""
    token = _TRACKER.set(tracker)
    try:
        yield
    finally:
        _TRACKER.reset(token)
