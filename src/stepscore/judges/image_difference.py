"""A baseline that looks at pixels alone: how much has the image changed since the first frame?

It reads no instruction and knows no object, so whatever it scores on a benchmark can be had from motion alone.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from stepscore.episodes import Episode, SampledFrames, sample_frames
from stepscore.errors import EpisodeError
from stepscore.judges.base import Ask
from stepscore.judges.common.option_checks import check_options, image_size, whole
from stepscore.types import Curve, FloatArray, Judgement


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
        """Return all that can change a number."""
        return {"points": self.points, "size": self.size}

    async def judge(self, episode: Episode, ask: Ask) -> Judgement:
        """Return the curve; frames are decoded beside the event loop."""
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
