"""The five forms of a command's result: measured once, written in each form, read back."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable
from types import ModuleType
from typing import Any, NamedTuple

import pytest

from stepscore._tables import Cell, PrintedTable
from stepscore.cli.formats import Format
from stepscore.cli.tables import print_result
from tests.cli.printed_forms import Read, Shown, read_latex, read_markdown, read_terminal


class Printed(NamedTuple):
    """What a command gave to the writers: tables, the rows of JSON, those of CSV."""

    tables: list[PrintedTable]
    records: Any
    options: dict[str, Any]


def result_of(command: ModuleType, call: Callable[[], None]) -> Printed:
    """Run a command once, and take its result before it is printed: measuring takes the time."""
    found: list[Printed] = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(
            command,
            "print_result",
            lambda _, tables, records, **given: found.append(Printed(tables, records, given)),
        )
        call()
    (result,) = found
    return result


def written(result: Printed, form: Format, capsys: pytest.CaptureFixture[str]) -> str:
    print_result(form, result.tables, result.records, **result.options)
    return capsys.readouterr().out


def all_forms(
    result: Printed, capsys: pytest.CaptureFixture[str]
) -> tuple[list[Read], Any, list[dict[str, str]]]:
    """The tables, once it is held that terminal, Markdown and LaTeX show the same; the rows of JSON and CSV."""
    terminal, markdown, latex = (
        read(written(result, form, capsys))
        for form, read in (
            (Format.TABLE, read_terminal),
            (Format.MARKDOWN, read_markdown),
            (Format.LATEX, read_latex),
        )
    )
    assert markdown == latex
    assert markdown == terminal
    rows = json.loads(written(result, Format.JSON, capsys))
    assert rows
    return markdown, rows, list(csv.DictReader(io.StringIO(written(result, Format.CSV, capsys))))


def shown_cells(table: PrintedTable) -> list[list[Shown]]:
    return [[(cell.text.strip(), cell.bounds, cell.note) for cell in row.cells] for row in table.rows]


def as_csv(value: object) -> str:
    return "" if value is None else str(value)


def assert_same_rows(lines: list[dict[str, str]], rows: list[dict[str, Any]]) -> None:
    """The rows of CSV are those of JSON, a column for each key of a row's group."""
    for line, row in zip(lines, rows, strict=True):
        flat = {**row.get("group", {}), **{name: value for name, value in row.items() if name != "group"}}
        assert {name: text for name, text in line.items() if text} == {
            name: as_csv(value) for name, value in flat.items() if as_csv(value)
        }


def check_tables(tables: list[PrintedTable], rows: list[dict[str, Any]]) -> int:
    """Every cell that names a metric shows the number of its row of JSON; returns how many do."""
    by_name = {(json.dumps(row["group"], sort_keys=True), row["metric"]): row for row in rows}
    checked = 0
    for table in tables:
        for row in table.rows:
            key = json.dumps(row.group, sort_keys=True)
            for column, cell in zip(table.columns, row.cells, strict=True):
                if cell.parts:
                    group = json.dumps({"task": row.group["task"], "policy": column.name}, sort_keys=True)
                    for text, part in zip(cell.text.split(" / "), cell.parts, strict=True):
                        assert_same(text, by_name[group, part.metric]["value"])
                elif cell.metric:
                    check_cell(cell, by_name[key, cell.metric])
                checked += bool(cell.parts or cell.metric)
    return checked


def check_cell(cell: Cell, row: dict[str, Any], scale: float = 100, digits: int = 1) -> None:
    """A cell's number, interval and n are those of its row of JSON; ``scale`` 100 where they are percent."""
    assert_same(cell.text, row["value"])
    if cell.bounds:
        assert [f"{scale * row[end]:z.{digits}f}" for end in ("lo", "hi")] == list(cell.bounds)
    elif cell.bare:
        assert row["lo"] is None
    if cell.note.startswith("n "):
        assert cell.note.split()[1] == str(row["n"])


def assert_same(text: str, value: float | None) -> None:
    """A cell's text is the number: a count, a percentage, a difference in points or a number as it is."""
    if value is None:
        assert text in ("–", "unknown")
        return
    digits = len(text.partition(".")[2])
    assert float(text) in (float(f"{100 * value:.{digits}f}"), float(f"{value:.{digits}f}"))
