"""A judge that computes; in a module of its own, from which other processes can load it."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from stepscore.episodes import Episode
from stepscore.judges import Ask
from stepscore.types import Judgement


@dataclass(frozen=True)
class Computing:
    """A judge that decodes an episode and computes for a second or more on one thread: products of its frames."""

    products: int = 60
    name = "computing"
    version = 1
    models = ()

    def options(self) -> Mapping[str, object]:
        """Return how much it computes."""
        return {"products": self.products}

    async def judge(self, episode: Episode, ask: Ask) -> Judgement:
        """Return a number that depends on every product."""
        started = time.thread_time()
        clip = episode.clip(episode.main_view, count=8)
        frames = np.resize(clip.frames.astype(np.float64) / 255, (1024, 1024))
        for _ in range(self.products):
            frames = frames @ frames.T
            frames /= np.abs(frames).max()
        spent = time.thread_time() - started
        return Judgement(success_score=float(frames.mean()), facts={"cpu_s": spent})


class Steady(Computing):
    """The same without its time, so that its tables are the same every time."""

    async def judge(self, episode: Episode, ask: Ask) -> Judgement:
        """Return the number alone."""
        return replace(await super().judge(episode, ask), facts={})
