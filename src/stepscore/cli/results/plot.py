"""``stepscore plot``: draws figures for papers from run folders."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Annotated

import typer

from stepscore._options import DEFAULT_REVISION
from stepscore.cli import options
from stepscore.cli.outputs import FIGURE, Force, check_output, new_folder
from stepscore.cli.progress import show_progress
from stepscore.cli.tables import err


def plot(
    runs: options.RunFolders,
    out: Annotated[
        Path, typer.Option("--out", "-o", callback=new_folder, metavar="DIR", help="Folder for the files.")
    ],
    kind: Annotated[
        str,
        typer.Option(
            "--kind",
            metavar="A,B",
            help="Kinds of figures, or all: see docs/results/plots.md.",
        ),
    ] = "all",
    episode: Annotated[
        str | None,
        typer.Option("--episode", metavar="ID", help="Episode of trace, sheet, overlay and clip."),
    ] = None,
    formats: Annotated[
        str, typer.Option("--format", metavar="A,B", help="svg, png. Of a clip: mp4 (default), gif.")
    ] = "svg,png",
    around: Annotated[
        str | None,
        typer.Option(
            "--around", metavar="PART", help="Part that a clip shows: drop, stall or START-END in seconds."
        ),
    ] = None,
    by: options.GroupBy = "policy",
    metric: Annotated[
        str | None,
        typer.Option(
            "--metrics",
            metavar="A,B",
            help="Metrics of leaderboard and differences (`stepscore ls metrics`).",
        ),
    ] = None,
    revision: options.Revision = DEFAULT_REVISION,
    done_at: options.DoneAt = None,
    scenes: options.Scenes = "auto",
    view: Annotated[
        str | None,
        typer.Option(
            "--view", metavar="NAME", help="Camera of trace, sheet, overlay and clip. Default: the main view."
        ),
    ] = None,
    source: options.RunSource = None,
    force: Force = False,
) -> None:
    """Draw figures for a paper, or an episode's video or clip.

    Prints the files written. With --kind all, kinds that cannot be drawn from these runs are listed and left out.
    """
    from stepscore._imports import check_extra
    from stepscore.report import KINDS
    from stepscore.report import plot as draw
    from stepscore.runs import open_run

    check_extra("plot", "Drawing figures")
    kinds = options.split_names(kind) or ["all"]
    for there in _figures_in(out, [name for name in KINDS if "all" in kinds or name in kinds]):
        check_output(there, FIGURE, force=force)
    with show_progress("Opening runs"):
        result = draw(
            [open_run(path) for path in runs],
            out,
            kinds=None if "all" in kinds else kinds,
            episode=episode,
            formats=options.split_names(formats) or [],
            by=options.split_names(by) or [],
            names=options.split_names(metric),
            revision=revision,
            done_at=done_at,
            scenes=scenes,
            view=view,
            around=around,
            source=source,
        )
    for path in result.paths:
        typer.echo(path)
    for name, reason in result.left_out.items():
        err().print(f"No {name}: {reason}", soft_wrap=True, markup=False)


def _figures_in(folder: Path, kinds: list[str]) -> list[Path]:
    """Return the files in a folder that figures of these kinds may replace, for any episode or page."""
    names = "|".join(
        f"{kind}_.*" if kind in ("trace", "sheet", "overlay", "clip") else rf"{kind}(-\d+)?" for kind in kinds
    )
    return sorted(
        path for path in folder.glob("*.*") if re.fullmatch(rf"({names})\.(svg|png|mp4|gif)", path.name)
    )
