"""Simulated rollouts with privileged truth.

Meta-World's 50 tasks and chains of them, played by disturbed experts, labelled from the simulator's state with
subgoals, stages and a progress potential, and written as LeRobot datasets. Needs the ``sim`` extra; importing
this room imports no simulator.
"""

from stepscore.sim.dataset import LABELS_FILE, SUBGOALS_FILE, write_dataset
from stepscore.sim.env import CONTROL_HZ, SimEnv, choose_gl_backend
from stepscore.sim.labels import constant_intervals, rollout_labels
from stepscore.sim.render import VIEWS, SceneRenderer, SimView
from stepscore.sim.rollout import Rollout, RolloutPlan, play, seed_entropy
from stepscore.sim.state import State
from stepscore.sim.tasks import StageMachine, Task, all_tasks, get_task, marked_goals, object_goals
from stepscore.sim.workers import RenderOptions, plan_rollouts, simulate

__all__ = [
    "CONTROL_HZ",
    "LABELS_FILE",
    "SUBGOALS_FILE",
    "VIEWS",
    "RenderOptions",
    "Rollout",
    "RolloutPlan",
    "SceneRenderer",
    "SimEnv",
    "SimView",
    "StageMachine",
    "State",
    "Task",
    "all_tasks",
    "choose_gl_backend",
    "constant_intervals",
    "get_task",
    "marked_goals",
    "object_goals",
    "plan_rollouts",
    "play",
    "rollout_labels",
    "seed_entropy",
    "simulate",
    "write_dataset",
]
