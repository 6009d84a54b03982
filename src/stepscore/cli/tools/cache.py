"""``stepscore cache``: manage the cache of models' answers and of remote recordings."""

from __future__ import annotations

import json as jsonlib
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from stepscore._files import atomic_path
from stepscore._tables import Cell, Column, PrintedTable, TableRow, count_cell, text_cell
from stepscore.cli.formats import FormatName, Json, chosen_format
from stepscore.cli.outputs import ANSWERS, Force, check_output
from stepscore.cli.tables import err, print_result

app = typer.Typer(
    help="Manage cached answers and downloaded recordings.",
    no_args_is_help=True,
)
CachePath = Annotated[
    Path | None, typer.Option("--path", metavar="FILE", help="The cache file, instead of the default one.")
]


@app.command()
def stats(path: CachePath = None, output_format: FormatName = None, json: Json = False) -> None:
    """Print the number, size and dates of the cached answers of each model."""
    from stepscore.models.calls import CallCache

    chosen = chosen_format(output_format, json=json)
    cache = CallCache(path)
    rows = [asdict(row) for row in cache.stats()]
    lines = [
        (
            text_cell(r["model"]),
            count_cell(r["calls"], "calls"),
            Cell(f"{r['bytes'] / 1e6:.1f} MB", metric="bytes", value=float(r["bytes"])),
            text_cell(r["oldest"][:10]),
            text_cell(r["newest"][:10]),
        )
        for r in rows
    ]
    heads = ("model", "calls", "size", "oldest", "newest")
    columns = tuple(Column(head, left=not place) for place, head in enumerate(heads))
    printed = PrintedTable(f"Answers in {cache.path}", columns, tuple(TableRow(line) for line in lines))
    notes = () if rows else ("Nothing is cached.",)
    print_result(chosen, [printed], {"path": str(cache.path), "models": rows}, csv_rows=rows, notes=notes)


@app.command()
def prune(
    path: CachePath = None,
    model: Annotated[
        str | None, typer.Option("--model", metavar="MODEL", help="Only answers of this model.")
    ] = None,
    before: Annotated[
        str | None,
        typer.Option("--before", metavar="DATE", help="Only answers from before this date (2026-01-31)."),
    ] = None,
    everything: Annotated[bool, typer.Option("--all", help="Delete all answers.")] = False,
) -> None:
    """Delete answers from the cache. Runs keep theirs in their `calls` table."""
    from stepscore.errors import OptionError
    from stepscore.models.calls import CallCache

    if model is None and before is None and not everything:
        raise OptionError("Choose what to delete: --model MODEL, --before DATE, or --all.")
    if before is not None:
        _time_of(before)
    deleted = CallCache(path).prune(model=model, before=before)
    err().print(f"Deleted {deleted} answers.")


@app.command()
def recordings(
    clear: Annotated[
        bool, typer.Option("--clear", help="Delete what was fetched, but for files used in the last minute.")
    ] = False,
    before: Annotated[
        str | None,
        typer.Option(
            "--before",
            metavar="DATE",
            help="With --clear: only files last used before this date (2026-01-31).",
        ),
    ] = None,
    output_format: FormatName = None,
    json: Json = False,
) -> None:
    """Print or delete the cache of remote recordings (Hub, buckets)."""
    from datetime import UTC, datetime

    from stepscore.episodes.remote import cache_limit, fetched_datasets, remove_fetched
    from stepscore.errors import OptionError

    if before is not None and not clear:
        raise OptionError("--before is for --clear: stepscore cache recordings --clear --before 2026-01-31")
    if clear:
        removed = remove_fetched(None if before is None else _time_of(before))
        err().print(f"Deleted {removed / 1e6:.1f} MB.")
        return
    chosen = chosen_format(output_format, json=json)
    limit = cache_limit()
    rows = [
        {**asdict(row), "used": datetime.fromtimestamp(row.used, UTC).isoformat(timespec="seconds")}
        for row in fetched_datasets()
    ]
    lines = [
        (
            text_cell(r["url"]),
            count_cell(r["files"], "files"),
            Cell(f"{r['bytes'] / 1e6:.1f} MB", metric="bytes", value=float(r["bytes"])),
            text_cell(r["used"][:10]),
        )
        for r in rows
    ]
    columns = tuple(
        Column(head, left=not place) for place, head in enumerate(("source", "files", "size", "used"))
    )
    printed = PrintedTable(f"Recordings in {limit.folder}", columns, tuple(TableRow(line) for line in lines))
    total = sum(r["bytes"] for r in rows)
    note = (
        f"{total / 1e9:.2f} of {limit.limit / 1e9:g} GB (STEPSCORE_REMOTE_CACHE_GB)"
        if rows
        else "Nothing is kept."
    )
    payload = {"path": str(limit.folder), "limit_bytes": int(limit.limit), "recordings": rows}
    print_result(chosen, [printed], payload, csv_rows=rows, notes=(note,))


def _time_of(day: str) -> float:
    """Return the beginning of a day, in seconds since 1970."""
    from datetime import UTC, date, datetime, time

    from stepscore.errors import OptionError

    try:
        return datetime.combine(date.fromisoformat(day), time(), UTC).timestamp()
    except ValueError:
        raise OptionError(f"--before {day}: expected a date such as 2026-01-31.") from None


@app.command()
def export(
    target: Annotated[Path, typer.Argument(metavar="FILE", help="The file (JSON lines) to write.")],
    path: CachePath = None,
    force: Force = False,
) -> None:
    """Write every cached answer with its key, model and date, one JSON object per line."""
    from stepscore.models.calls import CallCache

    check_output(target, ANSWERS, force=force)
    cache, count = CallCache(path), 0
    with atomic_path(target) as temporary, temporary.open("w", encoding="utf-8", errors="replace") as file:
        for row in cache.rows():
            file.write(jsonlib.dumps(row, ensure_ascii=False) + "\n")
            count += 1
    err().print(f"Wrote {count} answers to {target}.")
