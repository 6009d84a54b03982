"""The page of an audit holds what audit.json says, and of a large audit the episodes that its probes name."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from stepscore.audit import is_audit, read_audit
from stepscore.cli.app import app
from stepscore.errors import OptionError, RunError
from stepscore.report import page_kind, write_audit_report
from stepscore.report.page import audit_page_data
from stepscore.report.page.audits import audit_page
from tests.report.planted_audits import planted_audit

OUTCOMES: Any = {"beyond-length": "fail", "round-trip": "pass", "other-task": "warn", "noisy": "undecided"}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return planted_audit(tmp_path / "audit", OUTCOMES, pairs=4)


def test_every_number_of_the_audit_is_on_its_page(folder: Path) -> None:
    stored = json.loads((folder / "audit.json").read_text())
    data: Any = audit_page_data(folder)
    page = data["audit"]
    assert page["counts"] == {"pass": 1, "warn": 1, "fail": 1, "undecided": 2}
    for row, probe in zip(stored["results"], page["probes"], strict=True):
        value, lo, hi, n, clusters, coverage, method = probe["effect"]
        shown = [value, lo, hi, n, clusters, coverage, data["methods"][method]]
        assert shown == [row[name] for name in ("value", "lo", "hi", "n", "clusters", "coverage", "method")]
        assert [probe["probe"], probe["outcome"], probe["bound"], probe["good"], probe["reason"]] == [
            row[name] for name in ("probe", "outcome", "bound", "good", "reason")
        ]
    assert page["trivial"] == ["linear-time", "constant", "image-difference"]
    assert page["agreement"][0]["estimate"][:4] == (0.9, 0.8, 0.95, 40)


def test_the_worst_episodes_are_found_among_those_of_the_page(folder: Path) -> None:
    data: Any = audit_page_data(folder)
    ids = data["episodes"]["id"]
    worst = data["audit"]["probes"][0]["worst"]
    assert [(ids[one["episode"]], ids[one["changed"]]) for one in worst] == [
        (f"ep_{i:03d}", f"ep_{i:03d}~reversed") for i in range(4)
    ]
    assert data["audit"]["changes"][str(worst[0]["changed"])] == "reversed"
    assert not data["audit"]["probes"][1]["worst"]


def test_an_audit_without_its_runs_still_has_a_page(folder: Path) -> None:
    shutil.rmtree(folder / "judge")
    data: Any = audit_page_data(folder)
    assert data["runs"] == []
    assert data["audit"]["probes"][0]["worst"][0]["episode"] == -1
    assert "without its episodes" in data["warnings"][0]["text"]


def test_of_a_large_audit_only_the_named_episodes_are_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = planted_audit(tmp_path / "audit", {"round-trip": "fail"}, pairs=20)
    monkeypatch.setattr(audit_page, "MAX_EPISODES", 30)
    assert audit_page_data(folder)["episodes"]["n"] == 12
    monkeypatch.setattr(audit_page, "MAX_EPISODES", 40)
    assert audit_page_data(folder)["episodes"]["n"] == 40


def test_what_was_read_is_what_was_written(folder: Path) -> None:
    stored = json.loads((folder / "audit.json").read_text())
    read = read_audit(folder)
    again = read.audit.to_dict()
    for name in ("counts", "results", "trivial", "judge", "protocol_hash", "cost", "tasks"):
        assert again[name] == stored[name]
    assert list(read.policies) == stored["agreement"]["policies"]


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"format": 2}, "format"),
        ({"results": "none"}, "results"),
        ({"cost": "dear"}, "cost"),
        ({"runs": {"../../elsewhere": "x"}}, "runs"),
        ({"episodes": -1}, "episodes"),
    ],
)
def test_what_is_not_an_audit_is_refused_with_the_field(
    folder: Path, change: dict[str, Any], said: str
) -> None:
    path = folder / "audit.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | change))
    with pytest.raises(RunError, match=rf"audit\.json is not an audit \({said}.*stepscore audit"):
        read_audit(folder)


def test_an_audit_has_a_page_of_its_own(folder: Path) -> None:
    assert is_audit(folder)
    assert not is_audit(folder / "judge")
    assert page_kind([folder]) == "audit"
    assert page_kind([folder / "judge"]) == "runs"
    with pytest.raises(OptionError, match="Pass only this folder"):
        page_kind([folder / "judge", folder])


def test_report_writes_the_page_of_an_audit(folder: Path, tmp_path: Path) -> None:
    done = CliRunner().invoke(app, ["report", str(folder), "-o", str(tmp_path / "page")])
    assert done.exit_code == 0, done.output
    assert "Audit of planted" in (tmp_path / "page" / "index.html").read_text(encoding="utf-8")
    own = tmp_path / "mine.html"
    own.write_text("mine")
    with pytest.raises(RunError, match="not written by StepScore"):
        write_audit_report(folder, own)
