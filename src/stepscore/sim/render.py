"""Rendering of scenes. All settings are data, so that others can render the same domain.

Cameras are placed by look-at point, distance and angles: upright, and nearer than Meta-World's own corner
cameras. No site of the model is rendered (they are debugging dots, and Meta-World's goal balls are among them);
where a task's goal is a coordinate, it is shown by one grey ball, the same before and after success.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import Any

import numpy as np

from stepscore.errors import OptionError, UnknownNameError
from stepscore.types import FloatArray, Frames


@dataclass(frozen=True)
class SimView:
    """A camera: one of the model's own, or one that is placed in the scene.

    Attributes:
        fixed: The model's own camera of that name, unchanged; empty for one that is placed here.
        lookat: The point it looks at, in metres.
        distance: Metres from that point to the camera.
        azimuth: Degrees of the viewing direction around the vertical; 90 is along +y, away from the robot.
        elevation: Degrees of the viewing direction above the horizon.
    """

    fixed: str = ""
    lookat: tuple[float, float, float] = (0.0, 0.66, 0.12)
    distance: float = 1.15
    azimuth: float = 140.0
    elevation: float = -28.0


VIEWS: Mapping[str, SimView] = {
    "corner": SimView(),
    "close": SimView(lookat=(0.0, 0.68, 0.13), distance=0.95),
    "left": SimView(lookat=(0.0, 0.68, 0.12), distance=1.1, azimuth=40.0, elevation=-30.0),
    "front": SimView(lookat=(0.0, 0.68, 0.12), distance=1.1, azimuth=-90.0, elevation=-35.0),
    "top": SimView(lookat=(0.0, 0.68, 0.1), distance=1.15, azimuth=90.0, elevation=-89.9),
    "gripper": SimView(fixed="gripperPOV"),
}
FIELD_OF_VIEW = 45.0
"""Vertical field of view of the placed cameras, in degrees."""
SHADOW_SIZE, SAMPLES = 512, 0
"""Shadow map and multisampling: with shadows and reflections off a frame takes a tenth of the default's time."""
MARK_RADIUS = 0.02
MARK_COLOUR = (0.75, 0.75, 0.75, 1.0)
"""The neutral mark: a grey ball of 2 cm."""
SIZE = 224
"""Default width and height in pixels."""


def check_views(views: Sequence[str], size: int) -> None:
    """Raise an error that names the wrong view or size."""
    if size < 16 or size % 2:
        raise OptionError(f"size is {size}; it must be even and at least 16.")
    for name in views:
        if name not in VIEWS:
            raise UnknownNameError("simulator view", name, VIEWS)


class SceneRenderer:
    """Renderer of one environment's scenes. A process may have one open at a time: close it before the next.

    Args:
        model: The environment's MuJoCo model.
        views: Names of ``VIEWS``.
        size: Width and height in pixels, even.
    """

    def __init__(self, model: Any, views: Sequence[str], size: int = SIZE) -> None:
        mujoco = import_module("mujoco")

        check_views(views, size)
        # Quality is read when the renderer is made.
        model.vis.quality.offsamples, model.vis.quality.shadowsize = SAMPLES, SHADOW_SIZE
        model.vis.global_.fovy = FIELD_OF_VIEW
        self._renderer = mujoco.Renderer(model, size, size)
        self._options = mujoco.MjvOption()
        self._options.sitegroup[:] = 0
        self._cameras = {name: _mujoco_camera(VIEWS[name]) for name in views}

    def render(self, data: Any, view: str, mark: FloatArray | None = None) -> Frames:
        """Return the image of one view, uint8 of shape (size, size, 3), with the mark where there is one."""
        mujoco = import_module("mujoco")

        scene = self._renderer.scene
        self._renderer.update_scene(data, camera=self._cameras[view], scene_option=self._options)
        for flag in (mujoco.mjtRndFlag.mjRND_SHADOW, mujoco.mjtRndFlag.mjRND_REFLECTION):
            scene.flags[flag] = 0
        if mark is not None:
            ball = scene.geoms[scene.ngeom]
            mujoco.mjv_initGeom(
                ball,
                mujoco.mjtGeom.mjGEOM_SPHERE,
                np.full(3, MARK_RADIUS),
                np.asarray(mark, dtype=np.float64),
                np.eye(3).ravel(),
                np.array(MARK_COLOUR, dtype=np.float32),
            )
            scene.ngeom += 1
        image: Frames = self._renderer.render().copy()
        return image

    def close(self) -> None:
        """Free the rendering context."""
        self._renderer.close()


def _mujoco_camera(view: SimView) -> Any:
    """Return what MuJoCo accepts as a camera: a name, or a camera placed in the scene."""
    mujoco = import_module("mujoco")

    if view.fixed:
        return view.fixed
    camera = mujoco.MjvCamera()
    camera.lookat[:], camera.distance = view.lookat, view.distance
    camera.azimuth, camera.elevation = view.azimuth, view.elevation
    return camera
