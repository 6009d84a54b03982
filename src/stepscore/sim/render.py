"""Rendering of scenes. All settings are data, so that others can render the same domain.

Cameras are placed by look-at point, distance and angles. No site of the model is rendered (debugging dots and
Meta-World's goal balls); a goal that is a coordinate is shown by one grey ball, the same before and after success.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
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
    "high": SimView(lookat=(0.0, 0.68, 0.12), distance=1.05, azimuth=125.0, elevation=-58.0),
    "gripper": SimView(fixed="gripperPOV"),
}
MAX_TURN_DEG, MAX_TILT_DEG, MAX_SHIFT_M, MAX_ZOOM = 12.0, 8.0, 0.03, 0.1
"""Largest change of a varied camera: azimuth, elevation, the point it looks at, share of its distance."""
MAX_LIGHT, MAX_TINT = 0.4, 0.25
"""Largest change of the light's and of a colour channel's share, in a varied scene."""


@dataclass(frozen=True)
class SceneVariation:
    """A random change of how a scene looks: camera, light and colours.

    Attributes:
        turn: Degrees added to the azimuth.
        tilt: Degrees added to the elevation.
        zoom: Factor on the distance.
        shift: Metres added to the point that the camera looks at.
        light: Factor on the light.
        tint_seed: Seed of the factors on the colours.
        tint_range: Largest change of a colour's factor.
    """

    turn: float = 0.0
    tilt: float = 0.0
    zoom: float = 1.0
    shift: tuple[float, float, float] = (0.0, 0.0, 0.0)
    light: float = 1.0
    tint_seed: int = 0
    tint_range: float = 0.0

    def moved(self, view: SimView) -> SimView:
        """Return the moved camera; a fixed one is unchanged."""
        x, y, z = view.lookat
        dx, dy, dz = self.shift
        return replace(
            view,
            lookat=(x + dx, y + dy, z + dz),
            distance=view.distance * self.zoom,
            azimuth=view.azimuth + self.turn,
            elevation=view.elevation + self.tilt,
        )

    def tint(self, colours: FloatArray) -> None:
        """Multiply red, green and blue of every row of (n, 4) by separate factors, in place."""
        rng = np.random.default_rng([self.tint_seed, len(colours)])
        factors = rng.uniform(1 - self.tint_range, 1 + self.tint_range, (len(colours), 3))
        colours[:, :3] = np.clip(colours[:, :3] * factors, 0.0, 1.0)


UNVARIED = SceneVariation()


def draw_variation(rng: np.random.Generator, amount: float) -> SceneVariation:
    """Draw a variation; ``amount`` in 0..1 scales the largest changes."""
    turn, tilt, zoom, light = amount * rng.uniform(-1, 1, 4)
    dx, dy, dz = (amount * MAX_SHIFT_M * rng.uniform(-1, 1, 3)).tolist()
    return SceneVariation(
        turn=turn * MAX_TURN_DEG,
        tilt=tilt * MAX_TILT_DEG,
        zoom=1 + zoom * MAX_ZOOM,
        shift=(dx, dy, dz),
        light=1 + light * MAX_LIGHT,
        tint_seed=int(rng.integers(2**31)),
        tint_range=amount * MAX_TINT,
    )


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
        raise OptionError(f"size must be even and at least 16, got {size}.")
    for name in views:
        if name not in VIEWS:
            raise UnknownNameError("simulator view", name, VIEWS)


class SceneRenderer:
    """Renderer of one environment's scenes. A process may have one open at a time: close it before the next."""

    def __init__(self, model: Any, views: Sequence[str] | Mapping[str, SimView], size: int = SIZE) -> None:
        mujoco = import_module("mujoco")

        check_views(() if isinstance(views, Mapping) else views, size)
        cameras = views if isinstance(views, Mapping) else {name: VIEWS[name] for name in views}
        # Quality is read when the renderer is made.
        model.vis.quality.offsamples, model.vis.quality.shadowsize = SAMPLES, SHADOW_SIZE
        model.vis.global_.fovy = FIELD_OF_VIEW
        self._renderer = mujoco.Renderer(model, size, size)
        self._options = mujoco.MjvOption()
        self._options.sitegroup[:] = 0
        self._views = cameras
        self._cameras = {name: _mujoco_camera(view) for name, view in cameras.items()}
        self._model = model
        self._originals = [(a, a.copy()) for a in (model.light_diffuse, model.mat_rgba, model.geom_rgba)]
        self._headlight = model.vis.headlight.diffuse.copy()

    def render(self, data: Any, view: str, mark: FloatArray | None = None) -> Frames:
        """Return the image of one view, uint8 of shape (size, size, 3), with the mark if there is one."""
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

    def vary(self, variation: SceneVariation | None) -> None:
        """Move the placed cameras, and change light and colours, until the next call; ``None`` undoes it."""
        model = self._model
        changed = variation or UNVARIED
        for name in self._cameras:
            self._cameras[name] = _mujoco_camera(changed.moved(self._views[name]))
        for array, original in self._originals:
            array[:] = original
        model.light_diffuse[:] *= changed.light
        model.vis.headlight.diffuse[:] = np.asarray(self._headlight) * changed.light
        changed.tint(model.mat_rgba)
        changed.tint(model.geom_rgba)

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
