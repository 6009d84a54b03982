"""``--format``: the forms in which a command prints its result, with ``--json`` as a short form."""

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
Json = Annotated[bool, typer.Option("--json", help="Print the result as JSON. Short for --format json.")]


def chosen_format(given: Format | None, *, json: bool = False) -> Format:
    """Return the form that the two options choose; an error if they disagree."""
    if json and given not in (None, Format.JSON):
        raise OptionError(f"--json and --format {given} cannot be combined; use one of them.")
    return Format.JSON if json else given or Format.TABLE
