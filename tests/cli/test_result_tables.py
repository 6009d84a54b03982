"""Printed tables: each number with its own n, what is unknown, and what was not averaged."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from stepscore._tables import estimate_cell
from stepscore.analysis.tables.metric_tables import episodes_behind
from stepscore.cli.formats import Format
from stepscore.cli.results import compare as compare_command
from stepscore.cli.results import metrics as metrics_command
from stepscore.cli.results.metrics import Show
from stepscore.errors import OptionError
from stepscore.types import Estimate
from tests.report.made_runs import write_run

Record = dict[str, Any]


@pytest.fixture(autouse=True)
def eighty_columns(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")


def plant(number: int, record: Record) -> None:
    """Policy b's progress is 11 points lower; on the hard half of its scenes it is unknown."""
    scene, policy = number // 2, "ab"[number % 2]
    top = (0.95 if scene < 20 else 0.67) - (0.11 if policy == "b" else 0.0)
    record["id"] = f"{policy}{scene:02d}"
    record["episode"] |= {"policy": policy, "task": "t", "pair": str(scene), "success": scene < 20}
    curve = record["judgement"]["curve"]
    curve["progress"] = np.linspace(0, top, len(curve["time_s"])).tolist()
    if policy == "b" and scene >= 20:
        curve["progress"][5] = None


