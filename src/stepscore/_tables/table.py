"""A printed table as a value: title, columns, rows of cells, notes."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from stepscore._tables.cells import Cell

ARROWS = {"higher": "↑", "lower": "↓", "neither": ""}
"""The better direction of a metric, as a mark."""


@dataclass(frozen=True)
class Column:
    """A column.

    Attributes:
        name: Its head; a line break in it is where a narrow form may break it.
        better: Which values are better: ``"higher"``, ``"lower"`` or ``"neither"``.
        left: Whether it holds texts, which begin at the left; numbers end at the right.
    """

    name: str
    better: str = "neither"
    left: bool = False

    @property
    def arrow(self) -> str:
        """The better direction as a mark; empty where neither is better."""
        return ARROWS[self.better]

    @property
    def head(self) -> str:
        """The head on one line, with its arrow."""
        return f"{self.name.replace(chr(10), ' ')} {self.arrow}".strip()


@dataclass(frozen=True)
class TableRow:
    """A row: a cell for each column, and what its episodes share, as ``--json`` has it."""

    cells: tuple[Cell, ...]
    group: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class PrintedTable:
    """A table for people; the first column names the rows.

    Attributes:
        title: What it shows.
        columns: Its columns, the first left.
        rows: Its rows.
        notes: Sentences that belong below it.
    """

    title: str
    columns: tuple[Column, ...]
    rows: tuple[TableRow, ...]
    notes: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        for row in self.rows:
            if len(row.cells) != len(self.columns):
                raise ValueError(f"{self.title}: {len(row.cells)} cells in {len(self.columns)} columns.")


def cell_records(tables: Iterable[PrintedTable]) -> list[dict[str, Any]]:
    """Return a row for each cell of some tables: table, row, column, and the number with its interval, else the text.

    The form of CSV where a result is several tables of different columns.
    """
    return [
        {
            "table": table.title,
            "row": row.cells[0].text,
            "column": column.name.replace("\n", " "),
            "value": cell.text if cell.value is None else _number(cell.value),
            **({} if cell.bounds is None else {"lo": cell.lo, "hi": cell.hi}),
        }
        for table in tables
        for row in table.rows
        for column, cell in zip(table.columns[1:], row.cells[1:], strict=True)
    ]


def _number(value: float) -> float | int | None:
    if not math.isfinite(value):
        return None
    return int(value) if value == int(value) and abs(value) < 2**53 else value
