"""A table as GitHub Markdown, and as the HTML that a notebook shows."""

from __future__ import annotations

import re
from html import escape

from stepscore._tables.cells import Cell
from stepscore._tables.table import PrintedTable

_SPECIAL = re.compile(r"([\\`*_{}\[\]<>|#~$&!])")


def markdown_table(table: PrintedTable) -> str:
    """Return the table in Markdown: title, pipe table, notes. An interval is ``87.5 [52.9, 97.8]``."""
    heads = [escape_markdown(column.head) for column in table.columns]
    lines = [f"**{escape_markdown(table.title)}**", ""] if table.title else []
    lines.append(_line(heads))
    lines.append(_line([":---" if column.left else "---:" for column in table.columns]))
    lines += [_line([_cell(cell) for cell in row.cells]) for row in table.rows]
    for note in table.notes:
        lines += ["", escape_markdown(note)]
    return "\n".join(lines) + "\n"


def _line(cells: list[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _cell(cell: Cell) -> str:
    text = escape_markdown(cell.text)
    if cell.bold:
        text = f"**{text}**"
    if cell.bounds is not None:
        text += rf" \[{cell.bounds[0]}, {cell.bounds[1]}\]"
    return f"{text}, {escape_markdown(cell.note)}" if cell.note else text


def escape_markdown(text: str) -> str:
    """Return a text that Markdown shows as it is, on one line."""
    line = " ".join("".join(c if c.isprintable() else " " for c in text).split())
    return _SPECIAL.sub(r"\\\1", line)


def html_table(table: PrintedTable) -> str:
    """Return the table as HTML, every text in it escaped."""
    head = "".join(f"<th>{escape(column.head)}</th>" for column in table.columns)
    body = "".join("<tr>" + "".join(_html_cell(cell) for cell in row.cells) + "</tr>" for row in table.rows)
    title = f"<caption>{escape(table.title)}</caption>" if table.title else ""
    notes = "".join(f"<p>{escape(note)}</p>" for note in table.notes)
    return f"<table>{title}<thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>{notes}"


def _html_cell(cell: Cell) -> str:
    text = escape(cell.text)
    if cell.bold:
        text = f"<b>{text}</b>"
    if cell.bounds is not None:
        text += f" <small>[{escape(cell.bounds[0])}, {escape(cell.bounds[1])}]</small>"
    return f"<td>{text} <small>{escape(cell.note)}</small></td>" if cell.note else f"<td>{text}</td>"
