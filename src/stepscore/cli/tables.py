"""Results on stdout: tables for the terminal, Markdown and LaTeX, and the numbers behind them as JSON and CSV."""

from __future__ import annotations

import csv
import io
import json
import math
import sys
from collections.abc import Collection, Container, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, TextIO

from rich.box import SIMPLE_HEAD
from rich.console import Console, JustifyMethod
from rich.errors import MarkupError
from rich.markup import escape
from rich.table import Table
from rich.text import Text

from stepscore._tables import percent as percent
from stepscore.cli.formats import Format
from stepscore.cli.streams import safe_text

if TYPE_CHECKING:
    from stepscore._tables import Cell, PrintedTable

Row = Mapping[str, Any]

MAX_FIRST_COLUMN = 24
"""Most characters of a table's first column before it folds."""


class Terminal(Console):
    """A console that prints text literally: no markup, emoji codes or control characters.

    Pass ``markup=True`` for markup of our own, with untrusted parts through :func:`rich.markup.escape`.
    """

    def __init__(self, stream: TextIO) -> None:
        super().__init__(file=stream, highlight=False, markup=False, emoji=False)

    def print(self, *objects: Any, **options: Any) -> None:
        """Print as rich does, strings in a safe form."""
        super().print(*(safe_text(o) if isinstance(o, str) else o for o in objects), **options)

    def on_broken_pipe(self) -> None:
        """Raise the error again: rich would exit with its own code."""
        raise


def out() -> Console:
    """Return the console for results: stdout."""
    return Terminal(sys.stdout)


def err() -> Console:
    """Return the console for progress and messages: stderr."""
    return Terminal(sys.stderr)


def print_json(value: object) -> None:
    """Print strict JSON: NaN as null, and what stdout's encoding lacks as escapes."""
    plain = _plain(value)
    text = json.dumps(plain, indent=2, ensure_ascii=False)
    if safe_text(text) != text or not _encodable(text):
        text = json.dumps(plain, indent=2)
    sys.stdout.write(text + "\n")


def print_csv(rows: Sequence[Row]) -> None:
    """Print rows as CSV with a header; a cell is empty if the value is unknown."""
    text = io.StringIO()
    names = list(dict.fromkeys(name for row in rows for name in row))
    writer = csv.DictWriter(text, names, lineterminator="\n")
    writer.writeheader()
    writer.writerows(
        {name: "" if _plain(value) is None else value for name, value in row.items()} for row in rows
    )
    # Data in a file stay unchanged.
    sys.stdout.write(safe_text(text.getvalue()) if sys.stdout.isatty() else text.getvalue())


def print_result(
    form: Format,
    tables: Sequence[PrintedTable],
    records: object,
    *,
    csv_rows: Sequence[Row] | None = None,
    notes: Iterable[str] = (),
) -> None:
    """Print a result in one of the five forms.

    Args:
        form: The form.
        tables: The tables for the terminal, Markdown and LaTeX.
        records: The rows for ``--json``.
        csv_rows: The rows for CSV, a column for each key of ``group``; default: the records, or the tables' cells.
        notes: Sentences below all tables.
    """
    from stepscore._tables import cell_records, latex_table, markdown_table

    if form is Format.JSON:
        print_json(records)
    elif form is Format.CSV:
        if csv_rows is None:
            csv_rows = records if isinstance(records, list) else cell_records(tables)
        print_csv([_flat(row) for row in csv_rows])
    elif form is Format.TABLE:
        for each in tables:
            print_table(each)
        print_notes(notes)
    else:
        write = markdown_table if form is Format.MARKDOWN else latex_table
        closing = [note for note in notes if note]
        if closing and tables:
            tables = [*tables[:-1], replace(tables[-1], notes=(*tables[-1].notes, *closing))]
        text = "\n".join(write(each) for each in tables)
        sys.stdout.write(safe_text(text) if sys.stdout.isatty() else text)


