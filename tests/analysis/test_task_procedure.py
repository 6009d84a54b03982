"""The stages of a task, from what its episodes and subgoals tell."""

from __future__ import annotations

from stepscore.analysis.episode_truth import StagedEpisode, task_procedure


def staged(names: str, *, success: bool | None = None, subgoals: tuple[str, ...] = ()) -> StagedEpisode:
    """An episode whose stages are single letters, a second each."""
    return StagedEpisode(tuple((name, k, k + 1.0) for k, name in enumerate(names)), subgoals, success)


def test_subgoals_of_the_same_names_are_the_procedure() -> None:
    failures = [staged("ab", success=False, subgoals=("a", "b", "c"))]
    assert task_procedure(failures) == ("a", "b", "c")


def test_else_the_stages_of_the_episodes_that_succeeded() -> None:
    episodes = [staged("abc", success=True), staged("abx", success=False), staged("ab", success=None)]
    assert task_procedure(episodes) == ("a", "b", "c")


def test_without_success_labels_episodes_are_demonstrations() -> None:
    assert task_procedure([staged("abc"), staged("ab"), staged("ax", success=False)]) == ("a", "b", "c")


def test_of_failures_alone_nothing_is_known() -> None:
    assert task_procedure([staged("ab", success=False)]) == ()
    assert task_procedure([staged("", success=True)]) == ()


def test_failures_of_a_task_with_subgoals_did_the_first_of_its_stages() -> None:
    goals = ("at the handle", "ajar", "open")
    assert task_procedure([staged("ab", success=False, subgoals=goals)]) == ("a", "b", "")


def test_a_stage_that_successes_skip_stands_where_steps_are_shortest() -> None:
    # Lifting takes no time in a success; it is first seen when the puck is let down again.
    goals = ("at", "held", "in the air", "at the mark")
    episodes = [
        staged("rgc", success=True, subgoals=goals),
        staged("rgclgr", success=False, subgoals=goals),
    ]
    assert task_procedure(episodes) == ("r", "g", "l", "c")
    without_subgoals = [StagedEpisode(e.stages, (), e.success) for e in episodes]
    assert task_procedure(without_subgoals) == ("r", "g", "c")


def test_subgoals_of_another_division_do_not_count_the_stages() -> None:
    goals = ("one", "two", "three", "four", "five")
    assert task_procedure([staged("abc", success=True, subgoals=goals)]) == ("a", "b", "c")
