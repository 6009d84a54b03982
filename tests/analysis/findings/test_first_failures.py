"""Where a policy fails first, in words, and how many of its episodes reach each subgoal."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from stepscore.analysis import first_failures, measure_episodes, subgoal_funnels, subgoal_tables
from stepscore.runs import Run
from tests.analysis.findings.planted import planted

GOALS = ("reach", "grasp", "lift")


def with_subgoals(reached: Sequence[Sequence[int | None]], *, by: str = "label", names: Any = None) -> Any:
    """Give the i-th episode of each policy these verdicts on its subgoals."""

    def change(policy: str | None, i: int, record: dict[str, Any]) -> None:
        goals = names(i) if names is not None else GOALS
        labels = [None if by == "judge" or v is None else bool(v) for v in reached[i]]
        record["episode"]["subgoals"] = [
            {"name": goal, "criterion": None, "mode": "ever", "view": None, "reviewed": True, "label": label}
            for goal, label in zip(goals, labels, strict=True)
        ]
        if by == "judge":
            answers = {1: "yes", 0: "no", None: "unknown"}
            record["judgement"]["verdicts"] = [
                {"subgoal": goal, "answer": answers[v], "score": None, "when_s": None, "why": ""}
                for goal, v in zip(goals, reached[i], strict=True)
            ]

    return change


def phrase(run: Run) -> str:
    (found,) = first_failures(run, measure_episodes(run))
    return found.phrase


def test_the_subgoal_that_is_missed_first_is_named_with_its_count(tmp_path: Path) -> None:
    rows = [(1, 1, 1)] * 3 + [(1, 0, 0)] * 4 + [(0, 0, 0)]
    run = planted(tmp_path / "run", {"a": [1] * 3 + [0] * 5}, change=with_subgoals(rows))
    assert phrase(run) == "misses “grasp” in 4 of 8, “reach” in 1"


def test_subgoals_of_several_tasks_are_named_by_their_place(tmp_path: Path) -> None:
    rows = [(1, 1, 0)] * 4 + [(1, 1, 1)] * 2
    names = lambda i: tuple(f"{goal} {i % 2}" for goal in GOALS)  # noqa: E731
    run = planted(
        tmp_path / "run", {"a": [0] * 4 + [1] * 2}, tasks=2, change=with_subgoals(rows, names=names)
    )
    assert phrase(run) == "misses the last subgoal in 4 of 6"
    (funnel,) = subgoal_funnels(run, measure_episodes(run))
    assert funnel.names == ("subgoal 1", "subgoal 2", "subgoal 3")
    assert [e.value for e in funnel.reached] == [1.0, 1.0, pytest.approx(2 / 6)]


def test_a_subgoal_in_the_middle_is_named_by_its_place_in_words(tmp_path: Path) -> None:
    rows = [(1, 0, 0)] * 4 + [(1, 1, 0)] * 2
    names = lambda i: tuple(f"{goal} {i % 2}" for goal in GOALS)  # noqa: E731
    run = planted(tmp_path / "run", {"a": [0] * 6}, tasks=2, change=with_subgoals(rows, names=names))
    assert phrase(run) == "misses the second subgoal in 4 of 6, the last subgoal in 2"


def test_a_policy_that_reaches_everything_is_said_to(tmp_path: Path) -> None:
    run = planted(tmp_path / "run", {"a": [1] * 4}, change=with_subgoals([(1, 1, 1)] * 4))
    assert phrase(run) == "reaches every subgoal"


def test_unknown_verdicts_are_counted_and_not_taken_for_success(tmp_path: Path) -> None:
    rows = [(1, 1, 1)] * 2 + [(1, None, None)] * 2
    run = planted(tmp_path / "run", {"a": [1] * 4}, change=with_subgoals(rows, by="judge"))
    assert phrase(run) == "reaches every subgoal in 2 rollouts (2 unknown)"


def test_work_that_is_undone_is_said_where_curves_show_it(tmp_path: Path) -> None:
    goals = with_subgoals([(1, 1, 0)] * 4)

    def undone(policy: str | None, i: int, record: dict[str, Any]) -> None:
        goals(policy, i, record)
        record["judgement"]["curve"]["progress"] = [
            *np.linspace(0, 0.95, 10),
            0.95,
            0.95,
            *np.linspace(0.85, 0.1, 8),
        ]

    run = planted(tmp_path / "run", {"a": [0] * 4}, change=undone)
    assert phrase(run) == "undone at the end in 4 of 4, missing “lift”"


def test_without_subgoals_the_failure_mode_is_said(tmp_path: Path) -> None:
    def stalled(policy: str | None, i: int, record: dict[str, Any]) -> None:
        record["judgement"]["curve"]["progress"] = [0.1] * 20

    run = planted(tmp_path / "run", {"a": [0] * 4 + [1] * 4}, change=stalled)
    assert phrase(run) == "never reached in 4 of 8"


def test_no_failure_and_no_outcome_are_two_things(tmp_path: Path) -> None:
    assert phrase(planted(tmp_path / "good", {"a": [1] * 5})) == "no failure in 5 rollouts"
    unknown = planted(tmp_path / "unknown", {"a": [None] * 5}, labelled=False)
    assert phrase(unknown) == "no outcome is known"


def test_the_funnel_of_one_task_is_its_table_of_subgoals(tmp_path: Path) -> None:
    rows = [(1, 1, 1)] * 3 + [(1, 0, 0)] * 4 + [(0, 0, 0)]
    run = planted(tmp_path / "run", {"a": [1] * 3 + [0] * 5}, change=with_subgoals(rows))
    (funnel,) = subgoal_funnels(run, measure_episodes(run))
    (table,) = subgoal_tables(run)
    assert (funnel.names, funnel.reached, funnel.source) == (table.names, table.reached, table.source)


def test_tasks_with_another_number_of_subgoals_are_left_out_and_counted(tmp_path: Path) -> None:
    rows = [(1, 1, 0), (1, 0, 0), (1, 1)]
    names = lambda i: GOALS[: len(rows[i])]  # noqa: E731
    run = planted(tmp_path / "run", {"a": [0, 0, 1]}, change=with_subgoals(rows, names=names))
    (funnel,) = subgoal_funnels(run, measure_episodes(run))
    assert (len(funnel.reached), funnel.reached[0].n, funnel.left_out) == (3, 2, 1)
