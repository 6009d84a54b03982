"""Tables for the terminal, and the same rows as JSON and CSV."""

from __future__ import annotations

import csv
import io
import json
import math
import sys
from collections.abc import Mapping, Sequence
from typing import Any

from rich.box import SIMPLE_HEAD
from rich.console import Console, JustifyMethod
from rich.table import Table
from rich.text import Text

Row = Mapping[str, Any]

MAX_FIRST_COLUMN = 24
"""Characters that the first column of a table gets at most before it folds."""


def out() -> Console:
    """Return the console for results: stdout."""
    return Console(file=sys.stdout, highlight=False)


def err() -> Console:
    """Return the console for progress and messages: stderr."""
    return Console(stderr=True, highlight=False)


def print_json(value: object) -> None:
    """Print strict JSON: NaN as null."""
    sys.stdout.write(json.dumps(_plain(value), indent=2, ensure_ascii=False) + "\n")


def print_csv(rows: Sequence[Row]) -> None:
    """Print rows as CSV with a header; a cell is empty where the value is unknown."""
    text = io.StringIO()
    names = list(dict.fromkeys(name for row in rows for name in row))
    writer = csv.DictWriter(text, names, lineterminator="\n")
    writer.writeheader()
    writer.writerows(
        {name: "" if _plain(value) is None else value for name, value in row.items()} for row in rows
    )
    sys.stdout.write(text.getvalue())


def table(title: str, columns: Sequence[str], rows: Sequence[Sequence[str]], *, caption: str = "") -> Table:
    """Return a table whose first column is text and whose others are numbers."""
    styled = Table(
        title=title, title_justify="left", caption=caption, caption_justify="left", box=SIMPLE_HEAD
    )
    for index, name in enumerate(columns):
        # Names may fold, though not to single letters; a number that folds cannot be read.
        min_width = _first_width(columns, rows) if index == 0 else None
        justify: JustifyMethod = "left" if index == 0 else "right"
        styled.add_column(name, justify=justify, overflow="fold", no_wrap=index > 0, min_width=min_width)
    for row in rows:
        styled.add_row(*row)
    return styled


def tables(
    title: str, columns: Sequence[str], rows: Sequence[Sequence[str]], *, width: int, caption: str = ""
) -> list[Table]:
    """Return a table, or as many as it takes to fit the width, each with the first column again."""
    available = width - 4 - _first_width(columns, rows)
    parts: list[list[int]] = [[]]
    used = 0
    for index in range(1, len(columns)):
        column_width = 3 + _width([columns[index], *(row[index] for row in rows)])
        if parts[-1] and used + column_width > available:
            parts.append([])
            used = 0
        parts[-1].append(index)
        used += column_width
    return [
        table(
            title if part is parts[0] else "",
            [columns[0], *(columns[i] for i in part)],
            [[row[0], *(row[i] for i in part)] for row in rows],
            caption=caption if part is parts[-1] else "",
        )
        for part in parts
    ]


def _first_width(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> int:
    return min(MAX_FIRST_COLUMN, _width([columns[0], *(row[0] for row in rows)]))


def _width(cells: Sequence[str]) -> int:
    """Return the width of the widest line of some cells, without their markup."""
    return max(Text.from_markup(line).cell_len for cell in cells for line in cell.split("\n"))


def percent(value: float, digits: int = 1) -> str:
    """Return ``0.62`` as ``62.0``; a dash where the value is unknown."""
    return "–" if not math.isfinite(value) else f"{100 * value:.{digits}f}"


def interval(value: float, lo: float, hi: float) -> str:
    """Return a value with its interval below it, in percent."""
    bounds = f"{percent(lo)}…{percent(hi)}" if math.isfinite(lo) and math.isfinite(hi) else "no interval"
    return f"{percent(value)}\n{bounds}"


def _plain(value: object) -> object:
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, Mapping):
        return {key: _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    return value
