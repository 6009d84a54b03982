"""A callback that takes the items of a loop, says what is done with them and returns them.

The command line draws it (``cli/waiting.py``); by default nothing is shown.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

T = TypeVar("T")

Watch = Callable[[Iterable[T], str, int | None], Iterable[T]]
"""Returns the items unchanged, and shows how many of how many were taken: items, what is done, their number.

Where the number is not known it is ``None``.
"""


def unwatched(items: Iterable[T], title: str, total: int | None) -> Iterable[T]:
    """Return the items, and show nothing."""
    del title, total
    return items


@contextmanager
def doing(watch: Watch[Any], title: str) -> Iterator[None]:
    """Say what is done inside, where there is nothing to count.

    Args:
        watch: What shows it.
        title: What is done.
    """
    for _ in watch((None,), title, None):
        yield
