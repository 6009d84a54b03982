"""Whether files may be fetched from other machines now."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

_cache_only: ContextVar[bool] = ContextVar("stepscore_cache_only", default=False)


@contextmanager
def cache_only() -> Iterator[None]:
    """Use only what was fetched before: inside, nobody is asked, and a missing file is an error."""
    token = _cache_only.set(True)
    try:
        yield
    finally:
        _cache_only.reset(token)


def is_cache_only() -> bool:
    """Return whether nothing may be fetched now."""
    return _cache_only.get()
