"""The terminal: any encoding or none, closed, full, or absurdly wide; and text that is safe to print.

Names, labels and servers' answers are untrusted: control characters and terminal escapes are printed as ``?``.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any, TextIO

MAX_MESSAGE = 2000
"""Characters of a message, at most; a longer one keeps its beginning and its end."""

WIDTHS = range(40, 1001)
"""Range of COLUMNS; a value outside is clipped."""

_UNSAFE = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff\ufeff]"
)


def safe_text(text: str) -> str:
    """Return a text with ``?`` for control characters, changes of direction and surrogates."""
    return _UNSAFE.sub("?", text.replace("\r\n", "\n"))


def one_line(text: str, *, limit: int = MAX_MESSAGE) -> str:
    """Return a text as one safe line of at most ``limit`` characters."""
    if len(text) > 4 * limit:  # before it is worked on
        text = f"{text[: 2 * limit]} … {text[-limit:]}"
    line = " ".join(safe_text(text).split())
    half = limit // 3
    return line if len(line) <= limit else f"{line[: limit - half - 3]} … {line[-half:]}"


def print_message(kind: str, text: str) -> None:
    """Print a line to stderr, ``Error: ...`` in red; never raise."""
    stream = sys.stderr
    if stream is None:
        return
    line = f"{kind}: {one_line(text)}" if kind else safe_text(text)
    with suppress(OSError, ValueError):
        colour = {"Warning": "33"}.get(kind, "31")
        plain = (
            not kind or not stream.isatty() or os.environ.get("TERM") == "dumb" or "NO_COLOR" in os.environ
        )
        line = line if plain else f"\x1b[{colour}m{line}\x1b[0m"
        encoding = getattr(stream, "encoding", None) or "utf-8"
        stream.write(line.encode(encoding, "replace").decode(encoding) + "\n")
        stream.flush()


class _Stream:
    """A wrapper of a text stream, which has all other attributes."""

    def __init__(self, stream: TextIO) -> None:
        self.inner = stream

    def __getattr__(self, name: str) -> Any:
        return getattr(self.inner, name)


class Stdout(_Stream):
    """Stdout whose errors name it, as errors of files name the file."""

    def write(self, text: str) -> int:
        """Write."""
        with _named():
            return self.inner.write(text)

    def flush(self) -> None:
        """Flush."""
        with _named():
            self.inner.flush()


class Stderr(_Stream):
    """Stderr that never stops a command: output to a full disk or broken pipe is lost."""

    def write(self, text: str) -> int:
        """Write if possible."""
        with suppress(OSError, ValueError):
            self.inner.write(text)
        return len(text)

    def flush(self) -> None:
        """Flush if possible."""
        with suppress(OSError, ValueError):
            self.inner.flush()


@contextmanager
def _named() -> Iterator[None]:
    try:
        yield
    except OSError as error:
        # The class follows from the number: of EPIPE it is a BrokenPipeError again.
        raise OSError(error.errno, error.strerror, "standard output") from error


def prepare_streams() -> None:
    """Make stdout and stderr accept any text, even if closed, and make the terminal's width usable."""
    for number, name, kind in ((1, "stdout", Stdout), (2, "stderr", Stderr)):
        stream = getattr(sys, name)
        if stream is None:
            # A file opened later would get the free number, and a library's print would go into it.
            stream = _null_stream(number)
        elif hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="replace")
        setattr(sys, name, kind(stream))
    for name in ("COLUMNS", "TERMINAL_WIDTH"):
        if name in os.environ:
            _limit_width(name)


def restore_streams() -> OSError | None:
    """Flush stdout and stderr, which Python would do too late to report it; return the error of stdout, if any."""
    problem: OSError | None = None
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        inner = stream.inner if isinstance(stream, _Stream) else stream
        try:
            stream.flush()
            inner.flush()
        except (OSError, ValueError) as error:
            _discard(inner)
            if name == "stdout" and isinstance(error, OSError):
                problem = error
        setattr(sys, name, inner)
    return problem


def _limit_width(name: str) -> None:
    try:
        width = int(os.environ[name][:20])
    except ValueError:
        del os.environ[name]
        return
    os.environ[name] = str(min(max(width, WIDTHS.start), WIDTHS.stop - 1))


def _null_stream(number: int) -> TextIO:
    """Return a null stream, at the file number of the closed one if that is free."""
    null = os.open(os.devnull, os.O_RDWR)
    if null < number:  # stdin is closed as well
        os.dup2(null, number)
        null = number
    return open(null, "w", encoding="utf-8", errors="replace", closefd=False)


def _discard(stream: TextIO) -> None:
    """Discard what a stream still buffers, so that Python does not complain at exit."""
    with suppress(OSError, ValueError):
        null = os.open(os.devnull, os.O_WRONLY)
        os.dup2(null, stream.fileno())
        os.close(null)
