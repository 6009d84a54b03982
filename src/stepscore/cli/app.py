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
from stepscore.cli import data, judging, results, tools, training
from stepscore.cli.data import annotate, plan, progress_labels, sim
from stepscore.cli.endings import HELP
from stepscore.cli.judging import audit, bench, calibrate, demo, inspect, judge, pairs, tune
from stepscore.cli.results import compare, export, merge, metrics, plot, report, view
from stepscore.cli.streams import print_message
from stepscore.cli.tools import cache, doctor, ls, serve_template
from stepscore.cli.training import train, weights
from stepscore.errors import OptionError, exit_error

CONTEXT_SETTINGS: dict[str, Any] = {"help_option_names": ["-h", "--help"]}

app = typer.Typer(
    name="stepscore",
    help="Score every step of a recorded robot rollout, not only its end.",
    epilog=HELP,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings=CONTEXT_SETTINGS,
)
app.command("demo", rich_help_panel=judging.PANEL)(demo.demo)
app.command("inspect", rich_help_panel=judging.PANEL)(inspect.inspect)
app.command("judge", rich_help_panel=judging.PANEL)(judge.judge)
app.command("calibrate", rich_help_panel=judging.PANEL)(calibrate.calibrate)
app.command("audit", rich_help_panel=judging.PANEL)(audit.audit)
app.command("bench", rich_help_panel=judging.PANEL)(bench.bench)
app.add_typer(pairs.app, name="pairs", rich_help_panel=judging.PANEL)
app.command("tune", rich_help_panel=judging.PANEL)(tune.tune)
app.command("merge", rich_help_panel=results.PANEL)(merge.merge)
app.command("metrics", rich_help_panel=results.PANEL)(metrics.metrics)
app.command("compare", rich_help_panel=results.PANEL)(compare.compare)
app.command("report", rich_help_panel=results.PANEL)(report.report)
app.command("view", rich_help_panel=results.PANEL)(view.view)
app.command("plot", rich_help_panel=results.PANEL)(plot.plot)
app.command("export", rich_help_panel=results.PANEL)(export.export)
app.command("plan", rich_help_panel=data.PANEL)(plan.plan)
app.command("annotate", rich_help_panel=data.PANEL)(annotate.annotate)
app.command("progress-labels", rich_help_panel=data.PANEL)(progress_labels.progress_labels)
app.command("sim", rich_help_panel=data.PANEL)(sim.sim)
app.command("weights", rich_help_panel=training.PANEL)(weights.weights)
app.add_typer(train.app, name="train", rich_help_panel=training.PANEL)
app.command("ls", rich_help_panel=tools.PANEL)(ls.ls)
app.command("serve-template", rich_help_panel=tools.PANEL)(serve_template.serve_template)
app.command("doctor", rich_help_panel=tools.PANEL)(doctor.doctor)
app.add_typer(cache.app, name="cache", rich_help_panel=tools.PANEL)


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
    _hide_flag_types(command)
    return command


def _hide_flag_types(command: Any) -> None:
    """Keep ``<bool>`` out of the help of flags, which take no value."""
    context = typer.Context(command, **CONTEXT_SETTINGS)
    for option in command.get_params(context):
        if getattr(option, "is_flag", False) and option.metavar is None:
            option.metavar = ""
    for inner in getattr(command, "commands", {}).values():
        _hide_flag_types(inner)


def invoke(context: Any) -> int:
    """Run the command of a context; return 0. Everything else, exits included, is raised."""
    try:
        with context:
            context.command.invoke(context)
    except SystemExit as error:
        # rich answers a closed pipe by an exit of its own, and a library may exit with a message. Any other exit is
        # that of third-party code, whose exit code would hide that nothing was done.
        if isinstance(error.__context__, BrokenPipeError) or isinstance(error.code, str):
            raise
        raise exit_error(error) from error
    return 0


def _expand(word: str) -> list[str]:
    """Return the files a pattern stands for where the shell leaves that to the program (Windows)."""
    return (glob.glob(word) or [word]) if os.name == "nt" and set(word) & set("*?") else [word]


def _prepare() -> None:
    warnings.showwarning = _warn
    # Each retry is in the attempts table; a line for each would tear the progress bar.
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
