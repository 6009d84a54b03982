"""The pages of docs/measurements are those that the committed JSON makes."""

from __future__ import annotations

import pytest

from tools.measurements import PAGES, page, pages


def test_every_page_is_what_its_json_makes() -> None:
    made = pages()
    assert made
    assert {path: path.read_text(encoding="utf-8") for path in PAGES.glob("*.md")} == made


def test_a_row_that_does_not_fit_its_header_is_an_error() -> None:
    table = {"title": "t", "header": ["a", "b"], "rows": [[1, 2], [3]]}
    with pytest.raises(ValueError, match=r"\[3\]"):
        page({"title": "p", "about": "About.", "tables": [table]})
