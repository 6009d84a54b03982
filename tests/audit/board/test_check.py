"""A row measured again: one that was changed does not reproduce, and none runs what its reader did not name."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from stepscore.audit.board import BenchOptions, BoardRow, Entry, bench, check_row, open_entries, read_row
from stepscore.audit.board.check import compare_curves
from stepscore.audit.board.safe_row import safe_entry
from stepscore.errors import OptionError
from tests.audit.board.scripted import make_benchmark


@pytest.fixture(scope="module")
def clock(tmp_path_factory: pytest.TempPathFactory) -> BoardRow:
    folder = tmp_path_factory.mktemp("clock")
    bench(make_benchmark(folder, limit=6), open_entries([Entry("linear-time")])[:1], folder / "BOARD")
    return read_row(folder / "BOARD/rows/linear-time.json")


def test_an_honest_row_reproduces(clock: BoardRow, tmp_path: Path) -> None:
    result = check_row(clock, make_benchmark(tmp_path, limit=6), tmp_path / "again", BenchOptions())
    assert result.reproduces
    assert result.curve_difference == 0
    assert {one["metric"] for one in result.to_dict()["values"]} == set(clock.estimates)


def test_a_row_with_another_number_or_another_curve_does_not(clock: BoardRow, tmp_path: Path) -> None:
    benchmark = make_benchmark(tmp_path, limit=6)
    better = replace(clock.estimates["voc"], value=0.7)
    lied = replace(clock, estimates={**clock.estimates, "voc": better})
    result = check_row(lied, benchmark, tmp_path / "number", BenchOptions())
    assert result.problems == ("voc is 0.7000, measured again 1.0000",)
    name, points = next(iter(clock.curves.items()))
    moved = replace(points, progress=(0.5, *points.progress[1:]))
    result = check_row(
        replace(clock, curves={**clock.curves, name: moved}), benchmark, tmp_path / "curve", BenchOptions()
    )
    assert result.videos_apart == 1
    assert not result.reproduces


def test_a_row_of_other_data_is_not_compared(clock: BoardRow, tmp_path: Path) -> None:
    with pytest.raises(OptionError, match="other data"):
        check_row(clock, make_benchmark(tmp_path, limit=5), tmp_path / "again", BenchOptions())


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"judge": "/tmp/evil.py:Judge"}, "not installed"),
        ({"judge": "topreward", "model": "openai-api/expensive"}, "--models openai-api/expensive"),
        ({"judge": "topreward", "model": "embedded", "model_options": {"base_url": "http://x"}}, "base_url"),
        ({"judge": "cascade", "options": {"first": "gvl@vllm/x"}}, "--models vllm/x"),
    ],
)
def test_a_row_does_not_decide_what_is_run_or_asked(
    clock: BoardRow, change: dict[str, object], said: str
) -> None:
    with pytest.raises(OptionError) as error:
        safe_entry(replace(clock, **change), {})  # type: ignore[arg-type]
    assert said in str(error.value)


def test_a_model_that_the_reader_names_is_asked_with_the_readers_options(clock: BoardRow) -> None:
    row = replace(clock, judge="topreward", model="vllm/x", model_options={})
    entry = safe_entry(row, {"vllm/x": {"timeout": 3}})
    assert entry.model == "vllm/x"
    assert entry.model_options == {"timeout": 3}


def test_curves_with_other_points_or_unknowns_differ(clock: BoardRow) -> None:
    name, points = next(iter(clock.curves.items()))
    for other in (
        replace(points, time_s=points.time_s[:-1], progress=points.progress[:-1]),
        replace(points, progress=(None, *points.progress[1:])),
        replace(points, verdicts={"x": "no"}),
    ):
        assert compare_curves({name: points}, {name: other})[1] == 1
    assert compare_curves({name: points}, {})[1] == 1
    assert compare_curves({name: points}, {name: points}) == (0.0, 0)
