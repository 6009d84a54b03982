"""View: one camera of one episode, read on demand.

Readers return views; a view opens nothing until one of its methods is called, and must be picklable.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol

from stepscore.types import FloatArray, Frames, IntArray


class ViewInfo(NamedTuple):
    """Properties of a view that are known without decoding a frame.

    ``duration_s`` is the last frame's timestamp plus one frame. ``first_frame`` is the index in the file of the
    episode's first frame (not 0 where many episodes share one file).
    """

    n_frames: int
    fps: float
    width: int
    height: int
    duration_s: float
    first_frame: int = 0


class View(Protocol):
    """One camera of one episode."""

    def info(self) -> ViewInfo:
        """Return count, rate, size and duration; raises VideoError when there is nothing to read."""

    def timestamps(self) -> FloatArray:
        """Return the seconds of every frame from the episode's first, strictly increasing, shape (n_frames,)."""

    def read(self, indices: Sequence[int], size: int | None = None) -> Frames:
        """Read the frames at ``indices`` (in that order, repeats allowed), shape (n, h, w, 3).

        Args:
            indices: Frame indices counted from the episode's first frame, each in 0..n_frames-1.
            size: Longer side in pixels; the aspect ratio is kept. ``None`` keeps the recorded size.
        """

    def digest(self) -> bytes:
        """Return bytes that identify the frames: of file size, first and last 64 KiB, and time span in the file."""

    def location(self) -> str:
        """Return where the frames are, for messages and tables: a path, and the episode's span in that file."""


@dataclass(frozen=True)
class Clip:
    """Frames of one view with their timestamps and indices in the episode.

    Attributes:
        frames: RGB images, shape (n, h, w, 3), uint8.
        timestamps: Seconds from the episode's first frame, shape (n,).
        indices: Frame indices counted from the episode's first frame, shape (n,).
    """

    frames: Frames
    timestamps: FloatArray
    indices: IntArray

    def __post_init__(self) -> None:
        n = len(self.frames)
        if self.frames.ndim != 4 or self.frames.shape[-1] != 3 or self.frames.dtype != "uint8":
            raise ValueError(
                f"Clip frames are {self.frames.shape} {self.frames.dtype}; expected (n, h, w, 3) uint8."
            )
        if self.timestamps.shape != (n,) or self.indices.shape != (n,):
            raise ValueError(
                f"Clip has {n} frames, {len(self.timestamps)} times and {len(self.indices)} indices."
            )

    def __len__(self) -> int:
        return len(self.frames)

    def __repr__(self) -> str:
        if not len(self):
            return "Clip(0 frames)"
        n, height, width, _ = self.frames.shape
        first, last = self.timestamps[[0, -1]]
        span = f"{first:.2f}-{last:.2f} s, indices {self.indices.min()}-{self.indices.max()}"
        return f"Clip({n} {'frame' if n == 1 else 'frames'}, {width}x{height}, {span})"


@dataclass(frozen=True)
class GoalFrame:
    """The last frame of a view of another episode."""

    episode_id: str
    view: View

    def digest(self) -> bytes:
        """Return bytes that identify the image: those of the whole view, which are cheap to read."""
        return hashlib.sha256(b"last frame\0" + self.view.digest()).digest()

    def read(self, size: int | None = None) -> Frames:
        """Read the image, (h, w, 3), with its longer side ``size`` pixels."""
        image: Frames = self.view.read([len(self.view.timestamps()) - 1], size)[0]
        return image

    def location(self) -> str:
        """Return where it is, for messages and tables."""
        return f"last frame of {self.episode_id} ({self.view.location()})"