def _flat(row: Row) -> Row:
    """Return a row without nesting, a column for each key of the group."""
    return {**row.get("group", {}), **{name: value for name, value in row.items() if name != "group"}}


def print_table(printed: PrintedTable) -> None:
    """Print a table for the terminal, in as many parts as its width needs, and its notes."""
    console = out()
    rows = [[_markup(cell) for cell in row.cells] for row in printed.rows]
    heads = [f"{column.name} {column.arrow}" if column.arrow else column.name for column in printed.columns]
    left = [index for index, column in enumerate(printed.columns) if column.left and index]
    # Above the table and not as its title, which would fold at the table's width.
    console.print(Text(safe_text(printed.title), style="italic"))
    for part in tables("", heads, rows, width=console.width, left=left) if rows else ():
        console.print(part)
    # Below the last part and not as its caption: that part may be one narrow column.
    print_notes(printed.notes)


def _markup(cell: Cell) -> str:
    """Return a cell as markup: the value, below it its interval, below that its own note."""
    text = f"[bold]{escape(cell.text)}[/bold]" if cell.bold else escape(cell.text)
    bounds = f"{cell.bounds[0]}…{cell.bounds[1]}" if cell.bounds is not None else ""
    return "\n".join(part for part in (text, bounds, escape(cell.note)) if part)


def _encodable(text: str) -> bool:
    try:
        text.encode(getattr(sys.stdout, "encoding", None) or "utf-8")
    except UnicodeEncodeError:
        return False
    return True


def table(
    title: str,
    columns: Sequence[str],
    rows: Sequence[Sequence[str]],
    *,
    caption: str = "",
    text_columns: Container[int] = (),
) -> Table:
    """Return a table whose first column is text and whose others are numbers, except ``text_columns``.

    Title, caption and cells are markup: pass untrusted text through :func:`rich.markup.escape` first.
    """
    styled = Table(
        title=_text(title),
        title_justify="left",
        caption=_text(caption),
        caption_justify="left",
        box=SIMPLE_HEAD,
    )
    for index, name in enumerate(columns):
        # Names may fold, though not to single letters; a number that folds cannot be read.
        min_width = _first_width(columns, rows) if index == 0 else None
        is_text = index == 0 or index in text_columns
        justify: JustifyMethod = "left" if is_text else "right"
        styled.add_column(
            Text(safe_text(name)), justify=justify, overflow="fold", no_wrap=not is_text, min_width=min_width
        )
    for row in rows:
        styled.add_row(*map(_text, row))
    return styled


def _text(markup: str) -> Text:
    """Return markup as text, unchanged if it is not valid markup."""
    try:
        return Text.from_markup(safe_text(markup), emoji=False)
    except MarkupError:
        return Text(safe_text(markup))


def tables(
    title: str,
    columns: Sequence[str],
    rows: Sequence[Sequence[str]],
    *,
    width: int,
    left: Collection[int] = (),
) -> list[Table]:
    """Return the table, split into several to fit ``width``, each with the first column again."""
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
    made = []
    for part in parts:
        heads = [columns[0], *(columns[i] for i in part)]
        cells = [[row[0], *(row[i] for i in part)] for row in rows]
        styled = table(title if part is parts[0] else "", heads, cells)
        for place, index in enumerate(part, 1):
            if index in left:
                # A text may fold; a single one has all the width that is left.
                styled.columns[place].justify, styled.columns[place].no_wrap = "left", len(part) > 1
        made.append(styled)
    return made


def _first_width(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> int:
    return min(MAX_FIRST_COLUMN, _width([columns[0], *(row[0] for row in rows)]))


def _width(cells: Sequence[str]) -> int:
    """Return the width of the widest line of some cells, without their markup."""
    return max(_text(line).cell_len for cell in cells for line in cell.split("\n"))


def print_notes(notes: Iterable[str]) -> None:
    """Print sentences that belong below a table, a line each; skip empty ones."""
    for note in notes:
        if note:
            out().print(note)


def _plain(value: object) -> object:
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, Mapping):
        return {key: _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    return value
