"""The ``stepscore`` command."""

from __future__ import annotations

import logging
import sys
import warnings
from typing import Annotated, TextIO

import typer

from stepscore import __version__
from stepscore.cli.data import annotate, inspect, plan, progress_labels, sim
from stepscore.cli.general import cache, demo
from stepscore.cli.general import ls as listing
from stepscore.cli.judging import calibrate, judge
from stepscore.cli.judging import choose_template as templates
from stepscore.cli.results import compare, metrics, plot, report, view
from stepscore.cli.training import train, weights
from stepscore.errors import StepScoreError

app = typer.Typer(
    name="stepscore",
    help="Score every step of a recorded robot rollout, not only its end.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.command("inspect")(inspect.inspect)
app.command("judge")(judge.judge)
app.command("metrics")(metrics.metrics)
app.command("compare")(compare.compare)
app.command("plot")(plot.plot)
app.command("report")(report.report)
app.command("view")(view.view)
app.command("plan")(plan.plan)
app.command("annotate")(annotate.annotate)
app.command("progress-labels")(progress_labels.progress_labels)
app.command("calibrate")(calibrate.calibrate)
app.command("choose-template")(templates.choose_template)
app.command("weights")(weights.weights)
app.command("sim")(sim.sim)
app.command("ls")(listing.ls)
app.command("demo")(demo.demo)
app.add_typer(train.app, name="train")
app.add_typer(cache.app, name="cache")


def _version(asked: bool) -> None:
    if asked:
        typer.echo(__version__)
        raise typer.Exit


@app.callback()
def root(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version and leave.")
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
    """Run the command line; an error of ours is one message, without a traceback."""
    warnings.showwarning = _warn
    # Each retry is in the attempts table; a line for each would tear the progress bar.
    logging.getLogger("stamina").setLevel(logging.ERROR)
    try:
        app()
    except StepScoreError as error:
        typer.secho(f"Error: {error}", fg="red", err=True)
        sys.exit(2)
    except BrokenPipeError:
        # `stepscore metrics RUN | head` closes our stdout early; that is no error.
        sys.stderr.close()
        sys.exit(0)
