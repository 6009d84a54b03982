"""``stepscore bench`` as people call it: five forms, rows of others, a row checked, mistakes."""

from __future__ import annotations

import json
import shutil
from functools import partial
from pathlib import Path

import pytest

from stepscore.audit.board import METRICS
from stepscore.cli.judging.demo import ROLLOUTS
from stepscore.cli.trust import bench as bench_command
from tests.audit.board.scripted import LABELS, SUBGOALS, make_benchmark
from tests.cli.command_walk import Ended, invoke
from tests.cli.five_forms import Printed, all_forms, assert_same_rows, check_cell, result_of, shown_cells
from tests.paths import TINY_SIM

DATA = [str(TINY_SIM), "--labels", str(LABELS), "--subgoals", str(SUBGOALS)]
MODES = ("holds", "ever", "holds", "holds")


@pytest.fixture(autouse=True)
def a_terminal_in_which_nothing_folds(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "1000")


@pytest.fixture(scope="module")
def board(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A board of the clock and a judge of chance on six episodes."""
    out = tmp_path_factory.mktemp("bench") / "BOARD"
    ended = bench("--judges", "random-monotone", "-T", "measured-by=A. Author", "-o", str(out))
    assert ended.code == 0, ended.err
    return out


def bench(*words: str) -> Ended:
    return invoke(["bench", *DATA, "--limit", "6", *words])


def test_a_board_is_the_same_in_five_forms(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    benchmark = make_benchmark(tmp_path).parts
    call = partial(
        bench_command.bench,
        str(TINY_SIM),
        tmp_path / "BOARD",
        ["random-monotone:seed=3"],
        labels=LABELS,
        subgoals=SUBGOALS,
        pairs=benchmark.pairs,
        questions=benchmark.questions,
        test=["published=true"],
    )
    made: Printed = result_of(bench_command, call)
    tables, stored, lines = all_forms(made, capsys)
    assert [table.rows for table in tables] == [shown_cells(table) for table in made.tables]
    assert_same_rows(lines, made.options["csv_rows"])
    rows = {row["label"]: row for row in stored["rows"]}
    metrics = {metric.name: metric for metric in METRICS}
    checked = 0
    for table in made.tables[:-1]:
        for row in table.rows:
            for cell in row.cells:
                if cell.metric:
                    percent = metrics[cell.metric].percent
                    estimate = rows[row.group["row"]]["estimates"][cell.metric]
                    check_cell(cell, estimate, *((100, 1) if percent else (1, 2)))
                    checked += 1
    assert checked == sum(len(row["estimates"]) for row in rows.values()) + len(
        rows
    )  # the front's stands twice
    assert json.loads((tmp_path / "BOARD/board.json").read_text()) == stored


def test_topreward_tables_are_the_same_in_five_forms(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    call = partial(
        bench_command.bench,
        str(TINY_SIM),
        tmp_path / "BOARD",
        models=["mock/-1.5"],
        preset="topreward",
        labels=LABELS,
        subgoals=SUBGOALS,
        limit=8,
        views="corner",
        engine=["cache=false"],
    )
    made: Printed = result_of(bench_command, call)
    tables, stored, lines = all_forms(made, capsys)
    assert [table.rows for table in tables] == [shown_cells(table) for table in made.tables]
    assert_same_rows(lines, stored)
    by_place = {(*row["group"].values(), row["metric"]): row for row in stored}
    checked = 0
    for table in made.tables:
        for row in table.rows:
            for column, cell in zip(table.columns[1:-1], row.cells[1:-1], strict=True):
                check_cell(cell, by_place[(*row.group.values(), column.name)], scale=1, digits=3)
                checked += 1
    assert checked == len(stored)
    assert json.loads((tmp_path / "BOARD/topreward.json").read_text()) == stored


def test_a_board_that_is_there_is_gone_on_with_and_printed(board: Path) -> None:
    ended = bench("--judges", "constant:value=0.3", "-o", str(board), "--json")
    labels = [row["label"] for row in json.loads(ended.out)["rows"]]
    assert {"constant:value=0.3", "random-monotone", "constant", "linear-time", "image-difference"} == set(
        labels
    )


def test_a_row_is_checked_by_its_file_alone(board: Path, tmp_path: Path) -> None:
    file = board / "rows/random-monotone.json"
    honest = bench("--check", str(file))
    assert honest.code == 0, honest.err
    assert "It reproduces." in honest.out
    content = json.loads(file.read_text())
    content["estimates"]["voc"]["value"] = 0.5
    (tmp_path / "lied.json").write_text(json.dumps(content))
    lied = bench("--check", str(tmp_path / "lied.json"), "--json")
    assert lied.code == 1
    assert json.loads(lied.out)["reproduces"] is False


def test_rows_of_others_are_claims(board: Path, tmp_path: Path) -> None:
    ended = bench("--rows", str(board / "rows/random-monotone.json"), "-o", str(tmp_path / "OTHER"), "--json")
    assert ended.code == 0, ended.err
    by_label = {row["label"]: row["claimed_by"] for row in json.loads(ended.out)["rows"]}
    assert by_label == {
        "random-monotone": "A. Author",
        "constant": None,
        "linear-time": None,
        "image-difference": None,
    }


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--judges", "constant"], "-o BOARD"),
        (["-o", "x"], "--judges"),
        (["--judges", "topreward", "-o", "x"], "--models"),
        (["--preset", "topreward", "-o", "x"], "--models"),
        (["--preset", "gvl", "--models", "mock/1", "-o", "x"], "topreward"),
        (["--judges", "topreward", "--models", "nonsense", "-o", "x"], "model string"),
        (["--judges", "constnt", "-o", "x"], "constant"),
        (["--judges", "constant:size=1", "-o", "x"], "value"),
        (["--judges", "constant", "-T", "front=accuracy", "-o", "x"], "success_auc"),
        (["--judges", "constant", "-o", str(LABELS / "x")], "is a file"),
        (["--check", str(LABELS)], "labels.parquet"),
        (["--rows", str(SUBGOALS), "-o", "x"], "subgoals.yaml"),
        (["--entries", str(SUBGOALS), "-o", "x"], "list"),
        (["--judges", "constant", "--pairs", str(SUBGOALS), "-o", "x"], "subgoals.yaml"),
        (["--judges", "constant", "--questions", str(SUBGOALS), "-o", "x"], "subgoals.yaml"),
    ],
)
def test_a_mistake_is_one_line_and_exit_code_2_and_judges_nothing(
    words: list[str], said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    ended = bench(*words)
    assert ended.code == 2, ended.err
    assert said in ended.err
    assert "Traceback" not in ended.err
    assert not list(tmp_path.iterdir())


def test_the_table_says_which_success_it_is_measured_against_and_how_to_take_the_labels_beside(
    tmp_path: Path,
) -> None:
    """Policy undo succeeds at some time and not at the end: the same judge, two numbers, and the reader sees why."""

    def accuracy(name: str, *words: str) -> tuple[float, Ended]:
        ended = invoke(
            [
                "bench",
                str(ROLLOUTS),
                *words,
                "--limit",
                "8",
                "--judges",
                "constant:value=0.9",
                "-o",
                str(tmp_path / name),
            ]
        )
        assert ended.code == 0, ended.err
        rows = {row["label"]: row for row in json.loads((tmp_path / name / "board.json").read_text())["rows"]}
        return rows["constant:value=0.9"]["estimates"]["success_f1"]["value"], ended

    labels = ROLLOUTS / "labels.parquet"
    ever, own = accuracy("own")
    assert "Success by label counts at some time (ever), n 8." in own.out
    assert (
        f"Not used: labels.parquet and subgoals.yaml next to the data. To use them: --labels {labels}"
        in own.err
    )
    holds, given = accuracy("given", "--labels", str(labels))
    assert "Success by label counts at the end (holds), n 8." in given.out
    assert "Not used: subgoals.yaml" in given.err
    assert "32 of 32 episodes labelled by labels.parquet" in given.err
    assert ever > holds


def test_labels_of_both_kinds_are_counted(tmp_path: Path) -> None:
    episodes = [{"id": f"e{i}", "success": bool(i % 2), "success_mode": mode} for i, mode in enumerate(MODES)]
    shutil.copy(next(TINY_SIM.glob("videos/**/*.mp4")), tmp_path / "video.mp4")
    lines = [json.dumps({**one, "video": "video.mp4", "instruction": "push it"}) for one in episodes]
    (tmp_path / "list.jsonl").write_text("\n".join(lines))
    ended = invoke(
        ["bench", str(tmp_path / "list.jsonl"), "--judges", "constant", "-o", str(tmp_path / "BOARD")]
    )
    assert ended.code == 0, ended.err
    assert "Success by label counts at some time (ever), n 1; at the end (holds), n 3." in ended.out
