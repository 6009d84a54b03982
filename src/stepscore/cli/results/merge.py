"""``stepscore merge``: make one run of shards or of several runs, or one labels file of several."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from stepscore.cli.outputs import new_folder
from stepscore.cli.progress import show_progress, with_bar
from stepscore.cli.tables import err

if TYPE_CHECKING:
    from stepscore.runs import Merged

MAX_PRINTED = 20
"""Lines about what is missing or contradicts itself that are printed; run.json has all."""


def merge(
    runs: Annotated[
        list[Path], typer.Argument(metavar="RUN", help="One or more run folders; or labels files.")
    ],
    out: Annotated[
        Path | None,
        typer.Option(
            "--out",
            "-o",
            callback=new_folder,
            metavar="RUN",
            help="The merged run: a new folder, or one of those given; default: the folder whose shards are merged. "
            "Of labels files: the new file (Parquet).",
        ),
    ] = None,
    partial: Annotated[
        bool,
        typer.Option(
            "--partial",
            help="Merge what is there, though shards or episodes are missing or contradict each other.",
        ),
    ] = False,
) -> None:
    """Merge shards, runs of one protocol, or labels files.

    The tables are byte for byte those of one undivided run, usage apart. Of an episode that is there more than once,
    the latest successful judgement is taken. Where something is missing it is listed, and the exit code is 1.
    Labels files (of `annotate --shard`) are merged to one file.
    """
    from stepscore.runs import merge as merge_runs

    if any(path.is_file() for path in runs):
        _merge_labels(runs, out, partial=partial)
        return
    with show_progress("Reading runs"):
        merged = merge_runs(runs, out, partial=partial)
    _print(merged)
    if not merged.complete:
        raise typer.Exit(1)


def _merge_labels(files: Sequence[Path], out: Path | None, *, partial: bool) -> None:
    from stepscore.errors import OptionError
    from stepscore.procedures import merge_labels

    if out is None:
        raise OptionError("Labels files are merged into a new file: name it with -o LABELS.parquet.")
    if partial:
        raise OptionError("--partial is for runs: of labels files, what is there is merged.")
    merged = with_bar(merge_labels, "Merging labels")(files, out)
    twice = f", {merged.repeated} of them in several files" if merged.repeated else ""
    err().print(
        f"{merged.files} files, {merged.episodes} episodes{twice}; wrote {merged.rows} labels to {out}",
        soft_wrap=True,
    )


def _print(merged: Merged) -> None:
    twice = f", {merged.duplicates} of them more than once" if merged.duplicates else ""
    failed = f", {merged.failed} failed" if merged.failed else ""
    err().print(f"{merged.parts} parts, {merged.episodes} episodes{twice}{failed}", soft_wrap=True)
    _print_lines("Missing", merged.gaps)
    _print_lines("Contradiction", merged.conflicts)
    if merged.run is None:
        err().print(
            "Nothing was merged. Run the missing shards again, then this command; or merge what is there: --partial",
            soft_wrap=True,
        )
        return
    err().print(
        f"Run: {merged.run.path}\nNext: stepscore metrics {shlex.quote(str(merged.run.path))}", soft_wrap=True
    )


def _print_lines(title: str, lines: Sequence[str]) -> None:
    for line in lines[:MAX_PRINTED]:
        err().print(f"{title}: {line}", soft_wrap=True, markup=False)
    if len(lines) > MAX_PRINTED:
        err().print(f"{title}: … and {len(lines) - MAX_PRINTED} more")
