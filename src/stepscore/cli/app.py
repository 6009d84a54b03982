"""The ``stepscore`` command."""

from __future__ import annotations

import logging
import sys
import warnings
from typing import Annotated, TextIO

import typer

from stepscore import __version__
from stepscore.cli import data, judging, results, tools, training
from stepscore.cli.data import annotate, plan, progress_labels, sim
from stepscore.cli.judging import calibrate, choose_template, demo, inspect, judge
from stepscore.cli.results import compare, metrics, plot, report, view
from stepscore.cli.tools import cache, ls
from stepscore.cli.training import train, weights
from stepscore.errors import StepScoreError

app = typer.Typer(
    name="stepscore",
    help="Score every step of a recorded robot rollout, not only its end.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.command("demo", rich_help_panel=judging.PANEL)(demo.demo)
app.command("inspect", rich_help_panel=judging.PANEL)(inspect.inspect)
app.command("judge", rich_help_panel=judging.PANEL)(judge.judge)
app.command("calibrate", rich_help_panel=judging.PANEL)(calibrate.calibrate)
app.command("choose-template", rich_help_panel=judging.PANEL)(choose_template.choose_template)
app.command("metrics", rich_help_panel=results.PANEL)(metrics.metrics)
app.command("compare", rich_help_panel=results.PANEL)(compare.compare)
app.command("report", rich_help_panel=results.PANEL)(report.report)
app.command("view", rich_help_panel=results.PANEL)(view.view)
app.command("plot", rich_help_panel=results.PANEL)(plot.plot)
app.command("plan", rich_help_panel=data.PANEL)(plan.plan)
app.command("annotate", rich_help_panel=data.PANEL)(annotate.annotate)
app.command("progress-labels", rich_help_panel=data.PANEL)(progress_labels.progress_labels)
app.command("sim", rich_help_panel=data.PANEL)(sim.sim)
app.command("weights", rich_help_panel=training.PANEL)(weights.weights)
app.add_typer(train.app, name="train", rich_help_panel=training.PANEL)
app.command("ls", rich_help_panel=tools.PANEL)(ls.ls)
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
) -> None:
    """Score every step of a recorded robot rollout, not only its end."""


def _warn(
    message: Warning | str,
    category: type[Warning],
    filename: str,
    lineno: int,
    file: TextIO | None = None,
    line: str | None = None,
) -> None:
    typer.secho(f"Warning: {message}", fg="yellow", err=True)


def main() -> None:
    """Run the command line; a ``StepScoreError`` is printed as one message, without a traceback."""
    warnings.showwarning = _warn
    # Each retry is in the attempts table; a line for each would tear the progress bar.
    logging.getLogger("stamina").setLevel(logging.ERROR)
    try:
        app()
    except StepScoreError as error:
        typer.secho(f"Error: {error}", fg="red", err=True)
        sys.exit(2)
    except BrokenPipeError:
        # `stepscore metrics RUN | head` closes our stdout early; that is not an error.
        sys.stderr.close()
        sys.exit(0)
