"""Tables for the terminal, and the same rows as JSON and CSV."""

from __future__ import annotations

import csv
import io
import json
import math
import sys
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TextIO

from rich.box import SIMPLE_HEAD
from rich.console import Console, JustifyMethod
from rich.errors import MarkupError
from rich.table import Table
from rich.text import Text

from stepscore.cli.streams import safe_text

if TYPE_CHECKING:
    from stepscore.types import Estimate

Row = Mapping[str, Any]

MAX_FIRST_COLUMN = 24
"""Characters that the first column of a table gets at most before it folds."""


class Terminal(Console):
    """A console that prints text as it is: neither markup nor emoji codes nor control characters in it count.

    What is printed often comes from others: file names, instructions, errors of servers. Markup of our own is
    printed with ``markup=True``, around parts that went through :func:`rich.markup.escape`.
    """

    def __init__(self, stream: TextIO) -> None:
        super().__init__(file=stream, highlight=False, markup=False, emoji=False)

    def print(self, *objects: Any, **options: Any) -> None:
        """Print as rich does, strings in a safe form."""
        super().print(*(safe_text(o) if isinstance(o, str) else o for o in objects), **options)

    def on_broken_pipe(self) -> None:
        """Raise the error again, which rich is handling: it would exit with a code of its own."""
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
    """Print rows as CSV with a header; a cell is empty where the value is unknown."""
    text = io.StringIO()
    names = list(dict.fromkeys(name for row in rows for name in row))
    writer = csv.DictWriter(text, names, lineterminator="\n")
    writer.writeheader()
    writer.writerows(
        {name: "" if _plain(value) is None else value for name, value in row.items()} for row in rows
    )
    # In a file the data stay what they are.
    sys.stdout.write(safe_text(text.getvalue()) if sys.stdout.isatty() else text.getvalue())


def _encodable(text: str) -> bool:
    try:
        text.encode(getattr(sys.stdout, "encoding", None) or "utf-8")
    except UnicodeEncodeError:
        return False
    return True


def table(title: str, columns: Sequence[str], rows: Sequence[Sequence[str]], *, caption: str = "") -> Table:
    """Return a table whose first column is text and whose others are numbers.

    Title, caption and cells are markup: what comes from others goes through :func:`rich.markup.escape` first.
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
        justify: JustifyMethod = "left" if index == 0 else "right"
        styled.add_column(
            Text(safe_text(name)), justify=justify, overflow="fold", no_wrap=index > 0, min_width=min_width
        )
    for row in rows:
        styled.add_row(*map(_text, row))
    return styled


def _text(markup: str) -> Text:
    """Return markup as text; as it stands where it is not markup after all."""
    try:
        return Text.from_markup(safe_text(markup), emoji=False)
    except MarkupError:
        return Text(safe_text(markup))


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
    return max(_text(line).cell_len for cell in cells for line in cell.split("\n"))


def print_notes(notes: Iterable[str]) -> None:
    """Print sentences that belong below a table, a line each; empty ones are none."""
    for note in notes:
        if note:
            out().print(note)


def percent(value: float, digits: int = 1) -> str:
    """Return ``0.62`` as ``62.0``; a dash where the value is unknown."""
    return "–" if not math.isfinite(value) else f"{100 * value:.{digits}f}"


def interval(value: float, lo: float, hi: float) -> str:
    """Return a value with its interval below it, in percent."""
    bounds = f"{percent(lo)}…{percent(hi)}" if math.isfinite(lo) and math.isfinite(hi) else "no interval"
    return f"{percent(value)}\n{bounds}"


def estimate_cell(estimate: Estimate | None, n: int) -> str:
    """Return a value with its interval below it, and below that its own n and coverage where they are not the row's.

    Args:
        estimate: The estimate; a dash where there is none.
        n: Episodes of the row.
    """
    if estimate is None:
        return "–"
    whole = estimate.n == n and not estimate.coverage < 1
    text = interval(estimate.value, estimate.lo, estimate.hi) if estimate.n else "–"
    return text if whole else f"{text}\n{own_n(estimate)}"


def estimate_line(estimate: Estimate, n: int = -1) -> str:
    """Return a value with its interval on one line, and its own n where it is not ``n``; a dash without values."""
    if not estimate.n:
        return "–"
    own = "" if estimate.n == n and not estimate.coverage < 1 else f", {own_n(estimate)}"
    bounds = f"{percent(estimate.lo, 0)}…{percent(estimate.hi, 0)}"
    return f"{percent(estimate.value, 0)} ({bounds}){own}"


def own_n(estimate: Estimate) -> str:
    """Return an estimate's n, and its coverage in percent where some values are unknown."""
    unknown = f" ({_share(estimate.coverage)} %)" if estimate.coverage < 1 else ""
    return f"n {estimate.n}{unknown}"


def episodes_behind(estimates: Iterable[Estimate]) -> int:
    """Return how many episodes estimates are about, those of unknown value included."""
    return max((round(e.n / e.coverage) for e in estimates if e.coverage > 0), default=0)


def _share(coverage: float) -> str:
    # 99.7 % is not all.
    return f"{100 * coverage:.0f}" if coverage < 0.995 else f"{100 * coverage:.1f}"


def _plain(value: object) -> object:
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, Mapping):
        return {key: _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    return value
