"""Rollouts played in worker processes, in an order that does not depend on how many there are.

A job is a scene with all its policies; a worker makes the environment and the renderer for it and closes both,
so that a process never has two renderers open: a second one would render garbage. Nothing is kept between
jobs, so that a scene is the same whichever worker plays it, and after whichever other scene.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from dataclasses import dataclass
from itertools import groupby
from multiprocessing import get_context

from stepscore._imports import check_extra
from stepscore.errors import OptionError
from stepscore.sim.env import SimEnv, choose_gl_backend
from stepscore.sim.policies import check_policy
from stepscore.sim.render import SIZE, SceneRenderer, check_views, draw_variation
from stepscore.sim.rollout import FPS, Rollout, RolloutPlan, check_fps, play
from stepscore.sim.tasks import choose_tasks, get_task


@dataclass(frozen=True)
class RenderOptions:
    """Views, size and frame rate of rendered rollouts.

    Attributes:
        views: Names of ``VIEWS``; empty for truth without frames.
        size: Width and height in pixels.
        fps: Frames per second, a divisor of 80.
        variation: How much camera, light and colours vary from rollout to rollout, 0..1.
    """

    views: tuple[str, ...] = ("close",)
    size: int = SIZE
    fps: int = FPS
    variation: float = 0.0

    def __post_init__(self) -> None:
        check_views(self.views, self.size)
        check_fps(self.fps)
        if not 0.0 <= self.variation <= 1.0:
            raise OptionError(f"variation is {self.variation}; it must be from 0 to 1.")


def plan_rollouts(
    tasks: Sequence[str], policies: Sequence[str], episodes_per_task: int, seed: int = 0
) -> list[RolloutPlan]:
    """Plan the episodes of every task: the policies take turns on scene 0, then on scene 1, and so on.

    Args:
        tasks: Names of tasks, or ``all``.
        policies: Names of policies, such as ``noisy:0.5``; each once.
        episodes_per_task: Episodes of each task over all policies.
        seed: Random seed, at least 0.
    """
    named = [check_policy(policy) for policy in policies]
    if len(set(named)) < len(named) or not named:
        raise OptionError(f"policies are {', '.join(named) or 'none'}; name at least one, and each once.")
    if episodes_per_task < 1 or seed < 0:
        raise OptionError(
            f"episodes-per-task is {episodes_per_task} and seed {seed}; allowed are 1 and more, and 0 and more."
        )
    return [
        RolloutPlan(task.name, named[number % len(named)], number // len(named), seed)
        for task in choose_tasks(tasks)
        for number in range(episodes_per_task)
    ]


def simulate(
    plans: Sequence[RolloutPlan], render_options: RenderOptions, workers: int = 1
) -> Iterator[Rollout]:
    """Play the plans; yields the rollouts in the order of the plans.

    Args:
        plans: The rollouts to play, those of a scene next to each other.
        render_options: Views, size and frame rate.
        workers: Number of processes; the rollouts are the same for any number of them.
    """
    if workers < 1:
        raise OptionError(f"workers is {workers}; it must be at least 1.")
    check_extra("sim", "Simulation")
    scenes = [tuple(same) for _, same in groupby(plans, key=lambda plan: plan.pair)]
    pending: deque[Future[list[Rollout]]] = deque()
    with ProcessPoolExecutor(workers, mp_context=get_context("spawn"), initializer=choose_gl_backend) as pool:
        try:
            for scene in scenes:
                pending.append(pool.submit(play_scene, scene, render_options))
                # Rollouts are large: no more scenes are played than will soon be taken.
                if len(pending) > workers + 1:
                    yield from pending.popleft().result()
            while pending:
                yield from pending.popleft().result()
        finally:
            for job in pending:
                job.cancel()


def play_scene(plans: Sequence[RolloutPlan], render_options: RenderOptions) -> list[Rollout]:
    """Play the plans of one scene in this process."""
    env = SimEnv(get_task(plans[0].task))
    renderer = (
        SceneRenderer(env.model, render_options.views, render_options.size) if render_options.views else None
    )
    try:
        rollouts = []
        for plan in plans:
            if renderer is not None and render_options.variation:
                renderer.vary(draw_variation(plan.look_rng(), render_options.variation))
            rollouts.append(play(env, plan, renderer, render_options.views, render_options.fps))
        return rollouts
    finally:
        if renderer is not None:
            renderer.close()
        env.close()
