"""Validation records: written by an audit, kept in a run, quoted below its scores, refused where wrong."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
from typer.testing import CliRunner

import stepscore
from stepscore.analysis.validation import (
    SHIPPED,
    Measured,
    Validation,
    add_validation,
    find_validation,
    read_validation,
    validation_notes,
)
from stepscore.cli.app import app
from stepscore.errors import ManifestError, OptionError
from stepscore.runs import Run
from stepscore.runs.protocol import protocol_of
from stepscore.testing import write_toy_rollouts


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_toy_rollouts(tmp_path_factory.mktemp("toys") / "toys", scenes=2)


@pytest.fixture
def run(source: Path, tmp_path: Path) -> Run:
    return stepscore.score(stepscore.open_episodes(source), stepscore.get_judge("constant"), tmp_path / "run")


def record_of(run: Run) -> Validation:
    rows = run.episodes().to_pylist()
    return Validation(
        run.protocol.hash,
        run.judge,
        None,
        "A. Author",
        "2026-01-02T00:00:00+00:00",
        "toys",
        len(rows),
        tuple(sorted({str(row["task"] or row["instruction"]) for row in rows})),
        tuple(sorted({view["name"] for row in rows for view in row["views"]})),
        Measured(0.9, 0.8, 0.95, 40),
        Measured(None, None, None, 0),
    )


def test_a_record_is_read_as_it_was_written(run: Run, tmp_path: Path) -> None:
    record = record_of(run)
    assert read_validation(record.write(tmp_path / "v.json")) == record
    assert (
        record.findings == "balanced accuracy of success 0.90 [0.80, 0.95], grounding unknown, return unknown"
    )


def test_a_given_record_is_kept_in_the_run_and_quoted_as_a_claim(run: Run, tmp_path: Path) -> None:
    assert validation_notes([run]) == ()
    add_validation([run], record_of(run).write(tmp_path / "v.json"))
    assert find_validation(run) == record_of(run)
    (note,) = validation_notes([run])
    assert note.startswith("According to ")
    assert "by A. Author" in note
    assert "All tasks and cameras here are in it" in note
    unnamed = replace(record_of(run), measured_by="\x1b[31m\n")
    unnamed.write(run.path / "validation.json")
    assert "\x1b" not in validation_notes([run])[0]


def test_what_is_outside_of_a_record_is_named(run: Run, tmp_path: Path) -> None:
    record = record_of(run)
    other = replace(record, tasks=record.tasks[1:], cameras=("elsewhere",))
    add_validation([run], other.write(tmp_path / "v.json"))
    (note,) = validation_notes([run])
    assert f"Outside of it here: 1 of {len(record.tasks)} tasks ({record.tasks[0]}); cameras" in note


def test_a_record_of_another_protocol_is_refused_and_one_that_lies_in_the_folder_is_not_quoted(
    run: Run, tmp_path: Path
) -> None:
    other = replace(record_of(run), protocol_hash="0123456789abcdef")
    with pytest.raises(OptionError, match="is for protocol 0123456789abcdef"):
        add_validation([run], other.write(tmp_path / "v.json"))
    other.write(run.path / "validation.json")
    assert validation_notes([run]) == ()


@pytest.mark.parametrize(
    "wrong",
    [
        {"format": 2},
        {"protocol_hash": "../../x"},
        {"episodes": -1},
        {"tasks": "drawer"},
        {"success": {"value": 7, "n": 3}},
        {"judge": "x" * 2000},
    ],
)
def test_a_wrong_record_is_refused_with_its_field(run: Run, tmp_path: Path, wrong: dict[str, object]) -> None:
    file = tmp_path / "v.json"
    file.write_text(json.dumps({**record_of(run).to_dict(), **wrong}), encoding="utf-8")
    with pytest.raises(ManifestError, match=next(iter(wrong))) as error:
        read_validation(file)
    assert "\n" not in str(error.value)
    file.write_text("[]", encoding="utf-8")
    with pytest.raises(ManifestError, match="not a validation record"):
        read_validation(file)


def test_the_commands_keep_it_and_print_its_sentence(run: Run, tmp_path: Path) -> None:
    file = str(record_of(run).write(tmp_path / "v.json"))
    runner = CliRunner(env={"COLUMNS": "1000"})
    assert "According to" not in runner.invoke(app, ["metrics", str(run.path)]).stdout
    printed = runner.invoke(app, ["compare", str(run.path), "--validation", file])
    assert "According to" in printed.stdout
    assert "According to" in runner.invoke(app, ["metrics", str(run.path)]).stdout
    missing = runner.invoke(app, ["metrics", str(run.path), "--validation", str(tmp_path / "none.json")])
    assert isinstance(missing.exception, ManifestError)


def test_an_audit_writes_the_record_of_its_judge(source: Path, tmp_path: Path) -> None:
    asked = ["audit", str(source), "--judge", "constant", "-T", "trivial=false", "-T", "probes=round-trip"]
    made = CliRunner().invoke(app, [*asked, "-o", str(tmp_path / "a"), "-T", "measured-by=A. Author"])
    assert made.exit_code == 0
    record = read_validation(tmp_path / "a" / "validation.json")
    assert record.measured_by == "A. Author"
    assert record.success is not None
    assert record.success.value == 0.5
    assert record.round_trip is not None
    assert record.round_trip.value == 0.0
    assert record.grounding is None
    judged = stepscore.score(
        stepscore.open_episodes(source), stepscore.get_judge("constant"), tmp_path / "run"
    )
    add_validation([judged], tmp_path / "a" / "validation.json")
    assert "audited on" in validation_notes([judged])[0]


def test_the_embedded_judge_as_the_demo_asks_it_has_a_shipped_record() -> None:
    """Where this fails, the judge's numbers have changed: audit it again, and ship that record."""
    judge = stepscore.get_judge("topreward", model="embedded")
    assert (SHIPPED / f"{protocol_of(judge).hash}.json").is_file()


def test_shipped_records_are_named_by_their_protocol() -> None:
    files = list(SHIPPED.glob("*.json"))
    assert files
    for file in files:
        record = read_validation(file)
        assert record.protocol_hash == file.stem
        assert record.measured_by == "StepScore"
