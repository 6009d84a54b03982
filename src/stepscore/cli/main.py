"""The entry point, which turns every outcome into at most one line and a documented exit code.

It imports next to nothing, so that Ctrl-C during the other imports is caught too.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from typing import TYPE_CHECKING, Any, NoReturn

if TYPE_CHECKING:
    from collections.abc import Sequence


def main() -> NoReturn:
    """Run the command of this process and exit with its code."""
    terminated = False

    def stop(number: int, frame: Any) -> None:
        """Stop as Ctrl-C does, through its current handler: an event loop cancels its tasks first."""
        nonlocal terminated
        terminated = True
        handle = signal.getsignal(signal.SIGINT)
        (handle if callable(handle) else signal.default_int_handler)(signal.SIGINT, frame)

    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN and hasattr(signal, "pthread_sigmask"):
        # As in `stepscore judge ... &` of a script. It stays ignored, by a mask: only if Python's own handler is
        # set does an event loop set its own, by which a terminate cancels tasks instead of breaking into one.
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
        signal.signal(signal.SIGINT, signal.default_int_handler)
    if signal.getsignal(signal.SIGTERM) is signal.SIG_DFL:
        signal.signal(signal.SIGTERM, stop)
    code = run(sys.argv[1:])
    # 128 and the signal's number, as shells have it: 130 and 143.
    sys.exit(128 + signal.SIGTERM if terminated and code == 128 + signal.SIGINT else code)


def run(arguments: Sequence[str]) -> int:
    """Run a command; print any exception to stderr as one line, and return the exit code."""
    traceback = False
    try:
        from stepscore._tracebacks import wants_tracebacks
        from stepscore.cli import exit_codes, streams

        traceback = wants_tracebacks()

        streams.prepare_streams()
        try:
            # Imported here, because it takes a while and an interrupt during it is handled below.
            app: Any = import_module("stepscore.cli.app")
            context = app.parse(arguments)
            traceback = traceback or context.params.get("traceback") is True
            with _printing_tracebacks(traceback):
                code: int = app.invoke(context)
        except BaseException as error:
            code = exit_codes.report(error, traceback=traceback)
        problem = streams.restore_streams()
        if problem and code < exit_codes.REFUSED:  # else one line is printed already
            code = max(code, exit_codes.report(problem, traceback=traceback))
        return code
    except KeyboardInterrupt:
        # Before the modules above were imported, or a second interrupt.
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        print("Interrupted.", file=sys.stderr)
        return 128 + signal.SIGINT


@contextmanager
def _printing_tracebacks(wanted: bool) -> Iterator[None]:
    """Print also the tracebacks of errors that become rows, here and in worker processes."""
    from stepscore._tracebacks import TRACEBACK_VARIABLE, TracebackPrinter

    if not wanted:
        yield
        return
    before = os.environ.get(TRACEBACK_VARIABLE)
    os.environ[TRACEBACK_VARIABLE] = "1"
    try:
        with TracebackPrinter():
            yield
    finally:
        if before is None:
            del os.environ[TRACEBACK_VARIABLE]
        else:
            os.environ[TRACEBACK_VARIABLE] = before
