"""``stepscore labels``: progress labels from the stages of rollouts."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from stepscore.cli import options
from stepscore.cli.tables import err, out, percent, print_json, table

if TYPE_CHECKING:
    from stepscore.procedures import Labelled


MOST_NOTES = 10
"""Oddities of spans that are printed; --json lists all."""


def labels(
    source: options.Source,
    method: Annotated[
        str,
        typer.Option(
            "--method",
            help="procvlm or sarm as published; robust: falls when a stage is undone, rests when the picture "
            "does; linear: in time.",
        ),
    ],
    file: Annotated[
        Path, typer.Option("--out", "-o", metavar="FILE", help="The labels file (Parquet) to write.")
    ],
    fps: Annotated[
        float | None, typer.Option("--fps", metavar="X", help="Labels a second; every frame if not given.")
    ] = None,
    stages: options.LabelsFile = None,
    subgoals: options.SubgoalsFile = None,
    vocabulary: Annotated[
        Path | None,
        typer.Option(
            "--vocabulary",
            metavar="FILE",
            help="The stages of each task, in order (YAML, as subgoals); else the order in which they run.",
        ),
    ] = None,
    prior: Annotated[
        str | None,
        typer.Option("--prior", help="Shares of the stages: equal, paper (SARM eq. 1) or lerobot."),
    ] = None,
    scheme: Annotated[
        str | None, typer.Option("--scheme", help="LeRobot's subtask columns: sparse, dense or subtask.")
    ] = None,
    view: Annotated[
        str | None, typer.Option("--view", help="The camera to look at; the main one if not given.")
    ] = None,
    assume_success: Annotated[
        bool, typer.Option("--assume-success", help="Episodes without a success label are demonstrations.")
    ] = False,
    task: options.Task = None,
    limit: options.Limit = None,
    reader: options.ReaderName = None,
    force: Annotated[bool, typer.Option("--force", help="Write over a file that is there.")] = False,
    json: options.Json = False,
) -> None:
    """Label the progress of every episode of SOURCE from its stages, and write a labels file.

    An episode whose stages cannot be used is left out and named; the others are labelled.
    """
    from stepscore.episodes import open_episodes
    from stepscore.episodes.labels import read_subgoals
    from stepscore.errors import EpisodeError, OptionError
    from stepscore.procedures import LabelOptions, label_progress, write_labels

    if file.exists() and not force:
        raise OptionError(
            f"{file} is there already; it may hold a person's work. Write over it with --force."
        )
    if fps is not None and not 0 < fps < float("inf"):
        raise OptionError(f"--fps is {fps}; it must be above 0.")
    chosen = LabelOptions(method, prior, scheme, view, assume_success)  # type: ignore[arg-type]
    found = open_episodes(source, labels=stages, subgoals=subgoals, task=task, limit=limit, reader=reader)
    for problem in found.problems[:MOST_NOTES]:
        err().print(f"{problem.where}: {problem.why}", markup=False, soft_wrap=True)
    named = read_subgoals(vocabulary) if vocabulary is not None else None
    with _bar(len(found)) as step:
        made = label_progress(found, chosen, named, on_done=step)
    if not made.progress:
        raise EpisodeError(
            f"No episode of {source} can be labelled. The first: {next(iter(made.errors.values()))}"
        )
    author = f"stepscore labels --method {method}"
    rows = {name: one.rows(method, author, fps) for name, one in made.progress.items()}
    count = write_labels(file, rows)
    _print(made, method, json=json)
    err().print(f"{len(rows)} of {len(found)} episodes labelled; wrote {count} labels to {file}")
    if made.errors:
        raise typer.Exit(1)


@contextmanager
def _bar(total: int) -> Iterator[Callable[[str], None]]:
    """A progress bar on stderr, and the function that moves it."""
    from rich.progress import Progress

    with Progress(console=err(), transient=True) as progress:
        row = progress.add_task("labels", total=total)
        yield lambda _: progress.advance(row)


def _print(made: Labelled, method: str, *, json: bool) -> None:
    """Every episode's last and highest label, and what is wrong or odd about its stages."""
    found = {
        name: (len(one.progress), float(one.progress[-1]), float(one.progress.max()))
        for name, one in sorted(made.progress.items())
    }
    if json:
        print_json(
            [
                {
                    "episode_id": name,
                    "frames": frames,
                    "last": last,
                    "highest": highest,
                    "notes": [note._asdict() for note in made.notes.get(name, ())],
                    "error": None,
                }
                for name, (frames, last, highest) in found.items()
            ]
            + [{"episode_id": name, "error": text} for name, text in sorted(made.errors.items())]
        )
        return
    rows = [[name, str(n), percent(last), percent(highest)] for name, (n, last, highest) in found.items()]
    if rows:
        out().print(table(f"Progress, {method}", ["episode", "frames", "last %", "highest %"], rows))
    notes = [f"{name}: {note.kind}: {note.text}" for name, odd in sorted(made.notes.items()) for note in odd]
    for text in notes[:MOST_NOTES]:
        err().print(text, markup=False, soft_wrap=True)
    if len(notes) > MOST_NOTES:
        err().print(
            f"… and {len(notes) - MOST_NOTES} more gaps and stages in another order: --json lists them"
        )
    for name, text in sorted(made.errors.items()):
        err().print(f"{name}: not labelled: {text}", markup=False, soft_wrap=True)
