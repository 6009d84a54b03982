"""A table as LaTeX, with the rules of the package booktabs.

An interval is written as sub- and superscript, ``$87.5_{52.9}^{97.8}$``: the form in which eleven metrics still fit
on a page. Nothing but booktabs is needed, and any text is escaped: what pdfLaTeX has no command for, such as Chinese,
stays as it is, and a comment above the table names it.
"""

from __future__ import annotations

import re
import unicodedata
from itertools import chain

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
    "·": r"\textperiodcentered{}",
    "█": r"\rule{0.5em}{0.6em}",
}
_FORMULAS = {
    "↑": "uparrow",
    "↓": "downarrow",
    "←": "leftarrow",
    "→": "rightarrow",
    "↔": "leftrightarrow",
    "⇐": "Leftarrow",
    "⇒": "Rightarrow",
    "⇔": "Leftrightarrow",
    "≥": "geq",
    "≤": "leq",
    "≠": "neq",
    "≈": "approx",
    "×": "times",
    "±": "pm",
    "√": "surd",
    "∞": "infty",
    "∆": "Delta",
    "ε": "varepsilon",
    "φ": "varphi",
}
_GREEK = (
    "αβγδζηθικλμνξπρστυχψωΓΔΘΛΞΠΣΥΦΨΩ",
    "alpha beta gamma delta zeta eta theta iota kappa lambda mu nu xi pi rho sigma tau upsilon chi psi omega "
    "Gamma Delta Theta Lambda Xi Pi Sigma Upsilon Phi Psi Omega",
)
"""Letters of policies' names, such as π₀, and their commands."""
_FORMULAS |= dict(zip(_GREEK[0], _GREEK[1].split(), strict=True))
_ESCAPES |= {character: rf"$\{name}$" for character, name in _FORMULAS.items()}
_ESCAPES |= {digit: f"$_{{{value}}}$" for value, digit in enumerate("₀₁₂₃₄₅₆₇₈₉")}
_ESCAPES |= {digit: f"$^{{{value}}}$" for value, digit in enumerate("⁰¹²³⁴⁵⁶⁷⁸⁹")}
_ESCAPES["−"] = "$-$"
WIDE = 6
"""Columns from which on a table is more than one column of a two-column paper."""
NARROW = 56
"""Characters of a line that fit into one column of a two-column paper."""
_BLOCKS = " ▁▂▃▄▅▆▇"
_ACCENTED = set("«»ÐÞðþĄąĐđĘęĦħĮįĸĿŀŉŊŋŦŧŲųſ")
"""Letters below U+0180 that LaTeX's default encoding lacks."""
_PUNCTUATION = set("‐‑‒–—―‖‘’“”†‡•‰‱※‽⁄€™")
_LIGATURES = re.compile(r"(?<=-)(?=-)|(?<=')(?=')|(?<=,)(?=,)|(?<=[`?!])(?=`)")
"""Between two characters that LaTeX would draw as one other: a dash, a quote, a Spanish mark."""


def latex_table(table: PrintedTable) -> str:
    r"""Return the table as a ``table`` environment; it needs ``\usepackage{booktabs}``."""
    # Over both columns of a two-column paper where one is too narrow for it.
    wide = len(table.columns) > WIDE or _characters(table) > NARROW
    environment, size = (
        ("table*", r"\footnotesize\setlength{\tabcolsep}{3pt}") if wide else ("table", r"\small")
    )
    form = "".join("l" if column.left else "r" for column in table.columns)
    lines = [
        *_unknown_characters(table),
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


def _characters(table: PrintedTable) -> float:
    """Estimate a table's width in characters; sub- and superscripts are small and share their width."""
    widths: list[float] = [
        max(map(len, column.name.split("\n"))) + (2 if column.arrow else 0) for column in table.columns
    ]
    for row in table.rows:
        for place, cell in enumerate(row.cells):
            bounds = 0.7 * max(map(len, cell.bounds)) if cell.bounds else 0
            widths[place] = max(widths[place], len(cell.text) + bounds + 0.7 * len(cell.note))
    return sum(widths) + 2 * (len(widths) - 1)


def _unknown_characters(table: PrintedTable) -> list[str]:
    """Return a comment that names what pdfLaTeX would stop at; nothing where it knows every character."""
    texts = chain(
        (table.title, *table.notes, *(column.name for column in table.columns)),
        (text for row in table.rows for cell in row.cells for text in (cell.text, cell.note)),
    )
    found = sorted(
        {c for text in texts for c in _line(text) if not (_is_known(c) or c in _ESCAPES or c in _BLOCKS)}
    )
    if not found:
        return []
    return [f"% Compile with XeLaTeX or LuaLaTeX, in a font that has: {' '.join(found)}"]


def _is_known(character: str) -> bool:
    accented = character < "\u0180" and character not in _ACCENTED
    return accented or character in _PUNCTUATION


def _line(text: str) -> str:
    """Return a text on one line, its accents composed: file names of macOS have them apart."""
    composed = unicodedata.normalize("NFC", text)
    return " ".join("".join(c if c.isprintable() else " " for c in composed).split())


def latex_text(text: str) -> str:
    """Return a text that LaTeX prints as it is, on one line."""
    line = _line(text)
    return "".join("".join(map(_escape, part)) + "{}" for part in _LIGATURES.split(line)).removesuffix("{}")


def _escape(character: str) -> str:
    if character in _BLOCKS[1:]:
        return rf"\rule{{0.5em}}{{{0.6 * _BLOCKS.index(character) / 8:.3g}em}}"
    return _ESCAPES.get(character, character)


def _head(column: Column) -> str:
    lines = [latex_text(line) for line in column.name.split("\n") if line.strip()] or [""]
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
