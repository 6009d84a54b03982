"""``stepscore progress-labels``: progress labels from the stages of rollouts."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from stepscore._tables import Column, PrintedTable, TableRow, count_cell, percent_cell, text_cell
from stepscore.cli import options
from stepscore.cli.formats import Format, FormatName, Json, chosen_format
from stepscore.cli.numbers import MAX_FPS, between
from stepscore.cli.options.engines import print_shard
from stepscore.cli.outputs import Force, check_overwrite, new_table
from stepscore.cli.tables import err, print_result

if TYPE_CHECKING:
    from stepscore.episodes import Episode
    from stepscore.procedures import ProgressLabels


MAX_PRINTED_NOTES = 10
"""Problems with stages that are printed; --json lists all."""


def progress_labels(
    source: options.Source,
    method: Annotated[
        str,
        typer.Option(
            "--method",
            metavar="NAME",
            help="procvlm or sarm as published, robust (falls if undone), or linear.",
        ),
    ],
    file: Annotated[
        Path,
        typer.Option(
            "--out", "-o", callback=new_table, metavar="FILE", help="The labels file (Parquet) to write."
        ),
    ],
    fps: Annotated[
        float | None,
        typer.Option(
            "--fps",
            callback=between(0, MAX_FPS, above=True),
            metavar="FPS",
            help="Labels per second. Default: every frame.",
        ),
    ] = None,
    stages: options.LabelsFile = None,
    subgoals: options.SubgoalsFile = None,
    vocabulary: Annotated[
        Path | None,
        typer.Option(
            "--vocabulary",
            metavar="FILE",
            help="Subgoals file (YAML) with the stages. Default: the order in which they run.",
        ),
    ] = None,
    prior: Annotated[
        str | None,
        typer.Option(
            "--prior",
            metavar="NAME",
            help="Shares of progress per stage: equal, paper (SARM eq. 1) or lerobot.",
        ),
    ] = None,
    scheme: Annotated[
        str | None,
        typer.Option("--scheme", metavar="NAME", help="LeRobot's subtask columns: sparse, dense or subtask."),
    ] = None,
    view: Annotated[
        str | None,
        typer.Option(
            "--view", metavar="NAME", help="Camera whose change is measured. Default: the main view."
        ),
    ] = None,
    assume_success: Annotated[
        bool, typer.Option("--assume-success", help="Take episodes without a success label for successes.")
    ] = False,
    task: options.Task = None,
    limit: options.Limit = None,
    reader: options.ReaderName = None,
    shard_name: options.LabelsShardName = None,
    force: Force = False,
    output_format: FormatName = None,
    json: Json = False,
) -> None:
    """Label progress from the stages of episodes.

    Episodes with unusable stages are listed and left out.
    """
    from stepscore.episodes.labels import read_subgoals
    from stepscore.errors import EpisodeError, OptionError
    from stepscore.procedures import ProgressLabelOptions, label_progress, why_not_in_shards, write_labels
    from stepscore.runs import CallOptions, cut, parse_shard

    shard = None if shard_name is None else parse_shard(shard_name)
    output = chosen_format(output_format, json=json)
    check_overwrite(file, force=force)
    if fps is not None and not 0 < fps < float("inf"):
        raise OptionError(f"--fps must be above 0, got {fps}.")
    chosen = ProgressLabelOptions(method, prior, scheme, view, assume_success)  # type: ignore[arg-type]
    named = read_subgoals(vocabulary) if vocabulary is not None else None
    if shard is not None and (why := why_not_in_shards(chosen, named)) is not None:
        raise OptionError(f"--shard: {why}")
    listed = options.list_source(
        source, labels=stages, subgoals=subgoals, task=task, limit=limit, reader=reader
    )
    for problem in listed.problems[:MAX_PRINTED_NOTES]:
        err().print(f"{problem.where}: {problem.why}", markup=False, soft_wrap=True)
    episodes: Sequence[Episode] = listed
    if shard is not None:
        part = cut(listed, shard)
        print_shard(part, shard, CallOptions())
        episodes = part.episodes
    with _progress_bar(len(episodes)) as advance:
        labels = label_progress(episodes, chosen, named, on_done=advance)
    if labels.errors and not labels.progress:
        raise EpisodeError(
            f"No episode of {source} can be labelled. The first: {next(iter(labels.errors.values()))}"
        )
    author = f"stepscore progress-labels --method {method}"
    rows = {name: episode.rows(method, author, fps) for name, episode in labels.progress.items()}
    count = write_labels(file, rows)
    _print(labels, method, output)
    err().print(f"{len(rows)} of {len(episodes)} episodes labelled; wrote {count} labels to {file}")
    if labels.errors:
        raise typer.Exit(1)


@contextmanager
def _progress_bar(total: int) -> Iterator[Callable[[str], None]]:
    """Show a progress bar on stderr; yields the function that advances it."""
    from rich.progress import Progress

    with Progress(console=err(), transient=True) as progress:
        bar = progress.add_task("labels", total=total)
        yield lambda _: progress.advance(bar)


def _print(labels: ProgressLabels, method: str, form: Format) -> None:
    """Print every episode's last and highest label, and the problems with its stages."""
    summaries = {
        name: (len(episode.progress), float(episode.progress[-1]), float(episode.progress.max()))
        for name, episode in sorted(labels.progress.items())
    }
    records: list[dict[str, Any]] = [
        {
            "episode_id": name,
            "frames": frames,
            "last": last,
            "highest": highest,
            "notes": [note._asdict() for note in labels.notes.get(name, ())],
            "error": None,
        }
        for name, (frames, last, highest) in summaries.items()
    ]
    records += [{"episode_id": name, "error": text} for name, text in sorted(labels.errors.items())]
    rows = tuple(
        TableRow((text_cell(name), count_cell(n), percent_cell(last), percent_cell(highest)))
        for name, (n, last, highest) in summaries.items()
    )
    columns = (Column("episode", left=True), Column("frames"), Column("last %"), Column("highest %"))
    tables = [PrintedTable(f"Progress, {method}", columns, rows)] if rows else []
    flat = [{**r, "notes": len(r.get("notes", ()))} for r in records]
    print_result(form, tables, records, csv_rows=flat)
    if form is not Format.TABLE:
        return
    notes = [f"{name}: {p.kind}: {p.text}" for name, found in sorted(labels.notes.items()) for p in found]
    for text in notes[:MAX_PRINTED_NOTES]:
        err().print(text, markup=False, soft_wrap=True)
    if len(notes) > MAX_PRINTED_NOTES:
        err().print(
            f"… and {len(notes) - MAX_PRINTED_NOTES} more gaps and stages in another order: --json lists them"
        )
    for name, text in sorted(labels.errors.items()):
        err().print(f"{name}: not labelled: {text}", markup=False, soft_wrap=True)
