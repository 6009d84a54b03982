"""Cameras for training the camera check, and scenes rendered under them.

Training takes the trained cameras and others at random poses. Cameras that look from the cells of a checkerboard of
azimuth and elevation, and those near the simulator's other views, are left out, so that the check can be measured on
them.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import groupby

import numpy as np

from stepscore.sim import (
    VIEWS,
    RolloutPlan,
    SceneRenderer,
    SimEnv,
    SimView,
    choose_gl_backend,
    get_task,
    play,
)
from stepscore.training.embedded.tasks import SIZE
from stepscore.types import Frames

CELL = 15.0
"""Degrees of azimuth and of elevation that a cell of the checkerboard spans."""
AVOIDED, MARGIN = ("corner", "close", "left", "front", "top"), 10.0
"""No training camera looks from within ``MARGIN`` degrees of one of these views, except at ``DISTANCES``."""
DISTANCES = ((0.55, 0.75), (1.3, 1.7))
"""Factors of a trained view's distance: training cameras that look from nearly its direction are so far away."""
LOWEST = 8.0
"""Degrees above the table from which a camera looks at least."""

Cameras = Mapping[str, SimView]


def held_out(azimuth: float, elevation: float) -> bool:
    """Return whether cameras that look in this direction are left out of training."""
    return (math.floor(azimuth % 360 / CELL) + math.floor(elevation / CELL)) % 2 == 1


def random_camera(rng: np.random.Generator) -> SimView:
    """Draw a camera that looks at the scene from anywhere above the table, all directions being equally likely."""
    height = rng.uniform(math.sin(math.radians(LOWEST)), 1.0)
    return SimView(
        lookat=(rng.uniform(-0.06, 0.06), rng.uniform(0.62, 0.74), rng.uniform(0.08, 0.16)),
        distance=rng.uniform(0.8, 1.5),
        azimuth=rng.uniform(0.0, 360.0),
        elevation=-math.degrees(math.asin(height)),
    )


def training_camera(rng: np.random.Generator, trained: Sequence[SimView]) -> SimView:
    """Draw a camera to refuse: anywhere, turned from a trained one by up to 30 degrees, or nearer or farther."""
    kind, base = rng.integers(3), trained[int(rng.integers(len(trained)))]
    if kind == 0:
        near, far = DISTANCES
        factor = rng.uniform(*(near if rng.random() < 0.35 else far))
        return _beside(base, rng, turn=8.0, factor=factor)
    while True:
        camera = (
            random_camera(rng) if kind == 1 else _beside(base, rng, turn=30.0, factor=rng.uniform(0.9, 1.15))
        )
        kept = held_out(camera.azimuth, camera.elevation) or camera.elevation > -LOWEST
        if not kept and all(angle(camera, VIEWS[name]) > MARGIN for name in AVOIDED):
            return camera


def angle(one: SimView, other: SimView) -> float:
    """Return the degrees between the directions in which two cameras look."""
    return math.degrees(math.acos(min(1.0, max(-1.0, float(_direction(one) @ _direction(other))))))


def rendered(
    plans: Sequence[RolloutPlan], cameras: Callable[[RolloutPlan], Cameras], fps: int | None
) -> Iterator[tuple[RolloutPlan, dict[str, Frames]]]:
    """Yield each plan with the frames of its rollout under its cameras, by their names.

    Args:
        plans: The rollouts, those of a task next to each other.
        cameras: Returns the cameras of a rollout.
        fps: Frames per second; ``None`` for only the first frame.
    """
    choose_gl_backend()
    for task, group in groupby(plans, key=lambda plan: plan.task):
        own = {plan: cameras(plan) for plan in group}
        named = {
            f"{number}/{name}": view
            for number, views in enumerate(own.values())
            for name, view in views.items()
        }
        env = SimEnv(get_task(task))
        renderer = SceneRenderer(env.model, named, SIZE)
        try:
            for number, (plan, views) in enumerate(own.items()):
                names = [f"{number}/{name}" for name in views]
                if fps is None:
                    env.reset(int(plan.scene_rng().integers(2**31)))
                    found = [renderer.render(env.data, name, env.mark)[None] for name in names]
                else:
                    frames = play(env, plan, renderer, names, fps).frames
                    found = [frames[name] for name in names]
                yield plan, dict(zip(views, found, strict=True))
        finally:
            renderer.close()
            env.close()


def _beside(base: SimView, rng: np.random.Generator, turn: float, factor: float) -> SimView:
    """Return a camera turned by up to ``turn`` degrees, at another distance, that looks at a point nearby."""
    x, y, z = (value + rng.uniform(-0.03, 0.03) for value in base.lookat)
    return SimView(
        lookat=(x, y, z),
        distance=base.distance * factor,
        azimuth=(base.azimuth + rng.uniform(-turn, turn)) % 360,
        elevation=base.elevation + rng.uniform(-turn, turn) * 0.75,
    )


def _direction(view: SimView) -> np.ndarray:
    azimuth, elevation = math.radians(view.azimuth), math.radians(view.elevation)
    flat = math.cos(elevation)
    return np.array([math.cos(azimuth) * flat, math.sin(azimuth) * flat, math.sin(elevation)])
