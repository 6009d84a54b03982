"""A small deterministic environment, and judges that read its state from the image."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

import gymnasium
import numpy as np

from stepscore.episodes import Clip
from stepscore.types import Curve, Frames


class Chain(gymnasium.Env[Any, Any]):
    """States 0..length: action 1 moves right, 0 left; the right end pays 1 and is the true end."""

    metadata = {"render_modes": ["rgb_array"]}  # noqa: RUF012
    render_mode = "rgb_array"
    observation_space = gymnasium.spaces.Discrete(100)
    action_space = gymnasium.spaces.Discrete(2)

    def __init__(self, length: int = 3, limit: int = 6, start: int = 1) -> None:
        self.length, self.limit, self.start = length, limit, start

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[int, dict[str, Any]]:
        super().reset(seed=seed)
        self.state, self.steps = self.start, 0
        return self.state, {}

    def step(self, action: int) -> tuple[int, float, bool, bool, dict[str, Any]]:
        self.state = max(0, self.state + (1 if action else -1))
        self.steps += 1
        done = self.state >= self.length
        return self.state, float(done), done, not done and self.steps >= self.limit, {}

    def render(self) -> Frames:
        return np.full((4, 4, 3), self.state, np.uint8)


class ScriptedJudge:
    """Progress by state, from a function of the number of the frame and the state; NaN is unknown."""

    fps = 2.0

    def __init__(
        self, progress: Callable[[int, int], float], success: Callable[[int], float] | None = None
    ) -> None:
        self._progress, self._success = progress, success
        self.opened = self.closed = 0

    def open(self, instruction: str, views: Any, task: str | None = None) -> Any:
        self.opened += 1
        return _Session(self, self._progress, self._success)


class _Session:
    def __init__(self, judge: ScriptedJudge, progress: Any, success: Any) -> None:
        self._judge, self._progress, self._success = judge, progress, success

    def add(self, frames: Clip | Mapping[str, Clip]) -> Curve:
        clip = frames if isinstance(frames, Clip) else frames["main"]
        states = clip.frames[:, 0, 0, 0].astype(int)
        values = np.array([self._progress(n, s) for n, s in zip(clip.indices, states, strict=True)])
        channels = (
            {}
            if self._success is None
            else {"success_probability": np.array([self._success(s) for s in states])}
        )
        return Curve(clip.timestamps, values, channels)

    def finish(self) -> Curve:
        return Curve(np.zeros(0), np.zeros(0))

    def close(self) -> None:
        self._judge.closed += 1


def by_state(
    values: Mapping[int, float], known: Callable[[int], bool] = lambda number: True
) -> ScriptedJudge:
    """A judge with this potential, known only at some frames."""
    return ScriptedJudge(lambda number, state: values.get(state, 0.0) if known(number) else math.nan)
