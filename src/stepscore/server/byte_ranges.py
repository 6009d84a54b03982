"""Byte ranges of HTTP (RFC 9110, section 14), as far as video players use them.

Starlette's FileResponse reads Range headers too, but it takes a path, not an open file, and opens it only while it
sends: after the check in :mod:`stepscore.server.app` that the file is still the one the page was built with, another
file could be put in its place. It also answers 400 to headers that the standard says to ignore (an unknown unit, an
invalid range) and honours Range on HEAD.
"""

from __future__ import annotations

import re
from typing import NamedTuple

_SINGLE_RANGE = re.compile(r"bytes=[ \t]*([0-9]*)-([0-9]*)[ \t]*", re.ASCII | re.IGNORECASE)
_MAX_DIGITS = 18


class ByteRange(NamedTuple):
    """Bytes first..last of a file, both included."""

    first: int
    last: int

    @property
    def length(self) -> int:
        """Return the number of bytes."""
        return self.last - self.first + 1


class UnsatisfiableRangeError(ValueError):
    """The range is wholly outside the file: status 416."""


def parse_range(header: str | None, size: int) -> ByteRange | None:
    """Return the bytes that a Range header requests; ``None`` for the whole file.

    ``bytes=a-b`` and ``bytes=a-`` count from the start, ``bytes=-n`` is the last n bytes; an end past the file
    is cut. A header that is not a valid single range (another unit, several ranges, a > b) is ignored, as the
    standard requires or allows.

    Args:
        header: Value of the Range header; ``None`` without one.
        size: Size of the file in bytes.

    Raises:
        UnsatisfiableRangeError: A valid range of which the file has no byte.
    """
    match = _SINGLE_RANGE.fullmatch(header) if header else None
    if match is None:
        return None
    first, last = match.groups()
    if not first and not last:
        return None
    if max(len(first), len(last)) > _MAX_DIGITS:
        # Larger than any file; longer numbers need not be parsed.
        first, last = first[:_MAX_DIGITS], last[:_MAX_DIGITS]
    if not first:
        if int(last) == 0 or size == 0:
            raise UnsatisfiableRangeError
        return ByteRange(max(0, size - int(last)), size - 1)
    if last and int(last) < int(first):
        return None
    if int(first) >= size:
        raise UnsatisfiableRangeError
    return ByteRange(int(first), min(int(last), size - 1) if last else size - 1)
