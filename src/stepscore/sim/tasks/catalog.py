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
    """Every task by name: Meta-World's in the order of their names, then the chains."""
    single = sorted((*FIXTURES, *OBJECTS), key=lambda task: task.name)
    return {task.name: task for task in (*single, *CHAINS)}


def get_task(name: str) -> Task:
    """The task called ``name``; an unknown name answers with the closest one."""
    tasks = all_tasks()
    if name not in tasks:
        raise UnknownNameError("task", name, tasks, hint="`--tasks all` takes every one.")
    return tasks[name]


def marked_goals() -> tuple[str, ...]:
    """Tasks whose goal is a coordinate, shown by a neutral mark that never changes."""
    return tuple(task.name for task in all_tasks().values() if task.mark)


def thing_goals() -> tuple[str, ...]:
    """Tasks whose goal is a thing in the scene (a hole, a bin, a drawer); nothing is drawn for it."""
    return tuple(task.name for task in all_tasks().values() if not task.mark)


def choose_tasks(names: Sequence[str]) -> tuple[Task, ...]:
    """The tasks with these names, in this order; ``all`` stands for every one."""
    tasks = all_tasks()
    chosen = [task for name in names for task in (tasks.values() if name == "all" else (get_task(name),))]
    return tuple({task.name: task for task in chosen}.values())
