"""The OPD revision on the command line: named in every row and head, --done-at, the published one for PRM folders."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from stepscore._options import DEFAULT_REVISION
from stepscore.cli.app import app
from stepscore.cli.judging.judge import summarise
from stepscore.runs import Run, open_run
from tests.report.made_runs import write_run

runner = CliRunner()
PUBLISHED = "As PRM-as-a-Judge publishes it: stepscore metrics"


def invoke(*arguments: object) -> tuple[str, str]:
    result = runner.invoke(app, [str(a) for a in arguments], env={"COLUMNS": "100"})
    assert result.exit_code == 0, result.output
    return result.stdout, result.stderr


@pytest.fixture
def prm_run(tmp_path: Path) -> Run:
    run = write_run(tmp_path / "run", 6, steps=20, tasks=1, policies=2)
    info = json.loads((run.path / "run.json").read_text(encoding="utf-8"))
    (run.path / "run.json").write_text(json.dumps({**info, "reader": "prm"}), encoding="utf-8")
    return open_run(run.path)


@pytest.mark.parametrize(
    ("show", "revision"),
    [("main", None), ("failure-modes", "robust"), ("episodes", "v1.0"), ("all", "robust")],
)
def test_every_row_and_every_head_names_the_revision(prm_run, revision, show):
    chosen = [] if revision is None else ["--revision", revision]
    text, _ = invoke("metrics", prm_run.path, "--show", show, *chosen)
    if show != "failure-modes":  # which names are the same under every revision
        assert f"OPD {revision or DEFAULT_REVISION}" in text.replace("\n", " ")
    rows, _ = invoke("metrics", prm_run.path, "--show", show, "--json", *chosen)
    assert {row["revision"] for row in json.loads(rows)} == {revision or DEFAULT_REVISION}


@pytest.mark.parametrize("revision", ["robust", "v1.0"])
def test_comparisons_name_it_too(prm_run, revision):
    text, _ = invoke("compare", prm_run.path, "--revision", revision)
    assert f"OPD {revision}" in text
    rows, _ = invoke("compare", prm_run.path, "--revision", revision, "--json")
    assert {row["revision"] for row in json.loads(rows)} == {revision}


def test_done_at_changes_what_counts_as_done(prm_run):
    def reached(at: float) -> float:
        rows, _ = invoke(
            "metrics", prm_run.path, "--by", "", "--revision", "robust", "--json", "--done-at", at
        )
        return next(row["value"] for row in json.loads(rows) if row["metric"] == "MC100")

    assert reached(0.76) > reached(1.0)


@pytest.mark.parametrize("at", ["0", "1.01", "nan"])
def test_done_at_is_progress(prm_run, at):
    result = runner.invoke(app, ["metrics", str(prm_run.path), "--done-at", at])
    assert result.exit_code == 2
    assert "above 0" in result.output


def test_done_at_with_a_published_revision_is_refused_with_the_command(prm_run):
    result = runner.invoke(app, ["metrics", str(prm_run.path), "--revision", "v1.0", "--done-at", "0.9"])
    assert result.exit_code != 0
    assert "--revision robust" in str(result.exception or result.output)


def test_folders_of_prm_as_a_judge_come_with_the_command_for_the_published_revision(prm_run, capsys):
    command = f"{PUBLISHED} {prm_run.path} --revision v1.0"
    assert command in invoke("metrics", prm_run.path, "--revision", "robust")[1]
    assert PUBLISHED not in invoke("metrics", prm_run.path, "--revision", "v1.0")[1]
    summarise(prm_run)
    assert command in capsys.readouterr().err


def test_other_sources_do_not(tmp_path):
    run = write_run(tmp_path / "run", 6, steps=20, tasks=1, policies=2)
    assert PUBLISHED not in invoke("metrics", run.path, "--revision", "robust")[1]
