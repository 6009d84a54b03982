"""Print tracebacks of errors that a run recorded as rows, for ``stepscore --traceback``.

Tracebacks are logged at level DEBUG, which scripts can also enable: ``logging.getLogger("stepscore.tracebacks")``.
"""

from __future__ import annotations

import logging
import os
import sys

TRACEBACK_VARIABLE = "STEPSCORE_TRACEBACK"
"""Environment variable that makes a command and its worker processes print tracebacks."""

_LOG = logging.getLogger("stepscore.tracebacks")


def log_traceback(error: BaseException) -> None:
    """Log the full traceback of an error; the run stores only one line."""
    _LOG.debug("%s", type(error).__name__, exc_info=error)


def wants_tracebacks() -> bool:
    """Return whether the environment variable requests tracebacks."""
    return os.environ.get(TRACEBACK_VARIABLE, "") not in ("", "0")


class TracebackPrinter(logging.Handler):
    """Context manager that prints each distinct traceback to stderr once."""

    def __init__(self) -> None:
        super().__init__(logging.DEBUG)
        self._printed: set[str] = set()

    def __enter__(self) -> TracebackPrinter:
        _LOG.addHandler(self)
        _LOG.setLevel(logging.DEBUG)
        _LOG.propagate = False
        return self

    def __exit__(self, *details: object) -> None:
        _LOG.removeHandler(self)
        _LOG.setLevel(logging.NOTSET)
        _LOG.propagate = True

    def emit(self, record: logging.LogRecord) -> None:
        """Print a traceback."""
        assert record.exc_info is not None
        text = logging.Formatter().formatException(record.exc_info)
        if text not in self._printed and sys.stderr is not None:
            self._printed.add(text)
            print(text, file=sys.stderr)
