"""How far a judge may be trusted, on planted runs: what is said, and on which numbers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from stepscore.analysis import agreement_with_baselines, judge_trust, measure_baselines, measure_episodes
from stepscore.runs import Run
from tests.analysis.findings.planted import planted


def with_score(right: int) -> Any:
    """Make the judge's verdict the label in the first ``right`` episodes of each policy, and the opposite after."""

    def change(policy: str | None, i: int, record: dict[str, Any]) -> None:
        correct = bool(record["episode"]["success"]) == (i < right)
        record["judgement"]["success_score"] = 0.9 if correct else 0.1

    return change


def answer(run: Run, aspect: Any) -> tuple[str, str]:
    found = judge_trust(run).aspect(aspect)
    assert found is not None
    return found.headline, found.sentence


def test_a_judge_that_agrees_with_the_labels_is_trusted_for_success(tmp_path: Path) -> None:
    run = planted(tmp_path / "run", {"a": [1] * 12, "b": [0] * 12}, change=with_score(11))
    assert answer(run, "success") == (
        "Yes, for success",
        "agrees with the labels of success on 22 of 24 rollouts, a clock on 12",
    )


def test_the_numbers_are_those_of_the_table_of_judges(tmp_path: Path) -> None:
    run = planted(tmp_path / "run", {"a": [1] * 12, "b": [0] * 12}, change=with_score(10))
    found = judge_trust(run).aspect("success")
    judge, clock, _ = (a for a in agreement_with_baselines([run]).agreements if a.question == "success")
    assert found is not None
    assert found.estimates["accuracy"] == judge.accuracy
    assert found.estimates["balanced accuracy"] == judge.balanced
    assert found.estimates["baseline accuracy"] == clock.accuracy


def test_a_judge_no_better_than_the_clock_is_not_trusted(tmp_path: Path) -> None:
    run = planted(tmp_path / "run", {"a": [1] * 12, "b": [0] * 12}, change=with_score(6))
    assert answer(run, "success") == (
        "Not for success",
        "agrees with the labels of success on 12 of 24 rollouts, a clock on 12 "
        "(right on 6 of 12 successes and 6 of 12 failures)",
    )


def test_always_no_is_not_trusted_where_failures_are_the_rule(tmp_path: Path) -> None:
    def always_no(policy: str | None, i: int, record: dict[str, Any]) -> None:
        record["judgement"]["success_score"] = 0.1

    run = planted(tmp_path / "run", {"a": [1] * 5 + [0] * 25}, change=always_no)
    headline, sentence = answer(run, "success")
    assert headline == "Not for success"
    assert sentence == "right on 0 of 5 successes and 25 of 25 failures, a clock on 5 and 0"


def test_where_failures_are_rare_each_outcome_is_said(tmp_path: Path) -> None:
    # Fewer right answers than the clock, which finds no failure at all.
    def judged(policy: str | None, i: int, record: dict[str, Any]) -> None:
        wrong = i in (0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 30)
        record["judgement"]["success_score"] = 0.9 if bool(record["episode"]["success"]) != wrong else 0.1

    run = planted(tmp_path / "run", {"a": [1] * 60 + [0] * 10}, change=judged)
    assert answer(run, "success") == (
        "Yes, for success",
        "right on 49 of 60 successes and 10 of 10 failures, a clock on 60 and 0",
    )


def test_a_lead_that_few_rollouts_do_not_show_is_unknown(tmp_path: Path) -> None:
    run = planted(tmp_path / "run", {"a": [1] * 5, "b": [0] * 5}, change=with_score(4))
    assert answer(run, "success") == (
        "Unknown for success",
        "agrees with the labels of success on 8 of 10 rollouts, a clock on 5: too few to show that it does better",
    )


@pytest.mark.parametrize(
    ("outcomes", "said"),
    [
        ([1] * 20 + [0] * 2, "labels of 20 successes and 2 failures: 5 of each are needed"),
        ([1] * 20 + [0], "labels of 20 successes and 1 failure: 5 of each are needed"),
        ([1] * 20, "labels of 20 successes and 0 failures: 5 of each are needed"),
    ],
)
def test_too_few_of_one_outcome_show_nothing(tmp_path: Path, outcomes: list[int], said: str) -> None:
    run = planted(tmp_path / "run", {"a": outcomes})
    assert answer(run, "success") == ("Unknown for success", said)
    assert answer(run, "order") == ("Unknown for order", said)


def test_without_labels_nothing_is_known_and_the_line_says_so(tmp_path: Path) -> None:
    trust = judge_trust(planted(tmp_path / "run", {"a": [1] * 9, "b": [0] * 9}, labelled=False))
    assert {one.answer for one in trust.aspects} == {"unknown"}
    assert trust.text == (
        "How far planted can be trusted here is unknown: no labels to compare it with; "
        "no labelled progress or stages to compare its curves with."
    )
    assert trust.notes == (
        "Its verdict on success is uncalibrated: by its published rule, not by a map fitted on labels.",
    )


def test_progress_is_held_against_the_clock_on_the_same_curves(tmp_path: Path) -> None:
    run = planted(tmp_path / "run", {"a": [1] * 12, "b": [0] * 12}, change=_frozen_truth)
    found = judge_trust(run).aspect("progress")
    assert found is not None
    assert found.headline == "Yes, for progress"
    metrics = measure_episodes(run)
    clock = measure_baselines(metrics, ["linear-time"])[0].metrics
    judged, clocked = (100 * float(np.mean(m.values["stage_MAE"])) for m in (metrics, clock))
    assert found.sentence == f"off by {judged:.1f} points of 100 on average, a clock by {clocked:.0f}"


def test_where_the_clock_is_nearer_the_truth_progress_is_not_trusted(tmp_path: Path) -> None:
    def worse(policy: str | None, i: int, record: dict[str, Any]) -> None:
        _frozen_truth(policy, i, record)
        curve = record["judgement"]["curve"]
        curve["progress"] = [1.0 - p for p in curve["progress"]]

    trust = judge_trust(planted(tmp_path / "run", {"a": [1] * 12, "b": [1] * 12}, change=worse))
    found = trust.aspect("progress")
    assert found is not None
    assert found.headline == "Not for progress"
    assert "a clock by" in found.sentence
    assert trust.text.startswith("planted cannot be trusted here for progress (off by ")


def _frozen_truth(policy: str | None, i: int, record: dict[str, Any]) -> None:
    """Label progress that rises as the judge's curve does, a little off."""
    curve = record["judgement"]["curve"]
    values = [min(1.0, p + 0.01 + 0.001 * i) for p in curve["progress"]]
    record["episode"]["labelled_progress"] = {"potential": {"time_s": curve["time_s"], "progress": values}}
