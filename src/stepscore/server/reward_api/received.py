"""A video that a client sent: its frames in memory, as a clip for each view and as an episode."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from stepscore.episodes import Clip, Episode, ViewInfo, fit_size, resize_frames
from stepscore.errors import EpisodeError
from stepscore.types import FloatArray, Frames


@dataclass(frozen=True)
class ReceivedView:
    """Frames in memory, or only what is kept of them in a run: times, size and digest.

    Attributes:
        times: Seconds of the frames.
        size: Height and width.
        sha256: Of the frames.
        frames: The frames; ``None`` where they are not kept.
    """

    times: FloatArray
    size: tuple[int, int]
    sha256: bytes
    frames: Frames | None = None

    @classmethod
    def of(cls, clip: Clip) -> ReceivedView:
        """Return the view of a clip."""
        height, width = clip.frames.shape[1:3]
        digest = hashlib.sha256(np.ascontiguousarray(clip.frames).data).digest()
        return cls(clip.timestamps, (height, width), digest, clip.frames)

    def info(self) -> ViewInfo:
        """Return count, rate, size and duration."""
        n = len(self.times)
        fps = (n - 1) / float(self.times[-1] - self.times[0]) if n > 1 else 1.0
        return ViewInfo(n, fps, self.size[1], self.size[0], float(self.times[-1]) + 1 / fps)

    def timestamps(self) -> FloatArray:
        """Return the seconds of every frame."""
        return self.times

    def read(self, indices: Sequence[int], size: int | None = None) -> Frames:
        """Return frames, resized."""
        if self.frames is None:
            raise EpisodeError("Frames that were sent to a server are not kept.")
        chosen = self.frames[list(indices)]
        height, width = self.size
        return resize_frames(chosen, fit_size(width, height, size)[::-1])

    def digest(self) -> bytes:
        """Return bytes that identify the frames."""
        return self.sha256

    def location(self) -> str:
        """Return that they came over HTTP."""
        return "sent to the server"


@dataclass(frozen=True)
class Received:
    """A video to score.

    Attributes:
        clips: Frames by view, with the same timestamps in each.
        instruction: What the robot was asked to do.
        task: The task's name; ``None`` where it was not given.
        metadata: What the client said of it, kept in the run.
    """

    clips: Mapping[str, Clip]
    instruction: str
    task: str | None = None
    metadata: Mapping[str, object] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.times)

    @property
    def times(self) -> FloatArray:
        """Seconds of the frames."""
        return next(iter(self.clips.values())).timestamps

    def episode(self, name: str) -> Episode:
        """Return it as an episode."""
        views = {view: ReceivedView.of(clip) for view, clip in self.clips.items()}
        return Episode(
            name, self.instruction, source="server", task=self.task, views=views, metadata=self.metadata
        )
