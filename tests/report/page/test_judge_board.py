"""The page of a board of judges holds what board.json says; what is not a board is refused with the field."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from stepscore.cli.app import app
from stepscore.errors import OptionError, RunError
from stepscore.report import page_kind
from stepscore.report.page import board_page_data
from tests.report.planted_boards import planted_board


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return planted_board(tmp_path / "board")


def test_every_number_of_the_board_is_on_its_page(folder: Path) -> None:
    stored = json.loads((folder / "board.json").read_text())
    data: Any = board_page_data(folder)
    page = data["judge_board"]
    assert [row["label"] for row in page["rows"]] == [row["label"] for row in stored["rows"]]
    for row, shown in zip(stored["rows"], page["rows"], strict=True):
        for name, one in row["estimates"].items():
            value, lo, hi, n, clusters, coverage, method = shown["estimates"][name]
            numbers = [value, lo, hi, n, clusters, coverage, data["methods"][method]]
            assert numbers == [
                one[key] for key in ("value", "lo", "hi", "n", "clusters", "coverage", "method")
            ]
    assert page["published"] == stored["published"]
    assert (page["front"], page["front_cost"]) == ("auc", "tokens")


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"format": 2}, "format"),
        ({"rows": 3}, "rows"),
        ({"metrics": [{"name": "auc", "title": "", "better": "bigger", "percent": True}]}, "metrics"),
        ({"benchmark": None}, "benchmark"),
    ],
)
def test_what_is_not_a_board_is_refused_with_the_field(
    folder: Path, change: dict[str, Any], said: str
) -> None:
    path = folder / "board.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | change))
    with pytest.raises(RunError, match=rf"board\.json is not a board of judges \({said}.*stepscore bench"):
        board_page_data(folder)


def test_report_writes_the_page_of_a_board(folder: Path, tmp_path: Path) -> None:
    done = CliRunner().invoke(app, ["report", str(folder), "-o", str(tmp_path / "page")])
    assert done.exit_code == 0, done.output
    assert "Judges on sim-12" in (tmp_path / "page" / "index.html").read_text(encoding="utf-8")
    with pytest.raises(OptionError, match="a board of judges"):
        page_kind([folder, tmp_path])
