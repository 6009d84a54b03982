"""Rows from files: what is not one is refused, and what others measured is a claim."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

import pytest

from stepscore.audit.board import Board, Entry, Opened, add_claims, bench, front_metric, open_board, read_row
from stepscore.errors import ManifestError
from tests.audit.board.scripted import Oracle, make_benchmark


@pytest.fixture(scope="module")
def row(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    folder = tmp_path_factory.mktemp("row")
    bench(make_benchmark(folder, limit=6), [Opened(Entry("oracle"), Oracle())], folder / "BOARD")
    content: dict[str, Any] = json.loads((folder / "BOARD/rows/oracle.json").read_text())
    return content


def written(folder: Path, content: Any) -> Path:
    path = folder / "row.json"
    path.write_text(content if isinstance(content, str) else json.dumps(content), encoding="utf-8")
    return path


def test_a_row_that_is_read_and_written_is_the_same(row: dict[str, Any], tmp_path: Path) -> None:
    assert json.loads(json.dumps(read_row(written(tmp_path, row)).to_dict())) == row


HOSTILE = [
    (("format",), 2, "format"),
    (("label",), "", "label"),
    (("label",), "x" * 10_000, "label"),
    (("judge",), None, "judge"),
    (("protocol_hash",), "0" * 16, "protocol_hash is not that of the protocol"),
    (("protocol_hash",), "../x", "protocol_hash"),
    (("protocol",), {"judge": "another"}, "protocol_hash is not that of the protocol"),
    (("benchmark", "fingerprint"), "not hex", "benchmark.fingerprint"),
    (("benchmark",), [], "benchmark"),
    (("estimates", "success_auc", "value"), 1e300, "estimates.success_auc.value"),
    (("estimates", "success_auc", "n"), -1, "estimates.success_auc.n"),
    (("estimates", "success_auc", "n"), 0, "a value of no episode"),
    (("estimates", "success_auc", "coverage"), 3, "coverage"),
    (("estimates", "made up"), {"value": 1, "n": 1, "clusters": 1}, "unknown metric 'made up'"),
    (("cost", "calls"), -5, "cost.calls"),
    (("cost", "cost"), "free", "cost.cost"),
    (("curves",), {}, "numbers without the curves"),
    (("curves", "episode_000000", "time_s"), [0.0], "values"),
    (("curves", "episode_000000", "progress", 0), 7, "curves.episode_000000.progress"),
    (("curves", "episode_000000", "time_s", 1), 0.0, "times do not increase"),
    (("curves", "episode_000000", "verdicts"), {"x": "maybe"}, "verdicts"),
    (("options",), "rm -rf", "options"),
]


@pytest.mark.parametrize(("where", "value", "said"), HOSTILE)
def test_what_is_not_a_row_is_refused_with_its_field(
    row: dict[str, Any], tmp_path: Path, where: tuple[Any, ...], value: Any, said: str
) -> None:
    changed: Any = copy.deepcopy(row)
    inner = changed
    for part in where[:-1]:
        inner = inner[part]
    inner[where[-1]] = value
    with pytest.raises(ManifestError) as error:
        read_row(written(tmp_path, changed))
    assert said in str(error.value)
    assert "row.json" in str(error.value)
    assert len(str(error.value)) < 1500
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("text", ["", "[]", "null", "{", "[" * 10_000, '{"format": NaN}', '{"format": 1}'])
def test_other_texts_are_refused(tmp_path: Path, text: str) -> None:
    with pytest.raises(ManifestError, match=r"row\.json"):
        read_row(written(tmp_path, text))


def test_what_others_measured_stands_on_the_board_as_a_claim_and_not_on_the_front(
    row: dict[str, Any], tmp_path: Path
) -> None:
    benchmark = make_benchmark(tmp_path, limit=6)
    row = {**row, "measured_by": "A. Author", "label": "theirs"}
    add_claims([written(tmp_path, row)], benchmark, tmp_path / "BOARD")
    board = open_board(tmp_path / "BOARD", benchmark, front_metric("success_auc"))
    (claim,) = board.to_dict()["rows"]
    assert claim["claimed_by"] == "A. Author"
    assert claim["estimates"]["success_auc"]["value"] == 1.0
    assert not claim["pareto"]


def test_a_claim_without_a_name_is_that_of_its_file(row: dict[str, Any], tmp_path: Path) -> None:
    benchmark = make_benchmark(tmp_path, limit=6)
    add_claims([written(tmp_path, row)], benchmark, tmp_path / "BOARD")
    board: Board = open_board(tmp_path / "BOARD", benchmark, front_metric("success_auc"))
    assert board.rows[0].claimed_by == "row.json"


def test_numbers_of_other_data_are_not_put_in_one_table(row: dict[str, Any], tmp_path: Path) -> None:
    benchmark = make_benchmark(tmp_path, limit=5)
    with pytest.raises(ManifestError, match="measured on other data"):
        add_claims([written(tmp_path, row)], benchmark, tmp_path / "BOARD")
    assert not (tmp_path / "BOARD").exists()
