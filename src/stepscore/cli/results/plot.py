"""``stepscore plot``: run folders in, figures for papers out."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from stepscore.cli import options
from stepscore.cli.tables import err


def plot(
    runs: Annotated[list[Path], typer.Argument(metavar="RUN...", help="One or more run folders.")],
    out: Annotated[Path, typer.Option("--out", "-o", metavar="DIR", help="Where to put the files.")],
    kind: Annotated[
        str,
        typer.Option(
            "--kind", metavar="A,B", help="Any of leaderboard, vectors, curves, sheet, overlay; or all."
        ),
    ] = "all",
    episode: Annotated[
        str | None, typer.Option("--episode", metavar="ID", help="Whose contact sheet and overlay video.")
    ] = None,
    form: Annotated[str, typer.Option("--format", metavar="A,B", help="svg, png or both.")] = "svg,png",
    by: Annotated[
        str, typer.Option("--by", help="Groups: any of dataset, robot, task, policy, judge, model, protocol.")
    ] = "policy",
    metric: Annotated[
        str | None,
        typer.Option("--metrics", metavar="A,B", help="Of the leaderboard; see `stepscore ls metrics`."),
    ] = None,
    revision: Annotated[
        str, typer.Option("--revision", help="OPD as in: paper, v1.0, v1.5 or robust.")
    ] = "v1.0",
    view: Annotated[
        str | None, typer.Option("--view", help="Camera of sheet and overlay; the main one if not given.")
    ] = None,
    width: Annotated[
        float, typer.Option("--width", metavar="INCHES", help="Of the figures; 3.4 is a paper's column.")
    ] = 3.4,
) -> None:
    """Draw runs for a paper: leaderboard, subgoal vectors, curves, and one episode as sheet and video.

    Prints the files written. With --kind all, what cannot be drawn from these runs is left out and named.
    """
    from stepscore.report.plots import plot as draw
    from stepscore.runs import open_run

    kinds = options.split_names(kind) or ["all"]
    made = draw(
        [open_run(path) for path in runs],
        out,
        kinds=None if "all" in kinds else kinds,
        episode=episode,
        formats=options.split_names(form) or [],
        by=options.split_names(by) or [],
        names=options.split_names(metric),
        revision=revision,
        view=view,
        width=width,
    )
    for path in made.paths:
        typer.echo(path)
    for name, why in made.left_out.items():
        err().print(f"No {name}: {why}", soft_wrap=True, markup=False)
