"""A table as a notebook shows it."""

from __future__ import annotations

from html import escape

from stepscore._tables.cells import Cell
from stepscore._tables.table import PrintedTable


def html_table(table: PrintedTable) -> str:
    """Return the table as HTML, every text in it escaped."""
    head = "".join(f"<th>{escape(column.head)}</th>" for column in table.columns)
    body = "".join("<tr>" + "".join(_cell(cell) for cell in row.cells) + "</tr>" for row in table.rows)
    title = f"<caption>{escape(table.title)}</caption>" if table.title else ""
    notes = "".join(f"<p>{escape(note)}</p>" for note in table.notes)
    return f"<table>{title}<thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>{notes}"


def _cell(cell: Cell) -> str:
    text = escape(cell.text)
    if cell.bold:
        text = f"<b>{text}</b>"
    if cell.bounds is not None:
        text += f" <small>[{escape(cell.bounds[0])}, {escape(cell.bounds[1])}]</small>"
    return f"<td>{text} <small>{escape(cell.note)}</small></td>" if cell.note else f"<td>{text}</td>"
