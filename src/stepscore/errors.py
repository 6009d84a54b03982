"""Every error StepScore raises on purpose.

::

    StepScoreError
    ├── UnknownNameError      a judge, reader, metric, camera, column that is not there
    ├── OptionError           an option or argument with a wrong value
    ├── MissingExtraError     an optional dependency is not installed
    ├── ExitError             third-party code called sys.exit()
    ├── SourceError           a whole source cannot be read
    │   └── ManifestError     a manifest, labels or subgoals file is wrong; names file, line and field
    ├── EpisodeError          one episode cannot be used; the run continues without it
    │   ├── VideoError        its video cannot be read
    │   └── CurveError        its recorded curve cannot be read
    ├── ModelError            a model cannot be loaded, or does not answer
    │   ├── TransientModelError     worth another attempt: timeout, lost connection, invalid response
    │   │   └── RefusedError  the server will not answer now (rate limit); nothing was billed
    │   │       └── UnavailableError  the server is away or starting; it may be back in minutes
    │   ├── StatusError       the server refused the request; another attempt would not help
    │   └── CapabilityError   the model lacks what the judge needs
    └── RunError              a run folder or another result cannot be written, resumed or read
        ├── ProtocolMismatchError   the folder holds results of another protocol
        ├── LeaseLostError    another process has taken over the folder
        ├── UnfinishedShardsError   shards that a result needs have not been judged yet
        └── BudgetError       the budget is spent; a later start with a larger one resumes

A message says what was wrong, where, what is allowed, and the command that repairs it.
The command line prints it without a traceback.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from pydantic import ValidationError

MAX_CHOICES_LISTED = 20
"""Largest number of valid names in a message; if there are more, the closest names are listed."""
TORCH_EXTRAS = ("local", "train")
"""Extras that install torch."""


class StepScoreError(Exception):
    """Root of the tree; catch this to catch everything StepScore raises on purpose."""


class UnknownNameError(StepScoreError):
    """A name that is not valid.

    Args:
        kind: Kind of thing that is named, e.g. ``"judge"`` or ``"view"``.
        name: The name as given.
        valid: The valid names.
        where: Context in which the name was looked up, e.g. an episode id; may be empty.
        hint: The command that lists the valid names; may be empty.
    """

    def __init__(
        self, kind: str, name: str, valid: Iterable[str], *, where: str = "", hint: str = ""
    ) -> None:
        import difflib  # only here: the entry point imports this module

        choices, name = sorted(valid), _cut(name)
        close = difflib.get_close_matches(name, choices, n=1)
        parts = [f"Unknown {kind} {name!r}{f' in {where}' if where else ''}."]
        if close:
            parts.append(f"Did you mean {close[0]!r}?")
        closest = difflib.get_close_matches(name, choices, n=MAX_CHOICES_LISTED, cutoff=0.0)
        listed = ", ".join(choices if len(choices) <= MAX_CHOICES_LISTED else closest) or "(none)"
        more = f" and {len(choices) - MAX_CHOICES_LISTED} more" if len(choices) > MAX_CHOICES_LISTED else ""
        parts.append(f"Valid: {listed}{more}.")
        if hint:
            parts.append(hint)
        super().__init__(" ".join(parts))
        self.kind, self.name, self.valid = kind, name, tuple(choices)

    def __reduce__(self) -> tuple[object, ...]:
        return (_rebuild_unknown, (self.kind, self.name, self.valid, str(self)))


def _cut(name: str, most: int = 200) -> str:
    """Shorten a name for a message; matching a megabyte against the valid names would take minutes."""
    return name if len(name) <= most else f"{name[:most]}…"


def _rebuild_unknown(kind: str, name: str, valid: tuple[str, ...], text: str) -> UnknownNameError:
    error = UnknownNameError(kind, name, valid)
    error.args = (text,)
    return error


class OptionError(StepScoreError):
    """An option or argument has a value that is not allowed."""


class MissingExtraError(StepScoreError):
    """An optional dependency is needed and not installed."""

    def __init__(self, what: str, extra: str) -> None:
        super().__init__(f"{what} needs the {extra!r} extra. {install_command(extra)}")
        self.what, self.extra = what, extra

    def __reduce__(self) -> tuple[object, ...]:
        return (MissingExtraError, (self.what, self.extra))


def install_command(extra: str) -> str:
    """Return the command that installs an extra; by default, pip on Linux installs gigabytes of CUDA for torch."""
    command = f"pip install 'stepscore[{extra}]'"
    if extra not in TORCH_EXTRAS:
        return f"Install it: {command}"
    return (
        "Without an NVIDIA GPU, install the CPU build of torch first, with the command on PyTorch's install page. "
        f"Then: {command}"
    )


class ExitError(StepScoreError):
    """A judge, reader, model or metric called ``sys.exit()``, or a task of its own was cancelled.

    The message names the line.
    """


@contextmanager
def exits_as_errors() -> Iterator[None]:
    """Raise an ExitError in place of the SystemExit of third-party code.

    ``SystemExit`` is not an ``Exception``. Without this guard, the command would end with any exit code, even 0.
    """
    try:
        yield
    except SystemExit as error:
        raise exit_error(error) from error


def exit_error(error: SystemExit) -> ExitError:
    """Return the error that is raised in place of a SystemExit."""
    code = "" if error.code is None else _cut(repr(error.code))
    return ExitError(f"{_place(error)} called sys.exit({code}). Raise an exception there instead.")


def cancel_error(error: BaseException) -> ExitError:
    """Return the error that is raised in place of a CancelledError of third-party code."""
    return ExitError(
        f"{_place(error)} raised {type(error).__name__}, although nothing cancelled this episode."
    )


def _place(error: BaseException) -> str:
    """Return the file and innermost line of an error, without frozen modules such as the one of ``quit()``."""
    place = "Third-party code"
    step = error.__traceback__
    while step is not None:
        file = step.tb_frame.f_code.co_filename
        if not file.startswith("<frozen"):
            place = f"{os.path.basename(file)}, line {step.tb_lineno}"
        step = step.tb_next
    return place


class SourceError(StepScoreError):
    """A whole source of episodes cannot be read, rather than a single episode."""


class ManifestError(SourceError):
    """A manifest, labels or subgoals file has a wrong field; the message names file, line and field."""


class EpisodeError(StepScoreError):
    """One episode cannot be used. It becomes a row with this message, and the run continues."""


class VideoError(EpisodeError):
    """An episode's video cannot be read."""


