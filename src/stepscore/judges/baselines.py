"""The trivial judges that every other judge is compared with: they look at no frame, or only at pixels.

A judge that cannot beat these knows nothing: on rollouts that stop after success, the clock ranks
the frames of every success perfectly.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from stepscore.episodes import Episode, SampledFrames, sample_frames
from stepscore.errors import EpisodeError
from stepscore.judges.base import Ask, episode_rng
from stepscore.judges.common.option_checks import check_options, image_size, seed, whole, within
from stepscore.types import Curve, FloatArray, Judgement


def sample_times(episode: Episode, points: int) -> FloatArray:
    """Return timestamps of ``points`` frames spread evenly from the first to the last (fewer in a short episode)."""
    if not episode.views:
        raise EpisodeError(f"Episode {episode.id} has no video, so no frame times; use the 'recorded' judge.")
    at = episode.views[episode.main_view].timestamps()
    if not len(at):
        raise EpisodeError(f"Episode {episode.id} has no frames.")
    return at[np.round(np.linspace(0, len(at) - 1, min(points, len(at)))).astype(np.int64)]


class Baseline(Protocol):
    """A judge that needs only an episode's id and the times to score."""

    def judge_at(self, episode: Episode, times: FloatArray) -> Judgement:
        """Return the judgement at these times, in seconds, strictly increasing."""


@dataclass(frozen=True)
class LinearTime:
    """Progress is time over duration: the clock as a judge.

    Attributes:
        points: Points on the curve, from the first frame to the last.
    """

    points: int = 32
    name = "linear-time"
    version = 1
    models = ()

    def __post_init__(self) -> None:
        check_options(self, points=whole(2))

    def options(self) -> Mapping[str, object]:
        """Return everything that can change a number."""
        return {"points": self.points}

    async def judge(self, episode: Episode, ask: Ask) -> Judgement:
        """Score by the clock at ``points`` frames."""
        return self.judge_at(episode, sample_times(episode, self.points))

    def judge_at(self, episode: Episode, times: FloatArray) -> Judgement:
        """Return a straight line from 0 at time 0 to 1 at the last of these times."""
        progress = times / times[-1] if times[-1] > 0 else np.zeros_like(times)
        return Judgement(Curve(times, progress))


@dataclass(frozen=True)
class Constant:
    """Progress is the same everywhere.

    Attributes:
        value: Progress and success score, 0..1.
        points: Points on the curve.
    """

    value: float = 0.5
    points: int = 32
    name = "constant"
    version = 1
    models = ()

    def __post_init__(self) -> None:
        check_options(self, points=whole(2), value=within(0, 1))

    def options(self) -> Mapping[str, object]:
        """Return everything that can change a number."""
        return {"value": self.value, "points": self.points}

    async def judge(self, episode: Episode, ask: Ask) -> Judgement:
        """Score ``points`` frames alike."""
        return self.judge_at(episode, sample_times(episode, self.points))

    def judge_at(self, episode: Episode, times: FloatArray) -> Judgement:
        """Return a flat line, and the same value as success score."""
        return Judgement(Curve(times, np.full_like(times, self.value)), success_score=self.value)


@dataclass(frozen=True)
class RandomMonotone:
    """Progress rises at random: sorted uniform numbers, up to a random end.

    Attributes:
        points: Points on the curve.
        seed: Random seed; each episode has curves of its own.
    """

    points: int = 32
    seed: int = 0
    name = "random-monotone"
    version = 1
    models = ()

    def __post_init__(self) -> None:
        check_options(self, points=whole(2), seed=seed())

    def options(self) -> Mapping[str, object]:
        """Return everything that can change a number."""
        return {"points": self.points, "seed": self.seed}

    async def judge(self, episode: Episode, ask: Ask) -> Judgement:
        """Score ``points`` frames at random."""
        return self.judge_at(episode, sample_times(episode, self.points))

    def judge_at(self, episode: Episode, times: FloatArray) -> Judgement:
        """Return a random rising curve and a random success score, fixed by the episode's id and the seed."""
        rng = episode_rng(episode, self.name, self.seed)
        progress = np.sort(rng.uniform(0.0, 1.0, len(times))) * rng.uniform()
        return Judgement(Curve(times, progress), success_score=float(rng.uniform()))


BASELINES: Mapping[str, Baseline] = {
    judge.name: judge for judge in (LinearTime(), Constant(), RandomMonotone())
}
"""The baselines by name, each with its default options."""


@dataclass(frozen=True)
class ImageDifference:
    """Progress is the distance of the image to the first, as a share of the episode's largest.

    The distance is the mean absolute difference of all pixels, averaged over views: the channel ``raw``, 0..1. An
    episode in which nothing moves has progress 0 throughout; any other reaches 1, whatever was done in it.

    Attributes:
        points: Points on the curve, spread evenly from the first frame to the last.
        size: Longer side of a frame in pixels.
    """

    points: int = 16
    size: int | None = 64
    name = "image-difference"
    version = 1
    models = ()

    def __post_init__(self) -> None:
        check_options(self, points=whole(2), size=image_size())

    def options(self) -> Mapping[str, object]:
        """Return everything that can change a number."""
        return {"points": self.points, "size": self.size}

    async def judge(self, episode: Episode, ask: Ask) -> Judgement:
        """Return the curve; frames are decoded outside the event loop."""
        if not episode.views:
            raise EpisodeError(f"Episode {episode.id} has no video; image-difference needs one.")
        return await asyncio.get_running_loop().run_in_executor(None, self._judge, episode)

    async def compare(
        self,
        episode: Episode,
        sampled: SampledFrames,
        pairs: Sequence[tuple[int, int]],
        ask: Ask,
        *,
        repeat: int = 0,
    ) -> FloatArray:
        """Return how much farther from the start the second frame of each pair is; see :class:`FrameComparer`."""
        raw = await asyncio.get_running_loop().run_in_executor(None, self._raw, episode, sampled)
        return np.array([raw[after] - raw[before] for before, after in pairs])

    def _judge(self, episode: Episode) -> Judgement:
        sampled = sample_frames(episode, count=self.points)
        raw = self._raw(episode, sampled)
        largest = float(raw.max())
        return Judgement(Curve(sampled.times, raw / largest if largest > 0 else raw, {"raw": raw}))

    def _raw(self, episode: Episode, sampled: SampledFrames) -> FloatArray:
        """Return the distance of every sampled frame to the first, the mean over views."""
        views = [
            self._distances(episode, view, indices.tolist()) for view, indices in sampled.indices.items()
        ]
        return np.asarray(np.mean(views, axis=0))

    def _distances(self, episode: Episode, view: str, indices: list[int]) -> FloatArray:
        frames = episode.clip(view, indices=indices, size=self.size).frames.astype(np.float64) / 255.0
        distances: FloatArray = np.abs(frames - frames[0]).mean(axis=(1, 2, 3))
        return distances
