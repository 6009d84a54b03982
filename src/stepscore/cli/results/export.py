"""``stepscore export``: writes judged episodes as a file of another tool."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Annotated

import typer

from stepscore.cli import options
from stepscore.cli.outputs import RECORDING, Force, check_output, new_file
from stepscore.cli.progress import show_progress
from stepscore.cli.tables import err


def export(
    runs: options.RunFolders,
    out: Annotated[
        Path,
        typer.Option(
            "--out", "-o", callback=new_file, metavar="FILE", help="The file; for rerun it ends in .rrd."
        ),
    ],
    to: Annotated[str, typer.Option("--to", metavar="TOOL", help="The tool that opens it: rerun.")],
    episodes: Annotated[
        str | None,
        typer.Option(
            "--episodes", metavar="IDS", help="Only these episodes: ids, numbers, ranges (0,3,7-9)."
        ),
    ] = None,
    videos: Annotated[
        str,
        typer.Option(
            "--videos",
            metavar="HOW",
            help="encoded: copied as recorded where the tool plays that codec, else as images; images; or none.",
        ),
    ] = "encoded",
    source: options.RunSource = None,
    force: Force = False,
) -> None:
    """Write episodes for another tool, such as Rerun.

    --to rerun writes a recording for Rerun's viewer, which opens on the worst failure: rerun FILE.rrd
    """
    from stepscore.report.exports import TARGETS, check_target
    from stepscore.report.exports import export as write
    from stepscore.runs import open_run

    path = check_target(to, out)
    check_output(path, RECORDING, force=force)
    with show_progress("Opening runs"):
        opened = [open_run(folder) for folder in runs]
        ids = None
        if episodes is not None:
            rows = [
                row
                for run in opened
                for row in run.episodes().select(["episode_id", "source_index"]).to_pylist()
            ]
            listed = dict.fromkeys((row["episode_id"], row["source_index"]) for row in rows)
            ids = options.chosen_ids(list(listed), episodes)
        result = write(opened, path, to=to, episodes=ids, videos=videos, source=source)
    for name, why in result.failed.items():
        err().print(f"failed {name}: {why}", soft_wrap=True, markup=False)
    for note in result.notes:
        err().print(note, soft_wrap=True, markup=False)
    err().print(
        f"{result.episodes} episodes, {result.frames} frames, {result.points} points, "
        f"{result.path.stat().st_size / 1e6:.1f} MB; open it: {TARGETS[to].command} {shlex.quote(str(result.path))}",
        soft_wrap=True,
        markup=False,
    )
    typer.echo(result.path)
    if result.failed:
        raise typer.Exit(1)
