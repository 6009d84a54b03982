"""What every task declares."""

from __future__ import annotations

import re

import numpy as np
import pytest

from stepscore.errors import UnknownNameError
from stepscore.sim import all_tasks, get_task, marked_goals, object_goals
from stepscore.sim.state import State
from stepscore.sim.tasks.catalog import choose_tasks

TASKS = list(all_tasks().values())
CHAINS = [task for task in TASKS if len(task.phases) > 1]


def test_there_are_fifty_tasks_and_three_chains_or_more() -> None:
    assert len(TASKS) - len(CHAINS) == 50
    assert len(CHAINS) >= 3
    assert all(task.max_slowdown >= 4 for task in CHAINS)


@pytest.mark.parametrize("task", TASKS, ids=lambda task: task.name)
def test_a_task_has_words_for_its_subgoals_and_stages(task: object) -> None:
    from stepscore.sim.tasks.task import Task

    assert isinstance(task, Task)
    subgoals = [milestone.subgoal for milestone in task.milestones]
    stages = [milestone.stage for milestone in task.milestones]
    assert len(subgoals) >= 3
    assert len(set(subgoals)) == len(subgoals)
    assert len(set(stages)) == len(stages)
    assert not any(re.search(r"half-?way|\bcm\b|[0-9]", words) for words in subgoals)
    assert task.milestones[-1].mode == "holds"
    assert task.success == "holds", "the labels table lets `holds` have the last word"
    assert all(milestone.mode == "ever" for milestone in task.milestones[:-1])


def test_eight_tasks_or_more_have_four_stages_or_more() -> None:
    long = [task for task in TASKS if len(task.milestones) >= 4]
    assert len([task for task in long if len(task.phases) == 1]) >= 8
    words = " ".join(milestone.stage for task in long for milestone in task.milestones)
    assert all(word in words for word in ("reach", "grasp", "lift", "carry"))


def test_every_goal_is_a_mark_or_an_object() -> None:
    assert sorted((*marked_goals(), *object_goals())) == sorted(all_tasks())
    assert {"reach", "push", "pick-place"} <= set(marked_goals())
    assert {"drawer-open", "peg-insert-side", "bin-picking"} <= set(object_goals())


def test_a_mark_is_in_the_words_of_the_task() -> None:
    for task in TASKS:
        assert task.mark == ("the mark" in task.instruction), task.name


def test_the_environment_state_of_every_task_is_nine_numbers() -> None:
    for task in TASKS:
        points = {name: np.full(3, number) for number, name in enumerate(("target", *task.points), start=1)}
        places = task.environment_state(State(points, 1.0, frozenset(), frozenset(), success=False))
        assert places.tolist() == [2.0] * 3 + [1.0] * 3 + [3.0 * (len(task.points) > 1)] * 3, task.name


def test_an_instruction_names_one_task() -> None:
    assert len({task.instruction for task in TASKS}) == len(TASKS)


def test_tasks_are_chosen_by_name_once_each() -> None:
    assert [task.name for task in choose_tasks(["push", "reach", "push"])] == ["push", "reach"]
    assert len(choose_tasks(["all"])) == len(TASKS)


def test_an_unknown_task_answers_with_the_closest() -> None:
    with pytest.raises(UnknownNameError, match="Did you mean 'drawer-open'"):
        get_task("draw-open")


@pytest.mark.usefixtures("simulator")
def test_the_fifty_are_meta_worlds() -> None:
    from metaworld.env_dict import ALL_V3_ENVIRONMENTS
    from metaworld.policies import ENV_POLICY_MAP

    assert {task.env_name for task in TASKS} == set(ALL_V3_ENVIRONMENTS)
    experts = {phase.expert for task in TASKS for phase in task.phases}
    assert experts | {task.opposite for task in TASKS} - {""} <= set(ENV_POLICY_MAP)
