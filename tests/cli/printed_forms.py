"""Reads printed tables back: the terminal's, Markdown and LaTeX, by the rules of these forms, not by the writers'."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator
from itertools import groupby
from typing import NamedTuple

Shown = tuple[str, tuple[str, str] | None, str]
"""A cell: its text, the ends of its interval, its note."""


class Read(NamedTuple):
    """A table as it was read back."""

    title: str
    heads: list[str]
    rows: list[list[Shown]]


NUMBER = r"-?\d+\.\d+"


def read_markdown(text: str) -> list[Read]:
    """Read pipe tables, each below its title in bold."""
    found, title = [], ""
    for piped, lines in groupby(text.splitlines(), key=lambda line: line.startswith("|")):
        block = list(lines)
        if not piped:
            title = next((line for line in reversed(block) if line.startswith("**")), "")
            continue
        cells = [[cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]] for line in block]
        assert all(re.fullmatch(r":?-{3,}:?", cell) for cell in cells[1])
        assert {len(line) for line in cells} == {len(cells[0])}
        rows = [[_markdown_cell(cell) for cell in line] for line in cells[2:]]
        found.append(
            Read(_without_backslashes(title.strip("*")), [_without_backslashes(c) for c in cells[0]], rows)
        )
    return found


def _without_backslashes(text: str) -> str:
    return re.sub(r"\\([!-/:-@\[-`{-~])", r"\1", text)


def _markdown_cell(cell: str) -> Shown:
    pattern = (
        rf"(?P<text>.*?)(?: \\\[(?P<lo>{NUMBER}), (?P<hi>{NUMBER})\\\])?(?:, (?P<note>n \d.*|[\d–]+ / .*%))?"
    )
    match = re.fullmatch(pattern, cell)
    assert match is not None
    text = match["text"]
    if text.startswith("**"):
        assert text.endswith("**")
        text = text[2:-2]
    bounds = (match["lo"], match["hi"]) if match["lo"] else None
    return _without_backslashes(text), bounds, _without_backslashes(match["note"] or "")


def read_latex(text: str) -> list[Read]:
    """Read ``table`` environments, and hold that braces, dollars and environments are balanced in each."""
    found = []
    for environment, body in re.findall(r"\\begin\{(table\*?)\}\[t\]\n(.*?)\\end\{\1\}", text, re.DOTALL):
        check_balance(body)
        assert body.count(r"\toprule") == body.count(r"\midrule") == body.count(r"\bottomrule") == 1
        title = re.search(r"\\caption\{(.*)\}\n", body)
        form = re.search(r"\\begin\{tabular\}\{@\{\}([lr]+)@\{\}\}", body)
        heads = re.search(r"\\toprule\n(.*) \\\\\n\\midrule", body)
        assert form is not None, environment
        assert heads is not None, environment
        lines = body.split(r"\midrule")[1].split(r"\bottomrule")[0].strip("\n").split("\n")
        rows = [[_latex_cell(cell) for cell in _split_cells(line.removesuffix(r" \\"))] for line in lines]
        assert all(line.endswith(r" \\") for line in lines)
        names = [_latex_head(cell) for cell in _split_cells(heads[1])]
        assert {len(form[1])} == {len(names)} | {len(row) for row in rows}
        found.append(Read(plain_latex(title[1]) if title else "", names, rows))
    assert len(found) == len(re.findall(r"\\begin\{table", text))
    return found


def check_balance(text: str) -> None:
    """Hold that every brace, dollar and environment that is opened is closed, in order."""
    depth, math = 0, False
    for mark in re.findall(r"\\.|[{}$%#&_^~]", text):
        if mark == "$":
            math = not math
        depth += {"{": 1, "}": -1}.get(mark, 0)
        assert depth >= 0
        assert mark not in "%#~", "a comment, a parameter or a tie"
        assert mark not in "_^" or math, "a subscript outside of a formula"
        assert not (math and mark == "&"), "a cell that ends inside of a formula"
    assert depth == 0
    assert not math
    stack: list[str] = []
    for kind, name in re.findall(r"\\(begin|end)\{(\w+\*?)\}", text):
        assert kind == "begin" or stack.pop() == name
        if kind == "begin":
            stack.append(name)
    assert not stack


def _split_cells(line: str) -> list[str]:
    return re.split(r"(?<!\\)(?: |^)& ?", line)


def _latex_head(cell: str) -> str:
    stacked = re.match(r"\\shortstack\[r\]\{(.*)\}( \$\\\w+arrow\$)?$", cell)
    if stacked:
        cell = stacked[1].replace(r"\\", " ") + (stacked[2] or "")
    symbol = re.fullmatch(r"\$([a-z])\$", cell)
    return symbol[1] if symbol else plain_latex(cell)


def _latex_cell(cell: str) -> Shown:
    note = re.search(r" \{\\scriptsize \((.*)\)\}$", cell)
    if note:
        cell = cell[: note.start()]
    bold = re.fullmatch(r"\\textbf\{(.*)\}", cell)
    cell = bold[1] if bold else cell
    number = re.fullmatch(rf"\$({NUMBER})_\{{({NUMBER})\}}\^\{{({NUMBER})\}}\$", cell)
    negative = re.fullmatch(r"\$(-[\d.]+)\$", cell)
    said = plain_latex(note[1]) if note else ""
    if number:
        return number[1], (number[2], number[3]), said
    return negative[1] if negative else plain_latex(cell), None, said


def plain_latex(text: str) -> str:
    """Return what LaTeX would print of an escaped text."""
    return "".join(_plain_parts(text))


_COMMANDS = {
    "textbackslash": "\\",
    "textasciitilde": "~",
    "textasciicircum": "^",
    "textless": "<",
    "textgreater": ">",
    "textbar": "|",
    "textendash": "–",
    "ldots": "…",
    "textperiodcentered": "·",
    "char34": '"',
}
_FORMULAS = {
    "uparrow": "↑",
    "downarrow": "↓",
    "leftarrow": "←",
    "rightarrow": "→",
    "leftrightarrow": "↔",
    "Leftarrow": "⇐",
    "Rightarrow": "⇒",
    "Leftrightarrow": "⇔",
    "geq": "≥",
    "leq": "≤",
    "neq": "≠",
    "approx": "≈",
    "times": "×",
    "pm": "±",
    "surd": "√",
    "infty": "∞",
    "lambda": "λ",
    "Lambda": "Λ",
}


def _formula(name: str) -> str:
    if name in _FORMULAS:
        return _FORMULAS[name]
    letter = name.removeprefix("var").upper()
    return unicodedata.lookup(f"GREEK {'CAPITAL' if name[0].isupper() else 'SMALL'} LETTER {letter}")


def _plain_parts(text: str) -> Iterator[str]:
    token = re.compile(
        r"\$(?P<script>[_^])\{(?P<digit>\d)\}\$|(?P<minus>\$-\$)|"
        r"\\rule\{0\.5em\}\{(?P<rule>[\d.]+)em\}|\\(?P<command>[a-z]+\d*)\{\}|\$\\(?P<formula>\w+)\$|\\(?P<mark>[^a-z])"
        r"|\{(?P<guarded>[\[\]*])\}|(?P<nothing>\{\})|(?P<ligature>--)|(?P<other>[^\\${}])"
    )
    at = 0
    while at < len(text):
        match = token.match(text, at)
        assert match is not None, text[at:]
        assert match["ligature"] is None, "two hyphens that LaTeX draws as a dash"
        at = match.end()
        if match["rule"]:
            yield "·▁▂▃▄▅▆▇█"[round(8 * float(match["rule"]) / 0.6)]
        elif match["script"]:
            yield {"_": "₀₁₂₃₄₅₆₇₈₉", "^": "⁰¹²³⁴⁵⁶⁷⁸⁹"}[match["script"]][int(match["digit"])]
        elif match["minus"]:
            yield "−"
        elif match["nothing"] is None:
            yield (
                _COMMANDS.get(match["command"] or "")
                or (match["formula"] and _formula(match["formula"]))
                or match["mark"]
                or match["guarded"]
                or match["other"]
            )


def read_terminal(text: str) -> list[Read]:
    """Read the tables of a terminal so wide that nothing folds: columns stand at least three spaces apart."""
    lines = text.splitlines()
    found = []
    for rule in (number for number, line in enumerate(lines) if line.strip() and set(line) <= set("─ ")):
        first, last = rule, rule
        while first and lines[first - 1].strip():
            first -= 1
        while last + 1 < len(lines) and lines[last + 1].strip():
            last += 1
        title = lines[first - 2].strip() if first >= 2 and not lines[first - 1].strip() else ""
        block = lines[first:rule] + lines[rule + 1 : last + 1]
        spans = list(_columns(block))
        heads = [" ".join(line[a:b].strip() for line in lines[first:rule]).strip() for a, b in spans]
        rows: list[list[list[str]]] = []
        for line in lines[rule + 1 : last + 1]:
            cells = [line[a:b].strip() for a, b in spans]
            if cells[0]:
                rows.append([[] for _ in spans])
            for column, cell in enumerate(cells):
                if cell:
                    rows[-1][column].append(cell)
        found.append(Read(title, heads, [[_terminal_cell(cell) for cell in row] for row in rows]))
    return found


def _columns(block: list[str]) -> Iterator[tuple[int, int]]:
    width = max(map(len, block))
    blank = "".join(
        " " if all(line[at : at + 1].strip() == "" for line in block) else "x" for at in range(width)
    )
    for match in re.finditer(r"x(?:x| {1,2}(?=x))*", blank):
        yield match.span()


def _terminal_cell(lines: list[str]) -> Shown:
    text, *rest = lines or [""]
    bounds = None
    if rest and (match := re.fullmatch(rf"({NUMBER})…({NUMBER})", rest[0])):
        bounds, rest = (match[1], match[2]), rest[1:]
    return text, bounds, " ".join(rest)
