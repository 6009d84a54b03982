"""--format: five forms of every result, equal cell by cell."""

from __future__ import annotations

import csv
import io
import json
import os
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

from stepscore.cli.app import app
from stepscore.cli.formats import Format, chosen_format
from stepscore.cli.results import compare as compare_command
from stepscore.cli.results import metrics as metrics_command
from stepscore.cli.results.metrics import Show
from stepscore.errors import OptionError
from stepscore.models.calls import CallCache
from tests.cli.command_walk import invoke
from tests.cli.five_forms import (
    Printed,
    all_forms,
    as_csv,
    assert_same,
    assert_same_rows,
    check_tables,
    result_of,
    shown_cells,
    written,
)
from tests.cli.printed_forms import read_latex, read_markdown, read_terminal
from tests.report.made_runs import write_run

HOSTILE = r"50%_of {a}|b & c$ #1 ~x^2 \end{table} <b> [x]* --- ``q'' … [bold] π₀ a→b α−é²"


EPISODES = 24


def plant(number: int, record: dict[str, Any]) -> None:
    """Three policies, one of them with a name that is hard to print; subgoals judged and labelled; gaps."""
    policy, scene = ("a", "b", HOSTILE)[number % 3], number // 3
    record["id"] = f"{number:03d}"
    record["episode"] |= {
        "policy": policy,
        "task": "open_it & close",
        "pair": str(scene),
        "success": scene % 3 != 0,
    }
    names = ("grasp_it", "50% open")
    record["episode"]["subgoals"] = [
        {
            "name": name,
            "criterion": "",
            "view": "",
            "mode": "ever",
            "label": (scene + k) % 2 == 0,
            "reviewed": True,
        }
        for k, name in enumerate(names)
    ]
    record["judgement"]["verdicts"] = [
        {
            "subgoal": name,
            "answer": ("yes", "no", "unknown")[(number + k) % 3],
            "score": None,
            "when_s": None,
            "why": "",
        }
        for k, name in enumerate(names)
    ]
    if policy == "b" and scene > 6:
        record["judgement"]["curve"]["progress"][4] = None


@pytest.fixture(autouse=True)
def a_terminal_in_which_nothing_folds(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "1000")


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_run(tmp_path_factory.mktemp("runs") / "run", EPISODES, steps=10, change=plant).path


@pytest.fixture(scope="module")
def calibrated_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    def calibrated(number: int, record: dict[str, Any]) -> None:
        plant(number, record)
        probability = (number % 12) / 12 + 0.02
        record["judgement"] |= {"success_probability": probability, "success_calibrated": True}

    folder = tmp_path_factory.mktemp("runs") / "calibrated"
    return write_run(folder, EPISODES, steps=10, judge=HOSTILE, change=calibrated).path


@pytest.fixture(scope="module")
def results(run: Path, calibrated_run: Path) -> dict[Show, Printed]:
    of = {Show.ABSTENTION: calibrated_run}
    return {
        show: result_of(
            metrics_command, partial(metrics_command.metrics, [of.get(show, run)], show=show, max_error=0.4)
        )
        for show in Show
    }


@pytest.fixture(scope="module")
def comparison(run: Path) -> Printed:
    return result_of(compare_command, partial(compare_command.compare, [run]))


def printed(form: str, *arguments: object) -> str:
    shown = CliRunner(env={"COLUMNS": "1000"}).invoke(app, [*map(str, arguments), "--format", form])
    assert shown.exit_code == 0, shown.output
    return shown.stdout


TABLES = [show for show in Show if show is not Show.EPISODES]


@pytest.mark.parametrize("show", TABLES)
def test_every_table_is_the_same_in_five_forms(
    show: Show, results: dict[Show, Printed], capsys: pytest.CaptureFixture[str]
) -> None:
    tables, rows, lines = all_forms(results[show], capsys)
    assert tables
    assert len({table.title for table in tables}) == len(tables)
    assert_same_rows(lines, rows)


@pytest.mark.parametrize("show", TABLES)
def test_every_number_of_a_table_is_that_of_json(
    show: Show, results: dict[Show, Printed], capsys: pytest.CaptureFixture[str]
) -> None:
    """A table's cells name the row of JSON that they show; what is read back of each form is that row's number."""
    tables, rows, _ = all_forms(results[show], capsys)
    made = results[show].tables
    assert [table.rows for table in tables] == [shown_cells(table) for table in made]
    assert check_tables(made, rows) >= 6


def test_the_episodes_are_listed_as_data_and_summed_up_as_tables(
    results: dict[Show, Printed], capsys: pytest.CaptureFixture[str]
) -> None:
    tables, rows, lines = all_forms(results[Show.EPISODES], capsys)
    assert len(rows) == EPISODES
    assert [line["MP"] for line in lines] == [as_csv(row["MP"]) for row in rows]
    (table,) = tables
    for cells in table.rows:
        known = np.array([row[cells[0][0]] for row in rows if row[cells[0][0]] is not None])
        assert int(cells[1][0]) == len(known)
        for (text, _, _), share in zip(cells[2:7], (0, 0.1, 0.5, 0.9, 1), strict=True):
            assert text == f"{100 * np.quantile(known, share):.1f}"


