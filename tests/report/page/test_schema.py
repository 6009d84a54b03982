"""The page's data have the declared types, and the page's own types are generated from them."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pydantic import ConfigDict, TypeAdapter, ValidationError
from typing_extensions import is_typeddict

from stepscore.report.page import (
    audit_page_data,
    board_page_data,
    columns,
    data,
    page_data,
    schema,
    table_types,
)
from stepscore.runs import Run
from tests.report.planted_audits import planted_audit
from tests.report.planted_boards import planted_board
from tools.contract import CONTRACT, contract


@pytest.fixture(autouse=True)
def exact() -> Iterator[None]:
    """Check fields exactly: none is missing, none is added, none is converted."""
    types: list[Any] = [
        one for module in (columns, table_types, schema) for one in vars(module).values() if is_typeddict(one)
    ]
    types = list(dict.fromkeys(types))
    for one in types:
        one.__pydantic_config__ = ConfigDict(extra="forbid", strict=True)
    yield
    for one in types:
        del one.__pydantic_config__


def check(kind: Any, value: Any) -> None:
    TypeAdapter(kind).validate_json(json.dumps(value, allow_nan=False))


def test_the_types_of_the_page_are_generated_from_the_schema() -> None:
    assert CONTRACT.read_text() == contract(), "Run: python -m tools.contract"


def test_a_page_has_the_declared_types(toy_page: Any, tiny_page: Any) -> None:
    check(schema.PageData, toy_page)
    check(schema.PageData, tiny_page)


def test_the_pages_of_an_audit_and_of_a_board_have_them_too(tmp_path: Path) -> None:
    outcomes: Any = {"frozen-first": "fail", "reversed": "pass"}
    check(schema.PageData, audit_page_data(planted_audit(tmp_path / "audit", outcomes, pairs=2)))
    check(schema.PageData, board_page_data(planted_board(tmp_path / "board")))


def test_the_parts_of_a_large_page_have_them_too(tiny_run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    parts: dict[str, Any] = {}

    class Kept:
        def write(self, name: str, value: Any) -> str:
            parts[name] = value
            return name

    monkeypatch.setattr(data, "MAX_BYTES", 0)
    page = page_data([tiny_run], parts=Kept())
    check(schema.PageData, page)
    assert page["paged"]
    for name, value in parts.items():
        kinds = {"column": columns.ColumnPart, "verdicts": columns.AnswerPart}
        check(kinds.get(name.split("-")[2], columns.PagePart), value)
    assert {name.split("-")[2] for name in parts} == {"page", "column", "sample"}


def test_a_value_of_another_type_is_found(toy_page: Any) -> None:
    wrong_values: list[dict[str, Any]] = [{"title": 3}, {"more": 1}, {"runs": [{}]}]
    for wrong in wrong_values:
        with pytest.raises(ValidationError):
            check(schema.PageData, {**toy_page, **wrong})
