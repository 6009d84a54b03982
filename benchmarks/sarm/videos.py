"""Encoded test videos with their labels; and the same videos at another speed."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from stepscore.episodes import Episode, first_frame_from, frame_at
from stepscore.episodes.labels.label_intervals import POTENTIAL
from stepscore.episodes.perturbations.length_matching import match_lengths
from stepscore.models.sarm.encoders import FrameEncoder
from stepscore.models.vision_encoder import Half
from stepscore.sim import get_task
from stepscore.training.embedded.tasks import FPS, VIEW
from stepscore.training.sarm.dataset import encode_episode
from stepscore.training.sarm.targets import labelled_progress
from stepscore.types import FloatArray, IntArray


@dataclass(frozen=True, eq=False)
class Video:
    """The encoded main view of a test episode, with its labels.

    Attributes:
        id: The episode's id.
        task: The simulator's name of the task.
        pair: Its scene.
        instruction: The text the robot was given.
        success: Whether the task is done at the end.
        times: Timestamps of its frames, (n,).
        features: Encoded frames, (n, 1, features).
        truth: The potential, (n,).
        stages: Index of the stage under way, (n,).
    """

    id: str
    task: str
    pair: str | None
    instruction: str
    success: bool
    times: FloatArray
    features: Half
    truth: FloatArray
    stages: IntArray

    def at(self, times: FloatArray) -> IntArray:
        """Return the frame shown at each time."""
        return frame_at(self.times, times)

    def select(self, frames: IntArray, times: FloatArray) -> Video:
        """Return some of its frames, with other timestamps."""
        return replace(
            self,
            times=times,
            features=np.asarray(self.features)[frames],
            truth=self.truth[frames],
            stages=self.stages[frames],
        )

    def resampled(self, speed: float) -> Video:
        """Return the video at another speed and the same fps: frames are left out or repeated."""
        times = np.arange(int(self.times[-1] * FPS / speed + 1e-6) + 1) / FPS
        return self.select(self.at(times * speed), times)

    def first_frames(self, count: int) -> Video:
        """Return its first frames."""
        return self.select(np.arange(count), self.times[:count])


def encode_video(episode: Episode, encoder: FrameEncoder, features_dir: Path) -> Video:
    """Encode an episode's main view; every frame is encoded once and kept."""
    times = episode.views[VIEW].timestamps()
    names = stage_names(str(episode.task))
    stages = np.full(len(times), -1, dtype=np.int64)
    for span in episode.labels.stages:
        first, end = first_frame_from(times, [span.start_s, span.end_s])
        stages[first:end] = names.index(span.name)
    return Video(
        episode.id,
        str(episode.task),
        episode.pair,
        episode.instruction,
        bool(episode.labels.success),
        times,
        encode_episode(episode, (VIEW,), encoder, features_dir),
        labelled_progress(episode, POTENTIAL, times),
        stages,
    )


def from_view(episode: Episode, view: str) -> Episode:
    """Return the episode with another camera's video as its main view."""
    return replace(episode, views={VIEW: episode.views[view]}, id=f"{episode.id}~{view}")


def stage_names(task: str) -> list[str]:
    """Return the stages of a task, in order."""
    return [milestone.stage for milestone in get_task(task).milestones]


@dataclass(frozen=True)
class MatchedVideo:
    """A video of a success, or of a failure cut to the length of one.

    Attributes:
        id: Id of the video it is cut from.
        episode: The episode, cut.
        frames: Number of its frames.
        success: Whether it is a success.
    """

    id: str
    episode: Episode
    frames: int
    success: bool


def match_videos(episodes: Iterable[Episode]) -> list[MatchedVideo]:
    """Return successes and failures of matched lengths."""
    matched = match_lengths(episode.with_views([VIEW]) for episode in episodes)
    good = {success for success, _ in matched.pairs}
    return [
        MatchedVideo(
            str(e.metadata.get("changed_from", e.id)), e, len(e.views[VIEW].timestamps()), e.id in good
        )
        for e in matched.episodes
    ]


def linear_time(video: Video) -> FloatArray:
    """Return time over duration at each frame."""
    last = float(video.times[-1])
    return video.times / last if last > 0 else np.zeros(len(video.times))


def duration_distance(videos: Sequence[Video]) -> list[float]:
    """Return how unusual each success's stage durations are: the distance of its stages' shares from the task's mean.

    Half the sum of absolute differences, up to the first frame at which the task is done: 0 where every stage takes
    its usual share, 1 where none does. NaN for failures.
    """
    shares = [_shares(video) if video.success else None for video in videos]
    usual = {
        task: np.mean(
            [s for f, s in zip(videos, shares, strict=True) if s is not None and f.task == task], axis=0
        )
        for task in {video.task for video in videos if video.success}
    }
    return [
        math.nan if own is None else float(np.abs(own - usual[video.task]).sum() / 2)
        for video, own in zip(videos, shares, strict=True)
    ]


def _shares(video: Video) -> FloatArray:
    done = np.flatnonzero(video.truth >= 1.0)
    stages = video.stages[: max(1, int(done[0]))] if len(done) else video.stages
    count = len(stage_names(video.task))
    return np.bincount(stages[stages >= 0], minlength=count) / max(1, int((stages >= 0).sum()))
