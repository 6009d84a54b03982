"""``stepscore cache``: the answers already paid for."""

from __future__ import annotations

import json as jsonlib
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer
from rich.markup import escape

from stepscore.cli import options
from stepscore.cli.tables import err, out, print_json, table

app = typer.Typer(help="The answers already paid for: stats, prune, export.", no_args_is_help=True)
CachePath = Annotated[Path | None, typer.Option("--path", help="The cache file, if not the usual one.")]


@app.command()
def stats(path: CachePath = None, json: options.Json = False) -> None:
    """Show what is kept, by model."""
    from stepscore.models.calls import CallCache

    cache = CallCache(path)
    rows = [asdict(row) for row in cache.stats()]
    if json:
        print_json({"path": str(cache.path), "models": rows})
        return
    lines = [
        [
            escape(r["model"]),
            str(r["calls"]),
            f"{r['bytes'] / 1e6:.1f} MB",
            r["oldest"][:10],
            r["newest"][:10],
        ]
        for r in rows
    ]
    out().print(table(f"Answers kept in {cache.path}", ["model", "calls", "size", "oldest", "newest"], lines))


@app.command()
def prune(
    path: CachePath = None,
    model: Annotated[str | None, typer.Option("--model", help="Only answers of this model.")] = None,
    before: Annotated[
        str | None,
        typer.Option("--before", metavar="DATE", help="Only answers older than this (2026-01-31)."),
    ] = None,
    everything: Annotated[bool, typer.Option("--all", help="Forget everything.")] = False,
) -> None:
    """Forget answers. Runs keep what was answered in their own `calls` table."""
    from datetime import date

    from stepscore.errors import OptionError
    from stepscore.models.calls import CallCache

    if model is None and before is None and not everything:
        raise OptionError("Say what to forget: --model NAME, --before DATE, or --all.")
    if before is not None:
        try:
            date.fromisoformat(before)
        except ValueError:
            raise OptionError(f"--before {before}: expected a date such as 2026-01-31.") from None
    gone = CallCache(path).prune(model=model, before=before)
    err().print(f"Forgot {gone} answers.")


@app.command()
def export(
    target: Annotated[Path, typer.Argument(metavar="FILE", help="Where to write the answers (jsonl).")],
    path: CachePath = None,
) -> None:
    """Write every answer with its key, model and date, one JSON object a line."""
    from stepscore.models.calls import CallCache

    count = 0
    with target.open("w", encoding="utf-8") as file:
        for row in CallCache(path).rows():
            file.write(jsonlib.dumps(row, ensure_ascii=False) + "\n")
            count += 1
    err().print(f"Wrote {count} answers to {target}.")