def test_a_comparison_is_the_same_in_five_forms(
    comparison: Printed, capsys: pytest.CaptureFixture[str]
) -> None:
    tables, rows, lines = all_forms(comparison, capsys)
    made = comparison.tables
    assert [table.rows for table in tables] == [shown_cells(table) for table in made]
    by_pair = {(row["metric"], json.dumps(row["a"]), json.dumps(row["b"])): row for row in rows}
    for table in made:
        for row in table.rows:
            stored = by_pair.pop(
                (row.group["metric"], json.dumps(row.group["a"]), json.dumps(row.group["b"]))
            )
            for cell in row.cells[1:]:
                if cell.text == "<0.001":
                    assert stored[cell.metric] < 0.001
                elif cell.metric == "n_a":
                    assert cell.text in (f"{stored['n_a']} pairs", f"{stored['n_a']} / {stored['n_b']}")
                else:
                    assert_same(cell.text, stored[cell.metric])
            lo, hi = row.cells[1].bounds or ("", "")
            assert (lo, hi) == (f"{100 * stored['lo']:z.1f}", f"{100 * stored['hi']:z.1f}")
    assert not by_pair
    assert [line["difference"] for line in lines] == [as_csv(row["difference"]) for row in rows]


def test_n_stands_once_a_row_and_arrows_in_the_heads(
    results: dict[Show, Printed], capsys: pytest.CaptureFixture[str]
) -> None:
    tables, _, _ = all_forms(results[Show.MAIN], capsys)
    assert tables[0].heads[:2] == ["group", "n"]
    assert {"MP ↑", "CRA ↓", "success by label ↑"} <= set(tables[0].heads)
    of_a = next(row for row in tables[0].rows if row[0][0] == "a")
    assert not any(note for _, _, note in of_a)
    of_b = next(row for row in tables[0].rows if row[0][0] == "b")
    assert "n 7 (88 %)" in {note for _, _, note in of_b}
    assert any(row[0][0] == HOSTILE for row in tables[0].rows)


def test_the_matrix_has_a_row_per_subgoal_and_a_column_per_policy(
    results: dict[Show, Printed], capsys: pytest.CaptureFixture[str]
) -> None:
    (matrix,), rows, _ = all_forms(results[Show.SUBGOAL_MATRIX], capsys)
    assert matrix.heads == ["subgoal", HOSTILE, "a", "b"]
    assert [row[0][0] for row in matrix.rows] == ["grasp_it", "50% open"]
    reached = {
        (row["group"]["policy"], row["metric"]): row["value"]
        for row in rows
        if row["metric"].startswith("reached:")
    }
    policy_a = reached["a", "reached:grasp_it:judge"], reached["a", "reached:grasp_it:label"]
    assert matrix.rows[0][2][0] == " / ".join(f"{100 * value:.0f}" for value in policy_a)
    for show in (Show.SUBGOALS, Show.ALL, Show.MAIN):
        assert matrix in read_markdown(written(results[show], Format.MARKDOWN, capsys))


@pytest.mark.parametrize("command", [["ls", "metrics"], ["ls"]])
def test_lists_have_five_forms(command: list[str]) -> None:
    (table,) = read_markdown(printed("markdown", *command))
    assert read_latex(printed("latex", *command)) == [table]
    lines = list(csv.DictReader(io.StringIO(printed("csv", *command))))
    assert [[text for text, _, _ in row] for row in table.rows] == [
        [" ".join(cell.split()) for cell in line.values()] for line in lines
    ]
    assert json.loads(printed("json", *command))


def test_a_source_has_five_forms(toys: Path) -> None:
    tables = read_markdown(printed("markdown", "inspect", toys))
    assert read_latex(printed("latex", "inspect", toys)) == tables
    lines = list(csv.DictReader(io.StringIO(printed("csv", "inspect", toys))))
    contents = json.loads(printed("json", "inspect", toys))
    stored = {
        (task["task"], policy): n for task in contents["tasks"] for policy, n in task["policies"].items()
    }
    found = {(line["row"], line["column"]): int(line["value"]) for line in lines if "task" in line["table"]}
    assert found == stored
    assert tables[0].title == "Episodes by task and policy"


def test_what_is_installed_has_five_forms() -> None:
    tables = read_markdown(printed("markdown", "doctor"))
    assert read_latex(printed("latex", "doctor")) == tables
    assert [table.title for table in tables] == ["Versions", "Extras", "Models", "Judges"]
    stored = json.loads(printed("json", "doctor"))
    lines = list(csv.DictReader(io.StringIO(printed("csv", "doctor"))))
    for table in tables[1:]:
        ready = {row[0][0]: row[1][0] for row in table.rows}
        assert ready == {row["name"]: "yes" if row["ready"] else "no" for row in stored[table.title.lower()]}
        in_table = [line for line in lines if line["table"] == table.title and line["column"] != "note"]
        assert {line["row"]: line["value"] for line in in_table} == ready


