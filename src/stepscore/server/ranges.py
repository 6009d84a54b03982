"""Byte ranges of HTTP (RFC 9110, section 14), as far as a video player asks for them."""

from __future__ import annotations

import re
from typing import NamedTuple

_ONE_RANGE = re.compile(r"bytes=[ \t]*([0-9]*)-([0-9]*)[ \t]*", re.ASCII | re.IGNORECASE)
_MOST_DIGITS = 18


class Span(NamedTuple):
    """Bytes first..last of a file, both included."""

    first: int
    last: int

    @property
    def length(self) -> int:
        """How many bytes that is."""
        return self.last - self.first + 1


class UnsatisfiableError(ValueError):
    """The range lies wholly outside the file: status 416."""


def parse_range(header: str | None, size: int) -> Span | None:
    """The bytes that a Range header asks for; ``None`` for the whole file.

    ``bytes=a-b`` and ``bytes=a-`` count from the start, ``bytes=-n`` is the last n bytes; an end past the file
    is cut. What is no valid single range (another unit, several ranges, a > b) is ignored, as the standard
    asks for or allows.

    Raises:
        UnsatisfiableError: A valid range of which the file has no byte.
    """
    match = _ONE_RANGE.fullmatch(header) if header else None
    if match is None:
        return None
    first, last = match.groups()
    if not first and not last:
        return None
    if max(len(first), len(last)) > _MOST_DIGITS:
        # Beyond any file; a number that long is not worth reading.
        first, last = first[:_MOST_DIGITS], last[:_MOST_DIGITS]
    if not first:
        if int(last) == 0 or size == 0:
            raise UnsatisfiableError
        return Span(max(0, size - int(last)), size - 1)
    if last and int(last) < int(first):
        return None
    if int(first) >= size:
        raise UnsatisfiableError
    return Span(int(first), min(int(last), size - 1) if last else size - 1)
