"""``--format``: the forms in which a command prints its result, with ``--json`` and ``--csv`` as short forms."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

import typer

from stepscore.errors import OptionError


class Format(StrEnum):
    """The form of a result."""

    TABLE = "table"
    JSON = "json"
    CSV = "csv"
    MARKDOWN = "markdown"
    LATEX = "latex"


FormatName = Annotated[
    Format | None,
    typer.Option("--format", metavar="NAME", help=f"Form of the result: {', '.join(Format)}."),
]
Json = Annotated[bool, typer.Option("--json", help="Print the result as JSON; short for --format json.")]
Csv = Annotated[bool, typer.Option("--csv", help="Print the result as CSV; short for --format csv.")]


def chosen_format(given: Format | None, *, json: bool = False, csv: bool = False) -> Format:
    """Return the form that the three options ask for; an error where they disagree."""
    flags = {Format.JSON: json, Format.CSV: csv}
    asked = {form: f"--{form.value}" for form, on in flags.items() if on}
    if given is not None:
        asked.setdefault(given, f"--format {given.value}")
    if len(asked) > 1:
        raise OptionError(f"{' and '.join(sorted(asked.values()))} cannot be combined; use one of them.")
    return next(iter(asked), Format.TABLE)
