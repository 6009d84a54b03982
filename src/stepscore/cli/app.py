"""The ``stepscore`` command."""

from __future__ import annotations

import glob
import logging
import os
import warnings
from collections.abc import Sequence
from functools import lru_cache
from typing import Annotated, Any, TextIO

import typer
from typer.main import get_command

from stepscore import __version__
from stepscore.cli.commands import CONTEXT_SETTINGS, Commands, hide_flag_types
from stepscore.cli.exit_codes import HELP
from stepscore.cli.streams import print_message
from stepscore.errors import OptionError, exit_error

app = typer.Typer(
    name="stepscore",
    cls=Commands,
    help="Score every step of a recorded robot rollout, not only its end.",
    epilog=HELP,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings=CONTEXT_SETTINGS,
)


def _print_version(requested: bool) -> None:
    if requested:
        typer.echo(__version__)
        raise typer.Exit


@app.callback()
def root(
    version: Annotated[
        bool,
        typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version and exit."),
    ] = False,
    traceback: Annotated[
        bool, typer.Option("--traceback", help="On an error, print where it happened, too.")
    ] = False,
) -> None:
    """Score every step of a recorded robot rollout, not only its end."""


def parse(arguments: Sequence[str]) -> Any:
    """Return the context of a command line; typer's own errors are raised, not printed."""
    _prepare()
    words = [name for word in arguments for name in _expand(word)]
    if "_STEPSCORE_COMPLETE" in os.environ:  # a shell asks for completions; typer answers and exits
        try:
            app(words, prog_name="stepscore")
        except (KeyError, ValueError, IndexError) as error:
            raise OptionError(
                "_STEPSCORE_COMPLETE is set, as by a shell that completes a command, but not the variables that go "
                f"with it ({type(error).__name__}: {error}). Unset it."
            ) from error
    return _command().make_context("stepscore", words)


@lru_cache(maxsize=1)
def _command() -> Any:
    command = get_command(app)
    hide_flag_types(command)
    return command


def invoke(context: Any) -> int:
    """Run the command of a context; return 0. Everything else, exits included, is raised."""
    try:
        with context:
            context.command.invoke(context)
    except SystemExit as error:
        # rich exits on a closed pipe, and a library may exit with a message. Any other exit is
        # that of third-party code, whose exit code would hide that nothing was done.
        if isinstance(error.__context__, BrokenPipeError) or isinstance(error.code, str):
            raise
        raise exit_error(error) from error
    return 0


def _expand(word: str) -> list[str]:
    """Return the files that match a pattern, which Windows' shell leaves to the program."""
    return (glob.glob(word) or [word]) if os.name == "nt" and set(word) & set("*?") else [word]


def _prepare() -> None:
    warnings.showwarning = _warn
    # Each retry is in the attempts table; printing each would break the progress bar.
    logging.getLogger("stamina").setLevel(logging.ERROR)


def _warn(
    message: Warning | str,
    category: type[Warning],
    filename: str,
    lineno: int,
    file: TextIO | None = None,
    line: str | None = None,
) -> None:
    print_message("Warning", str(message))
