"""``stepscore export``: writes judged episodes as a file of another tool."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Annotated

import typer

from stepscore.cli import options
from stepscore.cli.outputs import QUESTIONS, RECORDING, Force, check_file, check_output
from stepscore.cli.progress import show_progress
from stepscore.cli.tables import err
from stepscore.errors import OptionError, UnknownNameError


def export(
    runs: Annotated[
        list[Path],
        typer.Argument(metavar="RUN", help="Run folders. For vqa: one source of labelled episodes."),
    ],
    out: Annotated[
        Path,
        typer.Option("--out", "-o", metavar="PATH", help="For rerun a file (.rrd), for vqa a folder."),
    ],
    to: Annotated[
        str,
        typer.Option("--to", metavar="TOOL", help="rerun, or vqa (training questions for language models)."),
    ],
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
            help="Copy videos as recorded if playable (encoded), as images, or none.",
        ),
    ] = "encoded",
    source: options.RunSource = None,
    labels: options.LabelsFile = None,
    force: Force = False,
) -> None:
    """Write episodes for Rerun, or training questions for language models.

    --to rerun writes a recording for Rerun's viewer, which opens on the worst failure: rerun FILE.rrd

    --to vqa writes questions with right answers from your labels, for LLaMA-Factory and TRL.
    """
    if to == "vqa":
        if len(runs) != 1 or source is not None or videos != "encoded":
            raise OptionError("--to vqa takes one source, and neither --source nor --videos.")
        _export_vqa(runs[0], out, labels, episodes, force=force)
        return
    if labels is not None:
        raise OptionError("--labels belongs to --to vqa. A run has its labels.")
    check_file(out)
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


def _export_vqa(source: Path, folder: Path, labels: Path | None, chosen: str | None, *, force: bool) -> None:
    """Write training questions about a source; labels and subgoals next to the data are used."""
    from stepscore.report.exports import export_vqa
    from stepscore.training import LabelledSource

    check_output(folder, QUESTIONS, force=force)
    with show_progress("Listing episodes"):
        found = LabelledSource(source, labels).episodes(
            lambda text: err().print(text, soft_wrap=True, markup=False)
        )
    if chosen is not None:
        ids = set(options.chosen_ids([(episode.id, episode.source_index) for episode in found], chosen))
        unknown = sorted(ids - {episode.id for episode in found})
        if unknown:
            raise UnknownNameError(
                "episode", unknown[0], [episode.id for episode in found], where=str(source)
            )
        found = [episode for episode in found if episode.id in ids]
    with show_progress("Writing questions"):
        result = export_vqa(found, folder)
    for name, why in list(result.failed.items())[:3]:
        err().print(f"left out {name}: {why}", soft_wrap=True, markup=False)
    total = sum(sum(counts.values()) for counts in result.questions.values())
    err().print(
        f"{total} questions about {sum(result.episodes.values())} of {len(found)} episodes, {result.images} images; "
        f"counts and how to load them: {folder / 'README.md'}",
        soft_wrap=True,
        markup=False,
    )
    typer.echo(folder)
    if result.failed:
        raise typer.Exit(1)
