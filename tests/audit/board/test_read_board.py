"""``board.json`` is read back as it was written, and what is not one is refused."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

import pytest

from stepscore.audit.board import Entry, Opened, bench, open_entries, read_board
from stepscore.errors import ManifestError
from tests.audit.board.scripted import Oracle, make_benchmark


@pytest.fixture(scope="module")
def stored(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    folder = tmp_path_factory.mktemp("stored")
    entries = [Opened(Entry("oracle"), Oracle()), *open_entries([Entry("grm", "embedded")])[:2]]
    board = bench(make_benchmark(folder, limit=6), entries, folder / "BOARD")
    content: dict[str, Any] = json.loads(board.write(folder / "BOARD").read_text())
    return content


def test_a_board_is_read_as_it_was_written(stored: dict[str, Any], tmp_path: Path) -> None:
    (tmp_path / "board.json").write_text(json.dumps(stored))
    assert json.loads(json.dumps(read_board(tmp_path / "board.json").to_dict())) == stored
    grm = next(row for row in stored["rows"] if row["judge"] == "grm")
    assert "does not know embedded" in grm["reason"]  # a judge that does not go with a model is a row, too


@pytest.mark.parametrize(
    ("where", "value", "said"),
    [
        (("format",), 7, "format"),
        (("rows",), {}, "rows"),
        (("rows", 0, "label"), 3, "label"),
        (("rows", 0, "cost"), None, "cost"),
        (("rows", 0, "protocol_hash"), "<script>", "protocol_hash"),
        (("rows", 0, "estimates"), {"made up": {"value": 1, "n": 1, "clusters": 1}}, "made up"),
        (("front", "metric"), "made up", "front.metric"),
        (("benchmark",), "x", "benchmark"),
    ],
)
def test_what_is_not_a_board_is_refused_with_its_field(
    stored: dict[str, Any], tmp_path: Path, where: tuple[Any, ...], value: Any, said: str
) -> None:
    changed: Any = copy.deepcopy(stored)
    inner = changed
    for part in where[:-1]:
        inner = inner[part]
    inner[where[-1]] = value
    (tmp_path / "board.json").write_text(json.dumps(changed))
    with pytest.raises(ManifestError, match=r"board\.json is not a board") as error:
        read_board(tmp_path / "board.json")
    assert said in str(error.value)
