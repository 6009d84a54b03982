"""stepscore.measure and stepscore.compare: the rows of the commands, as tables."""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from typer.testing import CliRunner

import stepscore
from stepscore.analysis import ComparisonTable, EstimateTable
from stepscore.cli.app import app
from stepscore.episodes import open_episodes
from stepscore.errors import MissingExtraError, UnknownNameError
from stepscore.runs import Run
from stepscore.testing import write_toy_rollouts
from stepscore.types import Estimate
from tests.cli.printed_forms import read_latex, read_markdown
from tests.paths import TINY_SIM


@pytest.fixture(scope="module")
def toy_run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    folder = tmp_path_factory.mktemp("toys")
    episodes = open_episodes(write_toy_rollouts(folder / "rollouts", scenes=3))
    return stepscore.score(episodes, stepscore.get_judge("recorded"), out=folder / "recorded")


@pytest.fixture(scope="module")
def clock_run(toy_run: Run) -> Run:
    episodes = open_episodes(toy_run.path.parent / "rollouts")
    return stepscore.score(episodes, stepscore.get_judge("linear-time"), out=toy_run.path.parent / "clock")


@pytest.fixture(scope="module")
def tiny_run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    """Episodes with labelled subgoals."""
    labels, subgoals = TINY_SIM / "labels.parquet", TINY_SIM / "subgoals.yaml"
    episodes = open_episodes(TINY_SIM, labels=labels, subgoals=subgoals)
    judge = stepscore.get_judge("random-monotone", points=6)
    return stepscore.score(episodes, judge, out=tmp_path_factory.mktemp("tiny") / "run")


def text_of(*arguments: str) -> str:
    shown = CliRunner().invoke(app, arguments)
    assert shown.exit_code == 0, shown.output
    return shown.stdout


def printed(*arguments: str) -> object:
    return json.loads(text_of(*arguments, "--json"))


