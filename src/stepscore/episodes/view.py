"""A View: one camera of one episode, read on demand.

Readers hand out views; nothing is opened until a view is asked for something. A view must be picklable.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Protocol

from stepscore.types import FloatArray, Frames


class ViewInfo(NamedTuple):
    """What a view is, learnt without decoding a frame.

    ``duration_s`` is the last frame's timestamp plus one frame. ``first_frame`` is the number, in the file,
    of the episode's first frame (not 0 where many episodes share one file).
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
        """Count, rate, size and duration; raises VideoError when there is nothing to read."""

    def timestamps(self) -> FloatArray:
        """Seconds of every frame from the episode's first, strictly increasing, shape (n_frames,)."""

    def read(self, indices: Sequence[int], size: int | None = None) -> Frames:
        """The frames at ``indices`` (in that order, repeats allowed), shape (n, h, w, 3).

        Args:
            indices: Frame numbers counted from the episode's first frame, each in 0..n_frames-1.
            size: Longer side in pixels; the aspect ratio is kept. ``None`` keeps the recorded size.
        """

    def digest(self) -> bytes:
        """What identifies the pictures: file size, first and last 64 KiB, and the time span in the file."""

    def location(self) -> str:
        """Where the pictures are, for messages and tables: a path, with the episode's place in it."""
