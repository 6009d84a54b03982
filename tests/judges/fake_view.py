"""A camera that has times but no frames, for judges that look at none."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from stepscore.episodes import Episode
from stepscore.episodes.view import ViewInfo
from stepscore.judges import Judge
from stepscore.models import Model, Request
from stepscore.types import FloatArray, Frames, Judgement


@dataclass(frozen=True)
class FakeView:
    n_frames: int
    fps: float = 10.0

    def info(self) -> ViewInfo:
        return ViewInfo(self.n_frames, self.fps, 64, 48, self.n_frames / self.fps)

    def timestamps(self) -> FloatArray:
        return np.arange(self.n_frames) / self.fps

    def read(self, indices: Sequence[int], size: int | None = None) -> Frames:
        raise AssertionError("this judge must not look at frames")

    def digest(self) -> bytes:
        return f"{self.n_frames} {self.fps}".encode()

    def location(self) -> str:
        return "fake"


def rollout(frames: int = 0, fps: float = 10.0, id: str = "a/b", **fields: object) -> Episode:
    """An episode with a video of so many frames; without video for 0."""
    views = {"main": FakeView(frames, fps)} if frames else {}
    return Episode(id=id, instruction="push the cube", views=views, **fields)  # type: ignore[arg-type]


async def no_model(request: Request, model: Model | None = None) -> Any:
    raise AssertionError("this judge must not ask a model")


def judged(judge: Judge, episode: Episode) -> Judgement:
    return asyncio.run(judge.judge(episode, no_model))