class TestMeasure:
    def test_its_rows_are_those_of_the_command(self, toy_run: Run, tiny_run: Run) -> None:
        for run in (toy_run, tiny_run):
            assert stepscore.measure(run).to_dicts() == printed("metrics", str(run.path))
        by_task = stepscore.measure(toy_run, by=("task", "policy"), revision="robust")
        expected = printed("metrics", str(toy_run.path), "--by", "task,policy", "--revision", "robust")
        assert by_task.to_dicts() == expected

    def test_subgoals_are_among_them(self, tiny_run: Run) -> None:
        assert any(row.metric.startswith("reached:") for row in stepscore.measure(tiny_run))

    def test_it_is_a_sequence_of_estimates(self, toy_run: Run) -> None:
        table = stepscore.measure(toy_run, metrics=["MP", "PPL"])
        assert isinstance(table, EstimateTable)
        assert {row.metric.split("|")[0] for row in table} == {"MP", "PPL"}
        assert table[0].group == {"policy": "hasty"}
        assert all(isinstance(row.estimate, Estimate) for row in table)
        assert isinstance(table[:2], EstimateTable)
        assert len(table[:2]) == 2
        assert table == stepscore.measure(toy_run, metrics=["MP", "PPL"])
        assert repr(table[:2]) == "EstimateTable(2 rows)"

    def test_one_group_key_may_be_given_as_text_and_runs_as_folders(
        self, toy_run: Run, clock_run: Run
    ) -> None:
        table = stepscore.measure([toy_run.path, str(clock_run.path)], by="judge", metrics=["VOC"])
        values = {row.group["judge"]: row.estimate.value for row in table if row.metric == "VOC"}
        assert values["linear-time"] == 1.0
        assert values["recorded"] < 1.0
        assert stepscore.measure(str(toy_run.path)) == stepscore.measure(toy_run)

    def test_wrong_names_list_the_valid_ones(self, toy_run: Run) -> None:
        with pytest.raises(UnknownNameError, match="Did you mean 'policy'"):
            stepscore.measure(toy_run, by="polcy")
        with pytest.raises(UnknownNameError, match="Unknown metric 'PPPL'"):
            stepscore.measure(toy_run, metrics=["PPPL"])

    def test_it_is_a_data_frame_with_a_column_per_group_key(self, toy_run: Run) -> None:
        pytest.importorskip("pandas")
        table = stepscore.measure(toy_run, by=("task", "policy"))
        frame = table.to_pandas()
        assert list(frame.columns[:4]) == ["task", "policy", "metric", "value"]
        assert frame["value"].dtype == float
        for row, value in zip(table, frame["value"], strict=True):
            assert value == row.estimate.value or (math.isnan(value) and math.isnan(row.estimate.value))

    def test_a_notebook_shows_a_row_per_group(self, toy_run: Run) -> None:
        text = stepscore.measure(toy_run)._repr_html_()
        assert text.count("<tr>") == 1 + 3
        for part in ("<td>hasty</td>", "<th>PPL ↑</th>", "<th>CRA ↓</th>", "further rows"):
            assert part in text

    def test_its_markdown_and_latex_are_those_of_the_command(self, toy_run: Run) -> None:
        table = stepscore.measure(toy_run, metrics=["MP", "PPL"])
        (read,) = read_markdown(table.to_markdown())
        assert read == read_latex(table.to_latex())[0]
        (shown,) = read_markdown(text_of("metrics", str(toy_run.path), "--format", "markdown"))
        at = [shown.heads.index(head) for head in read.heads]
        assert [[row[i] for i in at] for row in shown.rows] == read.rows

    def test_without_pandas_the_extra_is_named(self, toy_run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setitem(sys.modules, "pandas", None)
        with pytest.raises(MissingExtraError, match=r"pip install 'stepscore\[pandas\]'"):
            stepscore.measure(toy_run, metrics=["MP"]).to_pandas()


class TestCompare:
    def test_its_rows_are_those_of_the_command(self, toy_run: Run, clock_run: Run) -> None:
        assert stepscore.compare(toy_run).to_dicts() == printed("compare", str(toy_run.path))
        both = stepscore.compare([toy_run, clock_run], by="judge", metrics=["MP", "VOC"])
        command = ("compare", str(toy_run.path), str(clock_run.path), "--by", "judge", "--metrics", "MP,VOC")
        assert both.to_dicts() == printed(*command)

    def test_it_is_a_sequence_and_a_data_frame(self, toy_run: Run) -> None:
        pytest.importorskip("pandas")
        table = stepscore.compare(toy_run, by="policy", metrics=["MP"])
        assert isinstance(table, ComparisonTable)
        assert [(row.a["policy"], row.b["policy"]) for row in table] == [
            ("hasty", "steady"),
            ("hasty", "timid"),
            ("steady", "timid"),
        ]
        frame = table.to_pandas()
        assert frame["a"].tolist() == ["hasty", "hasty", "steady"]
        assert frame["difference"].tolist() == [row.comparison.difference.value for row in table]

    def test_a_notebook_shows_a_table_per_pair(self, toy_run: Run) -> None:
        text = stepscore.compare(toy_run, metrics=["MP"], revision="v1.0")._repr_html_()
        assert text.count("<tr>") == 3 * (1 + 1)
        assert "<th>A minus B</th>" in text
        assert "<caption>A = hasty, B = steady (OPD v1.0)</caption>" in text

    def test_its_markdown_and_latex_are_those_of_the_command(self, toy_run: Run) -> None:
        table = stepscore.compare(toy_run, metrics=["MP"])
        command = ("compare", str(toy_run.path), "--metrics", "MP", "--format")
        assert table.to_markdown() == text_of(*command, "markdown")
        assert table.to_latex() == text_of(*command, "latex")


@pytest.mark.parametrize("table", [stepscore.measure, stepscore.compare])
def test_an_unknown_grouping_lists_the_known_ones(
    table: Callable[..., object], toy_run: Run, clock_run: Run
) -> None:
    for runs in ([toy_run], [toy_run, clock_run]):
        with pytest.raises(UnknownNameError, match=r"Unknown grouping '--'.*policy"):
            table(runs, by="--")


def test_the_public_names_are_these() -> None:
    assert sorted(dir(stepscore)) == sorted(stepscore.__all__)
    for name in stepscore.__all__:
        assert getattr(stepscore, name) is not None
    assert stepscore.get_model("mock/x").name == "mock/x"


def test_a_folder_that_is_not_a_run_says_so(tmp_path: Path) -> None:
    from stepscore.errors import RunError

    with pytest.raises(RunError, match="is not a run folder"):
        stepscore.measure(tmp_path)
