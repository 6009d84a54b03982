"""Exit codes, and the one line on stderr that explains them.

====  ============================================================================================
code  meaning
====  ============================================================================================
0     Success, also if the reader of stdout closed it early (``stepscore metrics RUN | head``).
1     Finished in part: episodes failed or could not be read, or the budget stopped the run.
2     Nothing was done, or not to the end: wrong usage, unusable input, a full disk, an error in the
      user's own code.
3     An unexpected error, which is a bug in StepScore.
130   Interrupted by Ctrl-C; 143 by SIGTERM. A run keeps its finished episodes and can be resumed.
====  ============================================================================================
"""

from __future__ import annotations

import signal
import sys
import threading
import traceback as tracebacks
from collections.abc import Iterator
from typing import Any

from stepscore._local_modules import place_in_local_code
from stepscore.cli.streams import one_line, print_message
from stepscore.errors import BudgetError, StepScoreError

OK, PARTLY, REFUSED, BUG, INTERRUPTED = 0, 1, 2, 3, 130

HELP = (
    "Exit codes: 0 all well; 1 finished, but some episodes failed or could not be read, or the budget stopped it; "
    "2 wrong usage, or an input or output that cannot be used; 3 a bug; 130 interrupted."
)
"""The line at the end of ``stepscore --help``."""


def report(error: BaseException, *, traceback: bool = False) -> int:
    """Print one line about an exception, after its traceback if asked; return the exit code."""
    error = first_of_group(error)
    code, kind, message = describe(error)
    if code == INTERRUPTED:
        _let_the_next_one_kill()
    if traceback and message and sys.stderr is not None:
        lines = "".join(tracebacks.format_exception(error)).splitlines()
        for line in lines:
            print_message("", line)
    if message:
        print_message(kind, message)
    return code


def describe(error: BaseException) -> tuple[int, str, str]:
    """Return exit code, the word before the message (``Error``) and the message; empty if nothing is printed."""
    if interrupt := _interrupt_in(error):
        text = str(interrupt)
        return INTERRUPTED, "Interrupted", text or "Nothing more is done."
    if isinstance(error, BudgetError):
        return PARTLY, "Stopped", str(error)
    if isinstance(error, StepScoreError):
        return REFUSED, "Error", str(error) or type(error).__name__
    if isinstance(error, SystemExit):
        return _from_exit(error)
    if hasattr(error, "exit_code"):  # typer's and click's own
        return _from_click(error)
    if isinstance(error, BrokenPipeError):
        return OK, "", ""
    if isinstance(error, OSError):
        return REFUSED, "Error", _os_error_text(error)
    if isinstance(error, MemoryError):
        text = one_line(str(error))
        return REFUSED, "Error", f"Out of memory{f' ({text})' if text else ''}. Use fewer or smaller inputs."
    text = one_line(str(error), limit=500).removesuffix(".")
    message = f"{type(error).__name__}: {text}" if text else type(error).__name__
    if place := place_in_local_code(error):
        return REFUSED, "Error", f"{message}{place}. `stepscore --traceback ...` prints the whole traceback."
    advice = "This is a bug: please report it; `stepscore --traceback ...` prints where it happened."
    return BUG, "Unexpected error", f"{message}. {advice}"


def first_of_group(error: BaseException) -> BaseException:
    """Return the first error of a group of groups; an interrupt inside it, if there is one."""
    leaves = list(_leaves(error))
    return next((leaf for leaf in leaves if isinstance(leaf, KeyboardInterrupt)), leaves[0])


def _leaves(error: BaseException) -> Iterator[BaseException]:
    if isinstance(error, BaseExceptionGroup):
        for inner in error.exceptions:
            yield from _leaves(inner)
    else:
        yield error


def _interrupt_in(error: BaseException | None) -> KeyboardInterrupt | None:
    """Return the interrupt behind an error: an import that is interrupted may end in an ImportError."""
    seen: set[int] = set()
    imported = isinstance(error, ImportError)
    while error is not None and id(error) not in seen:
        if isinstance(error, KeyboardInterrupt):
            return error
        seen.add(id(error))
        error = (error.__cause__ or error.__context__) if imported else None
    return None


def _from_exit(error: SystemExit) -> tuple[int, str, str]:
    if error.code is None or isinstance(error.code, int):
        # rich exits on a closed pipe.
        return OK if isinstance(error.__context__, BrokenPipeError) else error.code or OK, "", ""
    return REFUSED, "Error", str(error.code)


def _from_click(error: BaseException) -> tuple[int, str, str]:
    """Describe an exit that a command requested, or a usage error that the parser found."""
    code = int(getattr(error, "exit_code", REFUSED))
    if not hasattr(error, "format_message") or type(error).__name__ == "NoArgsIsHelpError":
        return code, "", ""  # the help is printed already
    message = one_line(_plain_message(error), limit=1000)
    command = getattr(getattr(error, "ctx", None), "command_path", "stepscore")
    stop = "" if message.endswith((".", "?", ")")) else "."
    return code, "Error", f"{message}{stop} Run: {command} --help"


_TYPES = {"int": "an integer", "float": "a number", "bool": "true or false"}


def _plain_message(error: Any) -> str:
    """Return the parser's message, with the value and the expected type if the type is wrong."""
    message: str = error.format_message()
    found = getattr(error.__cause__, "errors", None)
    wrong = found()[0] if callable(found) else {}
    expected = _TYPES.get(str(wrong.get("type", "")).partition("_")[0])
    said = getattr(error, "message", "")
    if expected is None or not said:
        return message
    return message.replace(said, f"{wrong.get('input')!r} is not {expected}")


def _os_error_text(error: OSError) -> str:
    """Return a message that names the file, or else the cause if it can be found."""
    reason = error.strerror or str(error) or type(error).__name__
    if error.filename is not None:
        names = [
            one_line(str(name), limit=300) for name in (error.filename, error.filename2) if name is not None
        ]
        return f"Cannot use {' and '.join(names)}: {reason}."
    if isinstance(error, FileNotFoundError) and not _folder_exists():
        return "The current folder does not exist any more. Change to another one."
    return f"The system refused: {reason}."


def _folder_exists() -> bool:
    import os

    try:
        os.getcwd()
    except OSError:
        return False
    return True


def _let_the_next_one_kill() -> None:
    """Let another Ctrl-C end the process at once, even if a thread does not end."""
    if threading.current_thread() is threading.main_thread():
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, signal.SIG_DFL)
