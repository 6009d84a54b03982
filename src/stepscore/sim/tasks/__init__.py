"""The simulated tasks: instructions, milestones, distances and stages."""

from stepscore.sim.tasks.catalog import all_tasks, choose_tasks, get_task, marked_goals, object_goals
from stepscore.sim.tasks.stage_machine import Milestone, StageMachine, StageStatus
from stepscore.sim.tasks.task import Phase, Task

__all__ = [
    "Milestone",
    "Phase",
    "StageMachine",
    "StageStatus",
    "Task",
    "all_tasks",
    "choose_tasks",
    "get_task",
    "marked_goals",
    "object_goals",
]
