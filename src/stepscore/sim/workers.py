"""Playing many episodes in worker processes, in an order that does not depend on how many there are.

A job is a scene with all its policies; a worker makes the world and the renderer for it and closes both, so
that a process never has two renderers open: a second one would draw garbage. Nothing is kept between jobs, so
that a scene looks the same whichever worker plays it, and after whatever.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from dataclasses import dataclass
from importlib.util import find_spec
from itertools import groupby
from multiprocessing import get_context

from stepscore.errors import MissingExtraError, OptionError
from stepscore.sim.policies import check_policy
from stepscore.sim.render import SIZE, Camera, check_views
from stepscore.sim.rollout import FPS, Plan, Rollout, check_fps, play
from stepscore.sim.tasks.catalog import choose_tasks, get_task
from stepscore.sim.world import World, choose_drawing


@dataclass(frozen=True)
class RenderOptions:
    """How rollouts are drawn.

    Attributes:
        views: Names of ``VIEWS``; none for truth without pictures.
        size: Pixels a side.
        fps: Frames a second, a divisor of 80.
    """

    views: tuple[str, ...] = ("corner",)
    size: int = SIZE
    fps: int = FPS

    def __post_init__(self) -> None:
        check_views(self.views, self.size)
        check_fps(self.fps)


def make_plans(tasks: Sequence[str], policies: Sequence[str], per_task: int, seed: int = 0) -> list[Plan]:
    """``per_task`` episodes of every task: the policies take turns on scene 0, then on scene 1, and so on.

    Args:
        tasks: Names of tasks, or ``all``.
        policies: Names of policies, such as ``noisy:0.5``; each once.
        per_task: Episodes of each task over all policies.
        seed: What all random choices grow from.
    """
    named = [check_policy(policy) for policy in policies]
    if len(set(named)) < len(named) or not named:
        raise OptionError(f"policies are {', '.join(named) or 'none'}; name at least one, and each once.")
    if per_task < 1 or seed < 0:
        raise OptionError(f"per-task is {per_task} and seed {seed}; allowed are 1 and more, and 0 and more.")
    return [
        Plan(task.name, named[number % len(named)], number // len(named), seed)
        for task in choose_tasks(tasks)
        for number in range(per_task)
    ]


def simulate(plans: Sequence[Plan], filming: RenderOptions, workers: int = 1) -> Iterator[Rollout]:
    """Play the plans; the rollouts come in the order of the plans.

    Args:
        plans: What to play, those of a scene next to each other.
        filming: How it is drawn.
        workers: Processes; the rollouts are the same for any number of them.
    """
    if workers < 1:
        raise OptionError(f"workers is {workers}; it must be at least 1.")
    if find_spec("metaworld") is None or find_spec("mujoco") is None:
        raise MissingExtraError("Simulation", "sim")
    scenes = [tuple(same) for _, same in groupby(plans, key=lambda plan: plan.pair)]
    pending: deque[Future[list[Rollout]]] = deque()
    with ProcessPoolExecutor(workers, mp_context=get_context("spawn"), initializer=choose_drawing) as pool:
        try:
            for scene in scenes:
                pending.append(pool.submit(play_scene, scene, filming))
                # Rollouts are large: no more scenes are played than will soon be taken.
                if len(pending) > workers + 1:
                    yield from pending.popleft().result()
            while pending:
                yield from pending.popleft().result()
        finally:
            for job in pending:
                job.cancel()


def play_scene(plans: Sequence[Plan], filming: RenderOptions) -> list[Rollout]:
    """Play the plans of one scene in this process."""
    world = World(get_task(plans[0].task))
    camera = Camera(world.model, filming.views, filming.size) if filming.views else None
    try:
        return [play(world, plan, camera, filming.views, filming.fps) for plan in plans]
    finally:
        if camera is not None:
            camera.close()
        world.close()
