"""A point that moves in a square: continuous, cheap, and rendered."""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np

from stepscore.types import Frames


class Reach(gymnasium.Env[Any, Any]):
    """The point starts at the left and ends the episode at the right; eight steps at most."""

    metadata = {"render_modes": ["rgb_array"], "render_fps": 2}  # noqa: RUF012
    render_mode = "rgb_array"
    observation_space = gymnasium.spaces.Box(-1, 1, (2,), np.float32)
    action_space = gymnasium.spaces.Box(-1, 1, (2,), np.float32)

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        self.at, self.steps = np.array([-0.9, 0.0], np.float32), 0
        return self.at.copy(), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        self.at = np.clip(self.at + 0.4 * np.asarray(action, np.float32), -1, 1)
        self.steps += 1
        done = bool(self.at[0] > 0.8)
        return self.at.copy(), float(done), done, not done and self.steps >= 8, {}

    def render(self) -> Frames:
        image = np.full((32, 32, 3), 40, np.uint8)
        x, y = ((self.at + 1) * 13).astype(int)
        image[y : y + 6, x : x + 6] = 220
        return image
