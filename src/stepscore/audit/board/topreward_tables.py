"""TOPReward's tables for people."""

from __future__ import annotations

import math
from collections.abc import Sequence

from stepscore._tables import Column, PrintedTable, TableRow, number_cell, text_cell
from stepscore.audit.board.tables import bounded_cell
from stepscore.audit.board.topreward import BY_DATASET, PROMPTS, SUCCESS, TARGETS, TableCell

BY_ROW = {BY_DATASET: "dataset or task", SUCCESS: "score", TARGETS: "words", PROMPTS: "form"}
"""What the rows of each table are."""
NOT_TRAINED = (
    "The embedded judge was trained on the form upstream with True and False alone: what it says in other forms and "
    "words is measured, and no sign of what a large model would do."
)
AS_PUBLISHED = "Published: TOPReward's authors, measured by others on other data."
NOTE = "VOC on labelled successes, AUC over all episodes; 95 % intervals resample scenes within tasks."


def topreward_tables(cells: Sequence[TableCell]) -> list[PrintedTable]:
    """Return the four tables of each model for people, published figures below them."""
    keys = dict.fromkeys((cell.model, cell.table) for cell in cells)
    return [
        _table(model, table, [c for c in cells if (c.model, c.table) == (model, table)])
        for model, table in keys
    ]


def _table(model: str, title: str, cells: Sequence[TableCell]) -> PrintedTable:
    columns = list(dict.fromkeys(cell.column for cell in cells))
    rows = []
    for name in dict.fromkeys(cell.row for cell in cells):
        by_column = {cell.column: cell for cell in cells if cell.row == name}
        known = [cell.estimate.n for cell in by_column.values() if cell.estimate is not None]
        n = number_cell(max(known, default=math.nan), ".0f")
        group = {"model": model, "table": title, "row": name}
        values = [bounded_cell(by_column[column].estimate, column, "z.3f") for column in columns]
        rows.append(TableRow((text_cell(name), *values, n), group))
    notes = [NOTE, NOT_TRAINED] if model == "embedded" and title in (TARGETS, PROMPTS) else [NOTE]
    notes += dict.fromkeys(f"{_named(cell)}: unknown. {cell.reason}" for cell in cells if cell.reason)
    said = [f"{_named(cell)}: {cell.published}." for cell in cells if cell.published]
    notes += [f"{AS_PUBLISHED} {' '.join(dict.fromkeys(said))}"] if said else []
    heads = (Column(BY_ROW[title], left=True), *(Column(column, "higher") for column in columns), Column("n"))
    return PrintedTable(f"{title}, {model}", heads, tuple(rows), tuple(notes))


def _named(cell: TableCell) -> str:
    return cell.column if cell.table == BY_DATASET else cell.row
