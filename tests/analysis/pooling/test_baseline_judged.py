"""Of a judge that looks at no frame, tables and sentences show labels and durations, and say so."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

import stepscore
from stepscore.analysis import failure_modes_by_policy, measure_episodes, policy_metrics, run_findings
from stepscore.cli.app import app
from stepscore.judges import BASELINES
from stepscore.runs import Run
from tests.report.made_runs import write_run

SAID = "looks at no frame, so its progress and verdicts say nothing about a policy"


def printed(*arguments: object) -> str:
    result = CliRunner().invoke(app, [str(a) for a in arguments], env={"COLUMNS": "200"})
    assert result.exit_code == 0, result.output
    return result.stdout


def metrics_in(*arguments: object) -> set[str]:
    return {row["metric"].split("|")[0] for row in json.loads(printed(*arguments, "--json"))}


def clock(folder: Path, n: int = 24) -> Run:
    def straight(number: int, record: dict[str, Any]) -> None:
        curve = record["judgement"]["curve"]
        curve["progress"] = np.linspace(0, 1, len(curve["time_s"])).tolist()

    return write_run(folder, n, steps=20, tasks=2, policies=2, judge="linear-time", change=straight)


@pytest.fixture
def run(tmp_path: Path) -> Run:
    return clock(tmp_path / "clock")


def test_the_table_has_success_by_label_and_the_duration_in_seconds(run: Run) -> None:
    assert metrics_in("metrics", run.path) == {"success_label", "duration_s"}
    text = printed("metrics", run.path)
    assert SAID in text
    seconds = [row.estimate.value for row in stepscore.measure(run) if row.metric == "duration_s"]
    lengths = measure_episodes(run).episodes
    assert np.mean(seconds) == pytest.approx(np.mean([row["duration_s"] for row in lengths]))
    assert f"{seconds[0]:.2f}" in text


@pytest.mark.parametrize("judge", list(BASELINES))
def test_that_holds_for_every_baseline(tmp_path: Path, judge: str) -> None:
    run = write_run(tmp_path / "run", 6, steps=8, judge=judge)
    assert {row.metric.split("|")[0] for row in stepscore.measure(run)} == {"success_label", "duration_s"}


def test_policies_are_compared_by_label_alone_and_judges_by_everything(run: Run, tmp_path: Path) -> None:
    assert metrics_in("compare", run.path) == {"success_label"}
    assert SAID in printed("compare", run.path)
    other = write_run(tmp_path / "other", 24, steps=20, tasks=2, policies=2)
    by_judge = metrics_in("compare", run.path, other.path, "--by", "judge")
    assert {"MP", "PPL", "VOC"} <= by_judge
    assert {"MP", "VOC"} <= metrics_in("metrics", run.path, other.path, "--by", "judge")


def test_no_failure_is_explained_by_it(run: Run) -> None:
    modes = failure_modes_by_policy(measure_episodes(run))
    assert {mode.name for mode in modes.by_episode} == {"unknown"}
    text = printed("metrics", run.path, "--show", "failure-modes")
    assert SAID in text
    assert "last" not in text.split("linear-time")[0]
    failed = {row.policy: row.failures for row in modes.policies}
    labels = [row["success"] for row in measure_episodes(run).episodes]
    assert sum(failed.values()) == labels.count(False) > 0


def test_the_sentences_rest_on_labels_and_the_check_of_the_judge_on_its_curves(run: Run) -> None:
    found = run_findings(run)
    assert found.opening.metric == "success_label"
    assert SAID in found.opening.notes[0]
    for one in found.first_failures:
        assert one.phrase.startswith(("fails in ", "no failure in "))
        assert one.source == "label"
    assert found.worst
    assert {failure.text for failure in found.worst} == {"fails, by label"}
    order = found.trust.aspect("order")
    assert order is not None
    assert order.answer != "yes"
    assert order.n or order.sentence


def test_without_labels_only_what_to_do_is_known(tmp_path: Path) -> None:
    def unlabelled(number: int, record: dict[str, Any]) -> None:
        record["episode"]["success"] = None

    run = write_run(tmp_path / "run", 6, steps=8, judge="linear-time", change=unlabelled)
    assert metrics_in("metrics", run.path) == {"duration_s"}
    assert "stepscore ls judges" in run_findings(run).opening.notes[0]


def test_another_judge_beside_it_keeps_its_numbers_and_coverage(run: Run, tmp_path: Path) -> None:
    other = write_run(tmp_path / "other", 24, steps=20, tasks=2, policies=2)
    metrics = measure_episodes(other)
    assert policy_metrics(metrics) is metrics
    text = printed("metrics", run.path, other.path)
    assert "Coverage differs" not in text
    mine = {
        (row.group["policy"], row.metric): row.estimate
        for row in stepscore.measure([run, other])
        if row.group["judge"] == "recorded" and not row.metric.startswith("duration_s")
    }
    assert mine == {(row.group["policy"], row.metric): row.estimate for row in stepscore.measure(other)}