@pytest.fixture(scope="module")
def planted(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_run(tmp_path_factory.mktemp("runs") / "run", 80, steps=10, change=plant).path


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Eight scenes: too few for intervals, which take the time."""
    return write_run(tmp_path_factory.mktemp("runs") / "run", 16, steps=10, change=plant).path


def printed(
    capsys: pytest.CaptureFixture[str], command: Callable[..., None], *runs: Path, **given: Any
) -> str:
    command(list(runs), **given)
    text = capsys.readouterr().out
    assert max(map(len, text.splitlines())) <= 80
    return text


def flat(text: str) -> str:
    return " ".join(text.split())


class TestEstimateCell:
    WHOLE = Estimate(0.5, 0.4, 0.6, 12, 12, 1.0, "wilson 95%")
    PART = Estimate(0.5, 0.4, 0.6, 7, 7, 7 / 12, "wilson 95%")
    NOTHING = Estimate(np.nan, np.nan, np.nan, 0, 0, 0.0, "no known values")
    SMALL = Estimate(0.5, np.nan, np.nan, 3, 3, 1.0, "too few")

    @staticmethod
    def shown(estimate: Estimate | None, n: int | None) -> tuple[str, tuple[str, str] | None, str]:
        cell = estimate_cell(estimate, n)
        return cell.text, cell.bounds, cell.note

    def test_n_stands_in_a_cell_only_where_it_is_not_the_rows(self) -> None:
        bounds = ("40.0", "60.0")
        assert self.shown(self.WHOLE, 12) == ("50.0", bounds, "")
        assert self.shown(self.WHOLE, None) == ("50.0", bounds, "")
        assert self.shown(self.WHOLE, 30) == ("50.0", bounds, "n 12")
        assert self.shown(self.PART, 12) == ("50.0", bounds, "n 7 (58 %)")
        assert self.shown(self.NOTHING, 12) == ("–", None, "n 0 (0 %)")
        assert self.shown(None, 12) == ("–", None, "")

    def test_a_value_without_an_interval_is_marked_as_such(self) -> None:
        assert estimate_cell(self.SMALL, 3).bare
        assert not any(estimate_cell(e, 3).bare for e in (self.WHOLE, self.PART, self.NOTHING, None))

    def test_it_holds_the_number_itself(self) -> None:
        cell = estimate_cell(self.PART, 12, "MP")
        assert (cell.metric, cell.value, cell.lo, cell.hi) == ("MP", 0.5, 0.4, 0.6)

    def test_almost_all_is_not_all(self) -> None:
        almost = Estimate(0.5, 0.4, 0.6, 997, 997, 0.997, "wilson 95%")
        assert estimate_cell(almost, 1000).note == "n 997 (99.7 %)"

    def test_the_episodes_of_a_row_include_the_unknown_ones(self) -> None:
        assert episodes_behind([self.PART, self.NOTHING]) == 12
        assert episodes_behind([self.NOTHING]) == 0


class TestMetrics:
    def test_a_metric_has_its_own_n_and_unequal_coverage_has_a_line(
        self, planted: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        text = printed(capsys, metrics_command.metrics, planted)
        assert "n 20 (50 %)" in text
        assert "Coverage differs between groups in" in text
        assert "50 % of b, 100 % of a" in flat(text)
        # The trap itself: b looks better.
        means = [line.split()[1] for line in text.splitlines() if line.split()[:1] in (["a"], ["b"])]
        assert {"81.0", "84.0"} <= set(" ".join(text.split()).split()), means

    def test_equal_coverage_has_no_line(self, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
        text = printed(capsys, metrics_command.metrics, write_run(tmp_path / "run", 20, steps=10).path)
        assert "Coverage differs" not in text
        assert " %)" not in text

    def test_json_and_csv_are_complete(self, planted: Path, capsys: pytest.CaptureFixture[str]) -> None:
        metrics_command.metrics([planted], json=True)
        rows = json.loads(capsys.readouterr().out)
        known = {row["group"]["policy"]: row for row in rows if row["metric"] == "MP"}
        assert (known["a"]["n"], known["a"]["coverage"]) == (40, 1.0)
        assert (known["b"]["n"], known["b"]["coverage"]) == (20, 0.5)
        metrics_command.metrics([planted], output_format=Format.CSV)
        found = list(csv.DictReader(io.StringIO(capsys.readouterr().out)))
        assert {row["n"] for row in found if row["metric"] == "MP"} == {"40", "20"}

    def test_a_run_given_twice_prints_the_same_numbers(
        self, small: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        once = printed(capsys, metrics_command.metrics, small)
        assert printed(capsys, metrics_command.metrics, small, small) == once
        copy = write_run(tmp_path / "copy", 16, steps=10, change=plant).path
        both = printed(capsys, metrics_command.metrics, small, copy)
        said = "16 episodes are in more than one of these runs with the same judgement, and count once."
        assert said in flat(both)
        assert flat(both).replace(f"{said} ", "").replace(said, "").strip() == flat(once)

    def test_two_judges_are_rows_of_their_own_in_every_table(
        self, small: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        other = write_run(tmp_path / "other", 16, steps=10, judge="other", change=plant).path
        text = printed(capsys, metrics_command.metrics, small, other)
        assert "a / recorded" in text
        assert "b / other" in text
        assert "grouped by judge too" in flat(text)
        modes = printed(capsys, metrics_command.metrics, small, other, show=Show.FAILURE_MODES)
        assert "(success by label, recorded)" in modes
        assert "(success by label, other)" in modes
        metrics_command.metrics([small, other], show=Show.FAILURE_MODES, json=True)
        assert {row["group"]["judge"] for row in json.loads(capsys.readouterr().out)} == {"recorded", "other"}
        episodes = printed(capsys, metrics_command.metrics, small, other, show=Show.EPISODES)
        assert "16 episodes of recorded" in episodes

    def test_labels_of_a_file_are_the_truth(
        self, planted: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        file = tmp_path / "labels.csv"
        rows = [f"a{scene:02d},progress,p,{at},0.5" for scene in range(40) for at in (0, 100)]
        file.write_text("\n".join(["episode_id,kind,name,start_s,value", *rows]))
        metrics_command.metrics([planted], labels=file, json=True)
        found = {
            row["group"]["policy"]: row
            for row in json.loads(capsys.readouterr().out)
            if row["metric"] == "stage_MAE"
        }
        assert (found["a"]["n"], found["b"]["n"]) == (40, 0)


class TestCompare:
    def test_pairs_are_over_what_both_know_and_the_shares_are_printed(
        self, planted: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        text = printed(capsys, compare_command.compare, planted, metric="MP")
        assert "11.0" in text
        assert "20 pairs" in text
        assert "100 / 50 %" in text
        assert "Differences are over the pairs in which both are known." in flat(text)

    def test_unpaired_groups_of_unequal_coverage_have_the_line(
        self, tmp_path: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        def unpaired(number: int, record: Record) -> None:
            plant(number, record)
            record["episode"]["pair"] = None

        run = write_run(tmp_path / "run", 80, steps=10, change=unpaired).path
        text = flat(printed(capsys, compare_command.compare, run, metric="MP"))
        assert "40 / 20" in text
        assert "do not compare the same episodes" in text

    def test_two_judges_by_policy_are_refused(self, small: Path, tmp_path: Path) -> None:
        other = write_run(tmp_path / "other", 16, steps=10, judge="other", change=plant).path
        with pytest.raises(OptionError, match="never averaged"):
            compare_command.compare([small, other])


class TestJudge:
    def test_it_has_the_baselines_and_ranks_beside_each_row(
        self, tmp_path: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        def mixed(number: int, record: Record) -> None:
            plant(number, record)
            record["episode"]["success"] = number // 2 % 2 == 0

        run = write_run(tmp_path / "run", 16, steps=10, judge="other", change=mixed).path
        text = printed(capsys, metrics_command.metrics, run, show=Show.JUDGE)
        for word in ("precision", "recall", "F1", "length-matched", "linear-time", "constant"):
            assert word in text, word
        by_task = printed(capsys, metrics_command.metrics, run, show=Show.JUDGE, by="task")
        assert "t: other" in by_task
        metrics_command.metrics([run], show=Show.JUDGE, json=True)
        rows = json.loads(capsys.readouterr().out)
        assert {row["group"]["judge"] for row in rows} == {"other", "linear-time", "constant"}
        assert "judge:AUC of last progress, length-matched" in {row["metric"] for row in rows}
