"""``RewardWrapper``: a gymnasium environment that also pays for the progress that a judge sees."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal, Protocol, SupportsFloat, cast

import numpy as np

from stepscore._imports import check_extra
from stepscore.episodes import Clip
from stepscore.errors import OptionError
from stepscore.rewards.forms import CLIP
from stepscore.rewards.shaping import OnlineForm, PotentialShaping, RelativeShaping
from stepscore.types import Curve, Frames

check_extra("rl", "RewardWrapper")

import gymnasium  # noqa: E402

Render = Callable[[], "Frames | Mapping[str, Frames]"]


class LiveSession(Protocol):
    """A growing video that is scored."""

    def add(self, frames: Any) -> Curve:
        """Return the points that these frames make."""

    def finish(self) -> Curve:
        """Return the point of the last frame, where it has none yet."""

    def close(self) -> None:
        """End it."""


class OnlineJudge(Protocol):
    """A judge that scores growing videos: ``topreward`` with ``sampling=causal``, or a :class:`RemoteJudge`."""

    @property
    def fps(self) -> float:
        """Frames per second of the videos it is shown."""

    def open(self, instruction: str, views: Any, task: str | None = None) -> Any:
        """Open a session."""


@dataclass
class Counts:
    """What a wrapper has asked and got, over all episodes.

    Attributes:
        episodes: Episodes begun.
        frames: Frames shown to the judge.
        known: Points at which progress was known.
        unknown: Points at which it was not: no reward was paid for them.
    """

    episodes: int = 0
    frames: int = 0
    known: int = 0
    unknown: int = 0


class RewardWrapper(gymnasium.Wrapper[Any, Any, Any, Any]):
    """Adds a judge's reward to an environment's.

    Each step's ``info["stepscore"]`` has ``progress`` and ``success`` (NaN where no point came), ``reward`` (the
    judge's part) and ``env_reward``.

    Args:
        env: The environment; with ``render_mode="rgb_array"``, unless ``render`` is given.
        judge: ``get_judge("topreward", model=..., sampling="causal")``, or ``RemoteJudge(url)``.
        instruction: What the robot is to do.
        form: ``"potential"``: gamma phi' - phi, which changes no optimal policy. ``"relative"``: the change, clipped.
            ``"terminal"``: 1 at the end of an episode that the judge takes for a success.
        gamma: The discount of the learner; it must be the same.
        weight: Factor on the judge's reward.
        env_reward: Factor on the environment's own reward; 0 for none.
        every: Show every n-th state to the judge; ``"episode"`` asks once, at the end. By default as many as make
            the judge's frames per second of the environment's ``render_fps``; 1 where it states none.
        clip: relative: largest change.
        success_at: Probability (or score, where the judge is not calibrated) from which an episode is a success.
        success_ends: End the episode where the judge sees success. Its false positives then end episodes.
        render: Returns the image, or images by view, to show; by default ``env.render()``.
        views: The cameras.
        task: The task's name, where the calibration has a term for it.

    Attributes:
        counts: What was asked, and how much of it was unknown.
    """

    def __init__(
        self,
        env: gymnasium.Env[Any, Any],
        judge: OnlineJudge,
        instruction: str,
        *,
        form: OnlineForm = "potential",
        gamma: float = 0.99,
        weight: float = 1.0,
        env_reward: float = 1.0,
        every: int | Literal["episode"] | None = None,
        clip: float = CLIP,
        success_at: float = 0.5,
        success_ends: bool = False,
        render: Render | None = None,
        views: tuple[str, ...] = ("main",),
        task: str | None = None,
    ) -> None:
        super().__init__(env)
        if form not in ("potential", "relative", "terminal"):
            raise OptionError(f"form must be potential, relative or terminal, got {form!r}.")
        if every is not None and every != "episode" and (not isinstance(every, int) or every < 1):
            raise OptionError(f"every must be an integer from 1 or 'episode', got {every!r}.")
        if render is None and env.render_mode != "rgb_array":
            raise OptionError(
                f"The environment has render_mode={env.render_mode!r}, and the judge needs images. Make it with "
                "render_mode='rgb_array', or pass render=..."
            )
        if env_reward == 0 and form == "potential":
            warnings.warn(
                "form='potential' without the environment's reward prefers no policy: its sum depends only on the "
                "first state. Use env_reward=1, or form='terminal'.",
                stacklevel=2,
            )
        self._judge, self._instruction, self._views, self._task = judge, instruction, views, task
        self._form, self._weight, self._env_reward = form, weight, env_reward
        self._every = _default_every(env, judge) if every is None else every
        self._success_at, self._success_ends = success_at, success_ends
        self._shaping = RelativeShaping(clip) if form == "relative" else PotentialShaping(gamma)
        self._render_frames = render or cast(Render, env.render)
        self._session: LiveSession | None = None
        self._kept: list[Mapping[str, Frames]] = []
        self._steps, self._success = 0, math.nan
        self.counts = Counts()

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, Any]:
        """Begin an episode."""
        self._end()
        observation, info = self.env.reset(seed=seed, options=options)
        self._session = self._judge.open(self._instruction, self._views, self._task)
        self._steps, self._success = 0, math.nan
        self.counts.episodes += 1
        self._shaping.begin(self._show())
        return observation, info

    def step(self, action: Any) -> tuple[Any, SupportsFloat, bool, bool, dict[str, Any]]:
        """Step, and add the judge's reward."""
        observation, own, terminated, truncated, info = self.env.step(action)
        self._steps += 1
        over = terminated or truncated
        # The last state is always shown: its success counts.
        due = self._every == "episode" or self._steps % self._every == 0
        progress = self._show(last=over) if due or over else math.nan
        if self._success_ends and self._success >= self._success_at:
            terminated = over = True
        if self._form == "terminal":
            paid = float(over and self._success >= self._success_at)
        else:
            paid = self._shaping.step(progress, terminated=terminated)
        reward = self._env_reward * float(own) + self._weight * paid
        facts = {
            "progress": progress,
            "success": self._success if not math.isnan(progress) or over else math.nan,
            "reward": self._weight * paid,
            "env_reward": float(own),
        }
        if over:
            self._end()
        return observation, reward, terminated, truncated, {**info, "stepscore": facts}

    def close(self) -> None:
        """End the session and the environment."""
        self._end()
        super().close()

    def _show(self, *, last: bool = False) -> float:
        """Show the state to the judge, and return the progress that is known of it."""
        if self._session is None:
            return math.nan
        images = self._render_frames()
        by_view = images if isinstance(images, Mapping) else {self._views[0]: images}
        self._kept.append({view: np.array(image, dtype=np.uint8) for view, image in by_view.items()})
        if self._every == "episode" and not last:
            return math.nan
        clips, self._kept = self._clips(self._kept), []
        points = [self._session.add(clips)]
        if last:
            points.append(self._session.finish())
        return self._note([each for each in points if len(each)])

    def _clips(self, kept: list[Mapping[str, Frames]]) -> dict[str, Clip]:
        """Return the images as clips, at the judge's rate."""
        numbers = np.arange(self._shown_in_episode, self._shown_in_episode + len(kept))
        self._shown_in_episode += len(kept)
        self.counts.frames += len(kept)
        return {
            view: Clip(np.stack([each[view] for each in kept]), numbers / self._judge.fps, numbers)
            for view in kept[0]
        }

    def _note(self, points: list[Curve]) -> float:
        """Count points, keep the last success, and return the progress of the last point."""
        for curve in points:
            unknown = int(np.isnan(curve.progress).sum())
            self.counts.unknown += unknown
            self.counts.known += len(curve) - unknown
            channel = "success_probability" if "success_probability" in curve.channels else "success"
            if channel in curve.channels:
                self._success = float(curve.channels[channel][-1])
        return float(points[-1].progress[-1]) if points else math.nan

    def _end(self) -> None:
        self._kept, self._shown_in_episode = [], 0
        if self._session is not None:
            self._session.close()
            self._session = None


def _default_every(env: gymnasium.Env[Any, Any], judge: OnlineJudge) -> int:
    """Return the steps between two frames of the judge's rate."""
    rate = env.metadata.get("render_fps")
    return max(1, round(float(rate) / judge.fps)) if rate else 1