class CurveError(EpisodeError):
    """An episode's recorded curve or verdicts cannot be read."""


class ModelError(StepScoreError):
    """A model cannot be loaded, or does not answer."""


class TransientModelError(ModelError):
    """A call failed in a way that is worth another attempt.

    Args:
        message: The message.
        retry_after: Seconds to wait as requested by the server; ``None`` without a request.
    """

    def __init__(self, message: str, retry_after: float | None = None) -> None:
        super().__init__(message)
        self.retry_after = retry_after


class RefusedError(TransientModelError):
    """The server refuses to answer now, e.g. by a rate limit. Nothing was billed."""


class UnavailableError(RefusedError):
    """The server is away or starting, and may be back in minutes.

    Args:
        message: The message.
        retry_after: As for :class:`TransientModelError`.
        sent: Whether the request reached a server; if not, the call does not count as an attempt.
        lost: Whether the request may still have been billed, because a gateway lost its upstream server.
    """

    def __init__(
        self, message: str, retry_after: float | None = None, *, sent: bool = False, lost: bool = False
    ) -> None:
        super().__init__(message, retry_after)
        self.sent, self.lost = sent, lost


class StatusError(ModelError):
    """The server refused the request; ``status`` is the HTTP status."""

    def __init__(self, message: str, status: int = 400) -> None:
        super().__init__(message)
        self.status = status


class CapabilityError(ModelError):
    """The model lacks what the judge needs; the message names models that have it."""


class RunError(StepScoreError):
    """A run folder or another result cannot be written, resumed or read."""


class ProtocolMismatchError(RunError):
    """The run folder holds results of another protocol; results are never mixed."""


class LeaseLostError(RunError):
    """Another process has taken over the run folder because this one stalled; this one stops writing."""


class UnfinishedShardsError(RunError):
    """Shards that a result needs have not been judged yet; the message names them."""


class BudgetError(RunError):
    """The budget is spent. Answers are kept; a later start with a larger budget resumes the run."""


class FieldError(NamedTuple):
    """One wrong field of a file or an answer, as pydantic found it.

    Attributes:
        field: Dotted path of the field: ``tasks.open.subgoals.0.mode``; empty for the whole value.
        message: Description of the error, without a full stop.
        kind: Pydantic's name for the kind of error, e.g. ``missing`` or ``extra_forbidden``.
        value: The invalid value.
    """

    field: str
    message: str
    kind: str
    value: object


def first_field_error(error: ValidationError) -> FieldError:
    """Return pydantic's first error, ready for a message."""
    first = error.errors()[0]
    # Drop the type names that pydantic adds to the path of a union, because users do not know them.
    parts = [str(part) for part in first["loc"] if not str(part).startswith(("dict[", "constrained-"))]
    message = first["msg"].removeprefix("Value error, ")
    return FieldError(".".join(parts), message, first["type"], first["input"])
