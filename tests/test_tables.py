"""Tables as values: any text comes out of Markdown, LaTeX and HTML as it went in, and breaks nothing."""

from __future__ import annotations

import unicodedata
from html.parser import HTMLParser
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stepscore._tables import (
    Cell,
    Column,
    PrintedTable,
    TableRow,
    cell_records,
    html_table,
    latex_table,
    markdown_table,
    number_cell,
    text_cell,
)
from stepscore._tables.latex import latex_text
from tests.cli.printed_forms import check_balance, plain_latex, read_latex, read_markdown

TEXTS = st.text(st.characters(codec="utf-8"), max_size=30) | st.text(
    r"\{}&%$#_~^<>|\"[]*-'`,?!–…↑→π₀²−∆ ab", max_size=30
)


def one_line(text: str) -> str:
    return " ".join("".join(c if c.isprintable() else " " for c in text).split())


def composed(text: str) -> str:
    """The line as LaTeX gets it: accents composed, the increment sign the Greek letter that looks alike."""
    return one_line(unicodedata.normalize("NFC", text)).replace("∆", "Δ")


def table_of(text: str, value: str = "1.0") -> PrintedTable:
    columns = (Column("name", left=True), Column("x\ny", "higher"), Column("n"))
    row = TableRow((text_cell(text, bold=True), Cell(value, ("-0.5", "2.0"), "n 3 (50 %)"), Cell("7")))
    return PrintedTable(text, columns, (row, row), (text,))


@given(TEXTS)
def test_latex_prints_any_text_as_it_is(text: str) -> None:
    escaped = latex_text(text)
    check_balance(escaped)
    assert plain_latex(escaped) == composed(text)


@given(TEXTS)
def test_no_text_can_break_a_latex_table(text: str) -> None:
    (read,) = read_latex(latex_table(table_of(text)))
    assert read.title == composed(text)
    assert read.heads == ["name", "x y ↑", "n"]
    assert read.rows[1][1] == ("1.0", ("-0.5", "2.0"), "n 3 (50 %)")
    assert read.rows[0][0][0] == composed(text)


@pytest.mark.parametrize(
    "text", ["π₀.₅ a→b α−β x² ≠ Ω", "naïve Müller", "e\u0301te\u0301", "⇒ ⇔ ↔ ∞ √2 ∆x ≈ φ ε λ"]
)
def test_names_of_policies_and_signs_have_commands(text: str) -> None:
    assert plain_latex(latex_text(text)) == composed(text)
    assert not latex_table(table_of(text)).startswith("%")


def test_what_latex_has_no_command_for_is_named_above_the_table() -> None:
    first, second, *_ = latex_table(table_of("任务 🤖 đ")).splitlines()
    assert first == "% Compile with XeLaTeX or LuaLaTeX, in a font that has: đ 任 务 🤖"
    assert second.startswith(r"\begin{table}")


def test_a_table_with_long_names_is_set_across_both_columns() -> None:
    assert latex_table(table_of("short")).startswith(r"\begin{table}[t]")
    assert latex_table(table_of("a name that has a good many words, more than a column holds")).startswith(
        r"\begin{table*}[t]"
    )


def test_what_follows_the_end_of_a_row_is_no_option_of_it() -> None:
    lines = latex_table(table_of("[5pt]")).splitlines()
    after = [line for before, line in pairwise(lines) if before.endswith(r"\\")]
    assert after
    assert not [line for line in after if line.startswith(("[", "*"))]


@given(TEXTS)
def test_no_text_can_break_a_markdown_table(text: str) -> None:
    written = markdown_table(table_of(text))
    lines = [line for line in written.splitlines() if line.startswith("|")]
    assert len(lines) == 4
    (read,) = read_markdown(written)
    assert read.rows[0][1:] == [("1.0", ("-0.5", "2.0"), "n 3 (50 %)"), ("7", None, "")]


@given(TEXTS)
def test_a_notebook_shows_any_text_as_text(text: str) -> None:
    tags: list[str] = []

    class Tags(HTMLParser):
        def handle_starttag(self, tag: str, attrs: object) -> None:
            tags.append(tag)
            assert not attrs

    Tags().feed(html_table(table_of(text)))
    known = {"table", "thead", "tbody", "tr", "th", "td", "b", "small", "p"}
    assert set(tags) == known | ({"caption"} if text else set())


def test_a_row_has_a_cell_for_every_column() -> None:
    with pytest.raises(ValueError, match="1 cells in 2 columns"):
        PrintedTable("t", (Column("a"), Column("b")), (TableRow((Cell("x"),)),))


def test_as_data_a_cell_is_its_number() -> None:
    columns = (Column("row", left=True), Column("a\nb"), Column("c"))
    row = TableRow((text_cell("r"), number_cell(0.123456, ".1f"), number_cell(float("nan"), ".1f")))
    estimated = TableRow(
        (text_cell("e"), Cell("50.0", ("1", "2"), value=0.5, lo=0.01, hi=0.02), text_cell("x"))
    )
    assert cell_records([PrintedTable("t", columns, (row, estimated))]) == [
        {"table": "t", "row": "r", "column": "a b", "value": 0.123456},
        {"table": "t", "row": "r", "column": "c", "value": None},
        {"table": "t", "row": "e", "column": "a b", "value": 0.5, "lo": 0.01, "hi": 0.02},
        {"table": "t", "row": "e", "column": "c", "value": "x"},
    ]