def test_cached_answers_have_five_forms(tmp_path: Path) -> None:
    file = tmp_path / "calls_a&b.sqlite"
    cache = CallCache(file)
    for key in ("1", "2"):
        cache.put(key, "mock/50%_x", {"text": "yes"})
    command = ("cache", "stats", "--path", file)
    (table,) = read_markdown(printed("markdown", *command))
    assert read_latex(printed("latex", *command)) == [table]
    assert read_terminal(printed("table", *command)) == [table]
    (row,) = json.loads(printed("json", *command))["models"]
    (line,) = csv.DictReader(io.StringIO(printed("csv", *command)))
    assert line == {name: str(value) for name, value in row.items()}
    assert [text for text, _, _ in table.rows[0]][:2] == ["mock/50%_x", "2"]


def test_fetched_recordings_have_five_forms_and_are_cleared(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("STEPSCORE_CACHE", str(tmp_path))
    for number, url in enumerate(("s3://a_b/50%_x", "hf://datasets/ann/blocks@0123")):
        folder = tmp_path / "remote" / f"set-{number}"
        folder.mkdir(parents=True)
        (folder / ".files.json").write_text(json.dumps({"url": url, "files": {}}))
        (folder / "a.mp4").write_bytes(bytes(2_000_000))
        state = {"size": 2_000_000, "tag": "", "ranges": [[0, 1_000_000], [1_500_000, 1_600_000]]}
        (folder / "a.mp4.ranges").write_text(json.dumps(state))
        os.utime(folder / "a.mp4.ranges", (1_700_000_000 + number * 86_400 * 60,) * 2)
    command = ("cache", "recordings")
    (table,) = read_markdown(printed("markdown", *command))
    assert read_latex(printed("latex", *command)) == [table]
    assert read_terminal(printed("table", *command)) == [table]
    rows = json.loads(printed("json", *command))["recordings"]
    lines = list(csv.DictReader(io.StringIO(printed("csv", *command))))
    assert lines == [{name: str(value) for name, value in row.items()} for row in rows]
    assert [(row["url"], row["files"], row["bytes"]) for row in rows] == [
        ("hf://datasets/ann/blocks@0123", 1, 1_100_000),
        ("s3://a_b/50%_x", 1, 1_100_000),
    ]
    assert invoke([*command, "--before", "2024-01-01"]).code == 2
    assert invoke([*command, "--clear", "--before", "2023-12-01"]).code == 0
    assert [row["url"] for row in json.loads(printed("json", *command))["recordings"]] == [rows[0]["url"]]
    assert invoke([*command, "--clear"]).code == 0
    assert json.loads(printed("json", *command))["recordings"] == []
    assert not list(tmp_path.rglob("*.mp4"))


def test_weights_have_five_forms(toy_run: Path, tmp_path: Path) -> None:
    arguments = (
        "weights",
        toy_run,
        "--method",
        "filter",
        "--top",
        "0.5",
        "--by",
        "PPL",
        "-o",
        tmp_path / "w.parquet",
    )
    tables = read_markdown(printed("markdown", *arguments))
    assert read_latex(printed("latex", *arguments)) == tables
    assert [table.title for table in tables[:2]] == ["Weights", "Shares"]
    record = json.loads(printed("json", *arguments))
    lines = list(csv.DictReader(io.StringIO(printed("csv", *arguments))))
    shares = {line["row"]: line["value"] for line in lines if line["table"] == "Shares"}
    assert float(shares["at 0"]) == record["at_zero"]


class TestTheChoice:
    def test_json_is_a_short_form(self, run: Path) -> None:
        short = CliRunner().invoke(app, ["metrics", str(run), "--show", "episodes", "--json"])
        assert short.stdout == printed("json", "metrics", run, "--show", "episodes")

    def test_without_a_choice_it_is_a_table(self) -> None:
        assert chosen_format(None) is Format.TABLE
        assert chosen_format(Format.JSON, json=True) is Format.JSON

    def test_two_forms_are_refused_in_words(self, run: Path) -> None:
        with pytest.raises(OptionError, match="--json and --format csv cannot be combined; use one of them"):
            chosen_format(Format.CSV, json=True)
        with pytest.raises(OptionError, match="--json and --format latex cannot be combined"):
            chosen_format(Format.LATEX, json=True)

    def test_the_refusal_comes_before_the_run_is_read(self, tmp_path: Path) -> None:
        with pytest.raises(OptionError, match="cannot be combined"):
            compare_command.compare([tmp_path / "none"], json=True, output_format=Format.CSV)
