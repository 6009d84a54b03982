"""What an audit says of a judge's agreement with labels: the planted judge that favours a policy is found."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import cast

import numpy as np
import pytest

from stepscore.analysis.against_labels import PolicyAgreement, policies_by_protocol
from stepscore.audit import AuditOptions, audit, audit_tables
from stepscore.judges import Judge
from stepscore.runs import score
from tests.audit.planted_judges import planted_judges, scripted_episodes


def by_quantity(fault: str, folder: Path, seed: int = 0) -> Mapping[str, PolicyAgreement]:
    episodes = scripted_episodes(seed=seed)
    run = score(episodes, cast(Judge, planted_judges(episodes)[fault]), folder)
    return {one.quantity: one for one in policies_by_protocol([run])}


def test_a_judge_that_favours_a_policy_is_flagged(tmp_path: Path) -> None:
    found = by_quantity("favours a policy", tmp_path / "run")["progress"]
    (flagged,) = found.flagged
    assert (flagged.favoured, flagged.other) == ("bad", "good")
    assert 0.1 < flagged.difference.lo < flagged.difference.value < flagged.difference.hi < 0.35
    ends = [one.labels.progress()[1][-1] for one in scripted_episodes() if one.policy == "bad"]
    errors = {one.policy: one.error for one in found.errors}
    assert errors["bad"].value == pytest.approx(np.mean([min(end + 0.3, 1.0) - end for end in ends]))
    assert errors["good"].value == 0.0


@pytest.mark.parametrize("seed", range(4))
def test_the_oracle_is_not_flagged_and_ranks_as_the_labels_do(seed: int, tmp_path: Path) -> None:
    found = by_quantity("none", tmp_path / "run", seed)
    assert set(found) == {"success", "progress"}
    for one in found.values():
        assert not one.flagged
        assert one.ranking.equal
        assert one.ranking.same_best.value == 1.0


def test_an_audit_holds_the_agreement_of_the_episodes_as_recorded(tmp_path: Path) -> None:
    episodes = scripted_episodes(3)
    judge = planted_judges(episodes)["favours a policy"]
    options = AuditOptions(probes=["frozen-first"], trivial=False)
    found = audit(episodes, cast(Judge, judge), tmp_path / "a", options)
    assert found.agreement is not None
    success = next(a for a in found.agreement.agreements if a.baseline_for is None)
    assert success.table.n == len(episodes)
    written = json.loads(found.write(tmp_path / "a").read_text(encoding="utf-8"))["agreement"]
    assert any("favours bad over good" in text for text in written["policies"])
    assert any(row["metric"] == "judge:differential error of progress" for row in written["rows"])
    outcomes = {one.probe: one.outcome for one in found.results}
    policies = {"policies-success": "warn", "policies-progress": "fail"}
    assert outcomes == {"frozen-first": "pass", "agreement": "pass"} | policies
    assert found.counts() == {"pass": 2, "warn": 1, "fail": 1, "undecided": 0}
    notes = [note for table in audit_tables(found) for note in table.notes]
    assert any("favours bad over good" in note for note in notes)


@pytest.mark.parametrize("seed", range(3))
def test_a_judge_that_favours_nobody_is_not_counted_against(seed: int, tmp_path: Path) -> None:
    episodes = scripted_episodes(seed=seed)
    judge = planted_judges(episodes)["none"]
    found = audit(
        episodes, cast(Judge, judge), tmp_path / "a", AuditOptions(probes=["frozen-first"], trivial=False)
    )
    outcomes = {one.probe: one.outcome for one in found.results if one.family == "labels"}
    assert outcomes == {"policies-success": "pass", "policies-progress": "pass", "agreement": "pass"}


def test_without_labels_there_is_no_agreement(tmp_path: Path) -> None:
    episodes = scripted_episodes(1)
    judge = planted_judges(episodes)["clock"]
    bare = [replace(one, labels=type(one.labels)()) for one in episodes]
    options = AuditOptions(probes=["frozen-first"], trivial=False)
    found = audit(bare, cast(Judge, judge), tmp_path / "a", options)
    assert found.agreement is None
    assert found.to_dict()["agreement"] is None
