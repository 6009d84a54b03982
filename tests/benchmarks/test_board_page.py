"""The board of the docs is that of the committed JSON, and the JSON is whole, small and of no one machine."""

from __future__ import annotations

import json

from benchmarks.board import make, page
from stepscore.audit.board import METRICS, read_board, read_entries
from tests.paths import ROOT


def test_the_page_is_what_the_committed_boards_say() -> None:
    assert page.PAGE.read_text(encoding="utf-8") == page.page()


def test_the_committed_board_is_whole_and_small() -> None:
    for file in (page.BOARD, page.TOPREWARD):
        assert file.stat().st_size < 200_000
        assert "/tmp" not in file.read_text(encoding="utf-8")
    board = read_board(page.BOARD)
    assert board.to_dict() == json.loads(page.BOARD.read_text(encoding="utf-8"))
    assert board.benchmark["seed"] == make.SEED
    assert {"linear-time", "constant", "image-difference"} <= {row.judge for row in board.rows}
    entries = {entry.label for entry in read_entries(ROOT / "benchmarks/board/entries.yaml")}
    assert entries <= {row.label for row in board.rows}
    assert {metric.name for metric in board.metrics} == {metric.name for metric in METRICS}


def test_every_number_of_a_judge_has_an_interval_or_says_why_not() -> None:
    for row in read_board(page.BOARD).rows:
        assert (row.reason is None) == bool(row.estimates) or row.missing
        for estimate in row.estimates.values():
            assert estimate.n
            assert estimate.method
