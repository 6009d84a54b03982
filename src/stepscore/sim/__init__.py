"""Simulated rollouts with privileged truth.

Meta-World's 50 tasks and chains of them, played by disturbed experts, labelled from the simulator's state with
subgoals, stages and a progress potential, and written as LeRobot datasets. Needs the ``sim`` extra; importing
this room imports no simulator.
"""

from stepscore.sim.dataset import write_dataset
from stepscore.sim.labels import rollout_labels
from stepscore.sim.render import VIEWS
from stepscore.sim.rollout import Plan, Rollout
from stepscore.sim.tasks.catalog import all_tasks, get_task, marked_goals, thing_goals
from stepscore.sim.tasks.task import Task
from stepscore.sim.workers import RenderOptions, make_plans, simulate

__all__ = [
    "VIEWS",
    "Plan",
    "RenderOptions",
    "Rollout",
    "Task",
    "all_tasks",
    "get_task",
    "make_plans",
    "marked_goals",
    "rollout_labels",
    "simulate",
    "thing_goals",
    "write_dataset",
]
