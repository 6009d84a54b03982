"""Tables for people: one value, and a writer for each form of text. It imports no room.

A :class:`PrintedTable` holds the cells with the numbers behind them. Terminal, Markdown, LaTeX and notebook show the
same cells; JSON and CSV hold the numbers themselves.
"""

from stepscore._tables.cells import (
    UNKNOWN,
    Cell,
    count_cell,
    estimate_cell,
    group_name,
    number_cell,
    own_n,
    percent,
    percent_cell,
    seconds,
    text_cell,
)
from stepscore._tables.latex import latex_table
from stepscore._tables.markup import escape_markdown, html_table, markdown_table
from stepscore._tables.table import Column, PrintedTable, TableRow, cell_records

__all__ = [
    "UNKNOWN",
    "Cell",
    "Column",
    "PrintedTable",
    "TableRow",
    "cell_records",
    "count_cell",
    "escape_markdown",
    "estimate_cell",
    "group_name",
    "html_table",
    "latex_table",
    "markdown_table",
    "number_cell",
    "own_n",
    "percent",
    "percent_cell",
    "seconds",
    "text_cell",
]
