"""A board: what its numbers are, what stands on it, and how it grows."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np
import pytest

from stepscore.audit.board import (
    METRICS,
    BenchmarkParts,
    BenchOptions,
    Board,
    Entry,
    Opened,
    bench,
    benchmark_parts,
    board_tables,
    open_benchmark,
    open_entries,
    read_row,
)
from stepscore.errors import BudgetError, ManifestError, OptionError, RunError, UnknownNameError
from stepscore.models.calls import Budget
from stepscore.runs import CallOptions
from tests.audit.board.scripted import LABELS, SUBGOALS, CannotAnswer, Oracle, make_benchmark
from tests.paths import TINY_SIM


@pytest.fixture(scope="module")
def measured(tmp_path_factory: pytest.TempPathFactory) -> tuple[Board, Path]:
    folder = tmp_path_factory.mktemp("board")
    oracles = [
        Opened(Entry("oracle"), Oracle()),
        Opened(Entry("oracle", label="backwards"), Oracle(wrong=True)),
        Opened(Entry("oracle", label="cannot"), CannotAnswer()),
    ]
    board = bench(make_benchmark(folder), [*oracles, *open_entries([])], folder / "BOARD")
    board.write(folder / "BOARD")
    return board, folder


def value(board: Board, label: str, metric: str) -> float | None:
    return next(row for row in board.rows if row.label == label).value(metric)


def test_the_truth_has_the_best_value_of_every_number_and_its_opposite_the_worst(
    measured: tuple[Board, Path],
) -> None:
    board, _ = measured
    perfect = {
        **dict.fromkeys(
            ("success_auc", "success_auc_within_tasks", "success_balanced_accuracy", "success_f1"), 1.0
        ),
        **dict.fromkeys(("progress_mae", "question_progress"), 0.0),
        **dict.fromkeys(("progress_ccc", "progress_tau", "subgoal_balanced_accuracy", "subgoal_f1"), 1.0),
        **dict.fromkeys(("pairs_accuracy", "pairs_auroc", "pairs_small", "pairs_large"), 1.0),
        **dict.fromkeys(("question_remaining", "question_next"), 1.0),
    }
    for name, best in perfect.items():
        assert value(board, "oracle", name) == pytest.approx(best, abs=1e-6), name
    for name in ("success_auc", "pairs_accuracy", "pairs_auroc", "question_remaining", "subgoal_f1"):
        assert value(board, "backwards", name) == pytest.approx(0.0), name
    assert value(board, "backwards", "progress_ccc") < 0  # type: ignore[operator]


def test_on_every_metric_of_the_board_the_oracle_has_a_number(measured: tuple[Board, Path]) -> None:
    board, _ = measured
    (oracle,) = [row for row in board.rows if row.label == "oracle"]
    assert set(oracle.estimates) == {metric.name for metric in METRICS}
    assert not oracle.missing
    # The labels themselves segment as well as a split of progress into equal parts can.
    assert 0.8 < oracle.value("question_segmentation") <= 1  # type: ignore[operator]


def test_clock_constant_and_image_difference_always_stand_on_it(measured: tuple[Board, Path]) -> None:
    board, _ = measured
    trivial = [row for row in board.rows if row.trivial]
    assert {row.judge for row in trivial} == {"linear-time", "constant", "image-difference"}
    assert list(board.rows[-3:]) == trivial  # after the others
    for row in trivial[:2]:
        assert row.estimates["pairs_accuracy"].lo is not None
    constant = next(row for row in trivial if row.judge == "constant")
    assert constant.value("pairs_accuracy") == constant.value("success_auc") == 0.5
    assert constant.value("subgoal_balanced_accuracy") == 0.5  # it says yes to every one
    difference = next(row for row in trivial if row.judge == "image-difference")
    assert difference.value("subgoal_f1") is None
    assert "verdicts" in difference.missing["subgoal_f1"]


def test_a_judge_that_cannot_answer_is_a_row_that_says_why(measured: tuple[Board, Path]) -> None:
    board, folder = measured
    row = next(row for row in board.to_dict()["rows"] if row["label"] == "cannot")
    assert row["reason"] == "the model returns no log-probabilities."
    assert not row["estimates"]
    assert not row["pareto"]
    notes = " ".join(note for table in board_tables(board) for note in table.notes)
    assert "cannot: not measured. the model returns no log-probabilities." in notes
    assert all(cell.text != "cannot" for t in board_tables(board) for r in t.rows for cell in r.cells)
    assert read_row(folder / "BOARD/rows/cannot.json").reason == row["reason"]


def test_board_json_has_the_form_that_the_page_reads(measured: tuple[Board, Path]) -> None:
    _, folder = measured
    board = json.loads((folder / "BOARD/board.json").read_text())
    assert board["format"] == 1
    assert {"name", "description", "seed", "episodes", "tasks", "fingerprint"} <= set(board["benchmark"])
    assert board["benchmark"]["episodes"] == 24
    for metric in board["metrics"]:
        assert set(metric) == {"name", "title", "better", "percent"}
        assert metric["better"] in ("higher", "lower")
    named = {metric["name"] for metric in board["metrics"]}
    for row in board["rows"]:
        assert {"label", "judge", "model", "options", "protocol_hash", "trivial", "claimed_by"} <= set(row)
        assert {"calls", "tokens_in", "tokens_out", "cost", "seconds_per_episode"} <= set(row["cost"])
        assert isinstance(row["pareto"], bool)
        assert set(row["estimates"]) <= named
        for estimate in row["estimates"].values():
            assert set(estimate) == {"value", "lo", "hi", "n", "clusters", "coverage", "method"}
    assert {"label", "source", "note", "values"} == set(board["published"][0])
    assert "measured by others on other data" in board["published"][0]["note"]


def test_a_row_has_its_protocol_its_command_and_every_curve(measured: tuple[Board, Path]) -> None:
    _, folder = measured
    row = read_row(folder / "BOARD/rows/oracle.json")
    assert row.protocol["judge"]["name"] == "oracle"
    assert row.command.startswith("stepscore bench ")
    assert "--judges oracle" in row.command
    assert len([name for name in row.curves if "~" not in name and "episode" in name]) >= 24
    assert len(row.curves) == row.cost.videos > 24
    one = row.curves["episode_000000"]
    assert len(one.time_s) == len(one.progress) == 15
    assert one.progress[-1] == 1.0
    assert set(one.verdicts.values()) == {"yes"}


def test_the_same_command_judges_nothing_again_and_another_one_adds_its_judges(tmp_path: Path) -> None:
    benchmark = make_benchmark(tmp_path, limit=4)
    judged: list[str] = []

    def run(*entries: Opened) -> Board:
        judged.clear()
        return bench(
            benchmark,
            [*entries, *open_entries([])],
            tmp_path / "BOARD",
            on_done=lambda done: judged.append(done.episode_id) if not done.reused else None,
        )

    first = run(Opened(Entry("oracle"), Oracle()))
    assert judged
    assert run(Opened(Entry("oracle"), Oracle())) == first
    assert not judged
    added = run(Opened(Entry("oracle", label="backwards"), Oracle(wrong=True)))
    assert {row.label for row in added.rows} - {row.label for row in first.rows} == {"backwards"}


def test_a_folder_with_rows_of_other_data_is_refused_before_anything_is_judged(tmp_path: Path) -> None:
    bench(make_benchmark(tmp_path, limit=4), open_entries([]), tmp_path / "BOARD")
    with pytest.raises(RunError, match="rows measured on other data"):
        bench(make_benchmark(tmp_path, limit=5), open_entries([]), tmp_path / "BOARD")


def test_the_budget_is_that_of_the_whole_board(tmp_path: Path) -> None:
    parts = BenchmarkParts(str(TINY_SIM), "tiny", labels=LABELS, subgoals=SUBGOALS)
    benchmark = open_benchmark(parts, limit=4)
    entries = open_entries([Entry("topreward", "mock/-1.5", {"prefixes": points}) for points in (2, 3)])
    options = BenchOptions(["corner"], call_options=CallOptions(Budget(max_calls=6), cache=False))
    with pytest.raises(BudgetError):
        bench(benchmark, entries, tmp_path, options)
    (first,) = (tmp_path / "rows").glob("*.json")  # 4 calls; 2 are left for the other
    assert read_row(first).cost.calls == 4
    more = BenchOptions(["corner"], call_options=CallOptions(Budget(max_calls=8), cache=False))
    board = bench(benchmark, entries, tmp_path, more)
    assert [row.cost.calls for row in board.rows if row.model] == [4, 4]


def test_the_fingerprint_follows_what_numbers_depend_on_and_not_where_it_is(tmp_path: Path) -> None:
    whole = make_benchmark(tmp_path)
    assert whole.fingerprint == make_benchmark(tmp_path).fingerprint
    unlabelled = BenchmarkParts(str(TINY_SIM), "tiny", labels=LABELS)
    without_subgoals = open_benchmark(unlabelled)
    assert (
        len({whole.fingerprint, without_subgoals.fingerprint, make_benchmark(tmp_path, limit=5).fingerprint})
        == 3
    )
    renamed = BenchmarkParts(str(TINY_SIM), "another name", labels=LABELS)
    assert open_benchmark(renamed).fingerprint == without_subgoals.fingerprint


def test_a_wrong_name_stops_before_anything_is_judged() -> None:
    with pytest.raises(UnknownNameError, match="topreward"):
        open_entries([Entry("toprewrd", "embedded")])
    with pytest.raises(UnknownNameError, match="prefixes"):
        open_entries([Entry("topreward", "mock/x", {"prefix": 2})])
    with pytest.raises(OptionError, match="Two entries"):
        open_entries([Entry("gvl", "mock/x"), Entry("gvl", "mock/x")])


def test_without_any_label_there_is_no_board(tmp_path: Path) -> None:
    shutil.copy(next(TINY_SIM.rglob("*.mp4")), tmp_path / "open the drawer.mp4")
    with pytest.raises(OptionError, match="--labels"):
        open_benchmark(BenchmarkParts(str(tmp_path), "videos"))


def test_a_benchmark_folder_names_its_parts(tmp_path: Path) -> None:
    content = {
        "format": 1,
        "name": "made",
        "seed": 3,
        "source": "sim",
        "labels": "sim/l.csv",
        "goal": "last-success",
    }
    (tmp_path / "benchmark.json").write_text(json.dumps(content))
    parts = benchmark_parts(str(tmp_path))
    assert parts.source == str(tmp_path / "sim")
    assert parts.labels == tmp_path / "sim/l.csv"
    assert (parts.name, parts.seed, parts.goal, parts.pairs) == ("made", 3, "last-success", None)
    assert benchmark_parts(str(TINY_SIM)).source == str(TINY_SIM)


@pytest.mark.parametrize(
    "change",
    [
        {"source": "../elsewhere"},
        {"source": "/etc"},
        {"labels": "a/../../b"},
        {"source": ""},
        {"format": 2},
        {"name": 3},
        {"seed": -1},
        {"pairs": "C:\\x"},
    ],
)
def test_a_benchmark_folder_names_nothing_outside_of_itself(
    tmp_path: Path, change: dict[str, object]
) -> None:
    content = {"format": 1, "name": "made", "source": "sim", **change}
    (tmp_path / "benchmark.json").write_text(json.dumps(content))
    with pytest.raises(ManifestError, match=next(iter(change))):
        benchmark_parts(str(tmp_path))


def test_intervals_are_there_where_there_are_scenes_enough(measured: tuple[Board, Path]) -> None:
    board, _ = measured
    for row in board.rows:
        for estimate in row.estimates.values():
            assert estimate.n
            if estimate.clusters < 5:
                assert np.isnan(estimate.lo)
