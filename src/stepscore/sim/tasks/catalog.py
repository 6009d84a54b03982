"""All tasks by name: Meta-World's 50 and chains of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache

from stepscore.errors import UnknownNameError
from stepscore.sim.tasks.chains import CHAINS
from stepscore.sim.tasks.fixtures import FIXTURES
from stepscore.sim.tasks.objects import OBJECTS
from stepscore.sim.tasks.task import Task


@cache
def all_tasks() -> Mapping[str, Task]:
    """Return every task by name: Meta-World's in the order of their names, then the chains."""
    single = sorted((*FIXTURES, *OBJECTS), key=lambda task: task.name)
    return {task.name: task for task in (*single, *CHAINS)}


def get_task(name: str) -> Task:
    """Return the task called ``name``; the error for an unknown name has the closest one."""
    tasks = all_tasks()
    if name not in tasks:
        raise UnknownNameError("task", name, tasks, hint="`--tasks all` selects every one.")
    return tasks[name]


def marked_goals() -> tuple[str, ...]:
    """Return the tasks whose goal is a coordinate, shown by a neutral mark that never changes."""
    return tuple(task.name for task in all_tasks().values() if task.mark)


def object_goals() -> tuple[str, ...]:
    """Return the tasks whose goal is an object of the scene (a hole, a bin, a drawer) and has no mark."""
    return tuple(task.name for task in all_tasks().values() if not task.mark)


def choose_tasks(names: Sequence[str]) -> tuple[Task, ...]:
    """Return the tasks with these names, in this order; ``all`` means every task."""
    tasks = all_tasks()
    chosen = [task for name in names for task in (tasks.values() if name == "all" else (get_task(name),))]
    return tuple({task.name: task for task in chosen}.values())
