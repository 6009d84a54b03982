"""A table as LaTeX, with the rules of the package booktabs.

An interval is written as sub- and superscript, ``$87.5_{52.9}^{97.8}$``: the form in which eleven metrics still fit
on a page. Nothing but booktabs is needed, and any text is escaped.
"""

from __future__ import annotations

import re

from stepscore._tables.cells import UNKNOWN, Cell
from stepscore._tables.table import Column, PrintedTable

_ESCAPES = {
    "\\": r"\textbackslash{}",
    "{": r"\{",
    "}": r"\}",
    "&": r"\&",
    "%": r"\%",
    "$": r"\$",
    "#": r"\#",
    "_": r"\_",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "<": r"\textless{}",
    ">": r"\textgreater{}",
    "|": r"\textbar{}",
    '"': r"\char34{}",
    # After the end of a row a bracket or a star would be an option of the row before.
    "[": "{[}",
    "]": "{]}",
    "*": "{*}",
    "–": r"\textendash{}",
    "…": r"\ldots{}",
    "↑": r"$\uparrow$",
    "↓": r"$\downarrow$",
    "≥": r"$\geq$",
    "≤": r"$\leq$",
    "×": r"$\times$",
    "±": r"$\pm$",
    "·": r"\textperiodcentered{}",
    "█": r"\rule{0.5em}{0.6em}",
}
WIDE = 6
"""Columns from which on a table is more than one column of a two-column paper."""
_BLOCKS = " ▁▂▃▄▅▆▇"
_LIGATURES = re.compile(r"(?<=-)(?=-)|(?<=')(?=')|(?<=,)(?=,)|(?<=[`?!])(?=`)")
"""Between two characters that LaTeX would draw as one other: a dash, a quote, a Spanish mark."""


def latex_table(table: PrintedTable) -> str:
    r"""Return the table as a ``table`` environment; it needs ``\usepackage{booktabs}``."""
    # Over both columns of a two-column paper where one is too narrow for it.
    wide = len(table.columns) > WIDE
    environment, size = (
        ("table*", r"\footnotesize\setlength{\tabcolsep}{3pt}") if wide else ("table", r"\small")
    )
    form = "".join("l" if column.left else "r" for column in table.columns)
    lines = [
        rf"\begin{{{environment}}}[t]",
        r"\centering",
        *([rf"\caption{{{latex_text(table.title)}}}"] if table.title else []),
        size,
        rf"\begin{{tabular}}{{@{{}}{form}@{{}}}}",
        r"\toprule",
        " & ".join(_head(column) for column in table.columns) + r" \\",
        r"\midrule",
        *(" & ".join(_cell(cell) for cell in row.cells) + r" \\" for row in table.rows),
        r"\bottomrule",
        r"\end{tabular}",
    ]
    notes = list(table.notes)
    if any(cell.bounds for row in table.rows for cell in row.cells):
        notes.append("Sub- and superscript: the ends of the interval.")
    if notes:
        text = " ".join(latex_text(note) for note in notes)
        lines += ["", r"\smallskip", rf"\parbox{{\linewidth}}{{\footnotesize {text}}}"]
    return "\n".join([*lines, rf"\end{{{environment}}}"]) + "\n"


def latex_text(text: str) -> str:
    """Return a text that LaTeX prints as it is, on one line."""
    line = " ".join("".join(c if c.isprintable() else " " for c in text).split())
    return "".join("".join(map(_escape, part)) + "{}" for part in _LIGATURES.split(line)).removesuffix("{}")


def _escape(character: str) -> str:
    if character in _BLOCKS[1:]:
        return rf"\rule{{0.5em}}{{{0.6 * _BLOCKS.index(character) / 8:.3g}em}}"
    return _ESCAPES.get(character, character)


def _head(column: Column) -> str:
    lines = [latex_text(line) for line in column.name.split("\n")]
    text = lines[0] if len(lines) == 1 else r"\shortstack[r]{" + r"\\".join(lines) + "}"
    if len(text) == 1 and text.isascii() and text.isalpha():
        text = f"${text}$"  # a head of a single letter is a symbol: n, p, q
    arrow = latex_text(column.arrow)
    return f"{text} {arrow}" if arrow else text


def _cell(cell: Cell) -> str:
    if cell.bounds is not None:
        low, high = (bound.replace(UNKNOWN, "?") for bound in cell.bounds)
        number = f"{cell.text}_{{{low}}}^{{{high}}}"
        text = rf"$\mathbf{{{cell.text}}}_{{{low}}}^{{{high}}}$" if cell.bold else f"${number}$"
    elif cell.value is not None and cell.text.startswith("-"):
        text = f"${cell.text}$"  # a minus sign, not a hyphen
    else:
        text = latex_text(cell.text)
        text = rf"\textbf{{{text}}}" if cell.bold and text else text
    return rf"{text} {{\scriptsize ({latex_text(cell.note)})}}" if cell.note else text
