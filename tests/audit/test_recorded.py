"""What an audit says of the episodes as recorded stands before its probes: refused ones, wrong verdicts, cameras."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest

from stepscore.analysis import validation
from stepscore.audit import Audit, AuditOptions, audit, audit_tables, read_audit, warnings_of
from stepscore.episodes import Episode
from stepscore.judges import Judge
from stepscore.report.page import audit_page_data
from stepscore.types import Judgement
from tests.audit.planted_judges import PlantedJudge, planted_judges, scripted_episodes

OPTIONS = AuditOptions(probes=["frozen-first"], trivial=False)


@dataclass(frozen=True)
class Refuses(PlantedJudge):
    """The judge without a fault, which answers the episodes of one task alone."""

    def judge_now(self, episode: Episode) -> Judgement:
        """Return the truth, unknown for other tasks."""
        found = super().judge_now(episode)
        if episode.task == "open the drawer":
            return found
        assert found.curve is not None
        unknown = np.full(len(found.curve.progress), np.nan)
        return Judgement(replace(found.curve, progress=unknown), success_score=float("nan"))


def refusing() -> Refuses:
    return Refuses("refuses", lambda truth, *_: truth)


def audited(judge: object, folder: Path, scenes: int = 3) -> Audit:
    return audit(scripted_episodes(scenes), cast(Judge, judge), folder, OPTIONS)


def outcome(found: Audit, name: str) -> str:
    result = found.result(name)
    return "" if result is None else result.outcome


def test_an_audit_whose_episodes_are_mostly_refused_fails_at_the_top(tmp_path: Path) -> None:
    found = audited(refusing(), tmp_path)
    assert outcome(found, "answered") == "fail"
    assert found.counts()["fail"] >= 1
    assert "answers 6 of 24 episodes" in warnings_of(found)[0]
    *said, title = audit_tables(found)[0].title.splitlines()
    assert "answers 6 of 24 episodes" in said[0]
    assert title == "Headline"
    unknown, few = (note for note in audit_tables(found)[1].notes if note.startswith("Undecided"))
    assert "most answers of the judge are unknown" in unknown
    assert "agreement" in unknown
    assert "agreement" not in few
    found.write(tmp_path)
    page: Any = audit_page_data(tmp_path)
    assert "answers 6 of 24" in page["audit"]["sentences"][0]


def test_where_all_are_answered_nothing_is_said_of_it(tmp_path: Path) -> None:
    episodes = scripted_episodes(3)
    found = audited(planted_judges(episodes)["none"], tmp_path)
    assert found.result("answered") is None
    assert outcome(found, "agreement") == "pass"
    assert audit_tables(found)[0].title == "Headline"


def test_verdicts_that_do_not_agree_with_labels_fail_at_the_top(tmp_path: Path) -> None:
    wrong = PlantedJudge("wrong", lambda truth, *_: 1.0 - truth)
    found = audited(wrong, tmp_path, scenes=4)
    assert outcome(found, "agreement") == "fail"
    assert "does not agree with the labels" in warnings_of(found)[0]


def test_other_cameras_than_the_audited_ones_are_named_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    judge = planted_judges(scripted_episodes(2))["none"]
    first = audited(judge, tmp_path / "a", scenes=2)
    assert first.audited_cameras == ()
    monkeypatch.setattr(validation, "SHIPPED", tmp_path)
    record = replace(first.validation(), cameras=("close",))
    record.write(tmp_path / f"{first.protocol}.json")
    found = audited(judge, tmp_path / "b", scenes=2)
    said = "Outside of the audited cameras: top, wrist. This judge was audited on close."
    assert warnings_of(found)[0] == said
    assert audit_tables(found)[0].title.startswith(said)
    found.write(tmp_path / "b")
    assert read_audit(tmp_path / "b").audit.audited_cameras == ("close",)
    page: Any = audit_page_data(tmp_path / "b")
    assert page["audit"]["sentences"][0] == said
