"""Views whose frames come in another order or at other times. Which ones is found when frames are asked for.

A change of time is a small value that turns the recorded timestamps into the numbers of the frames shown and
the times they are shown at. Each view of an episode applies it to its own timestamps, so cameras of different
frame rates stay together.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol

import numpy as np

from stepscore.episodes.sampling import TIME_TOLERANCE_S, check_indices, first_frame_from, frame_at
from stepscore.episodes.view import View, ViewInfo
from stepscore.types import FloatArray, Frames, IntArray


class Schedule(NamedTuple):
    """What a changed view shows: the numbers of the recorded frames, and when each is shown."""

    frames: IntArray
    times: FloatArray


class TimeChange(Protocol):
    """Which frames are shown when. A frozen dataclass: its repr goes into the view's digest."""

    def schedule(self, times: FloatArray, frame_s: float) -> Schedule:
        """What is shown, given the recorded ``times`` (from 0, rising) and the length of a frame."""

    def frame_s(self, frame_s: float) -> float:
        """The length of a frame afterwards."""


class _SameRate:
    """For changes that leave the frame rate as it is."""

    def frame_s(self, frame_s: float) -> float:
        """As before."""
        return frame_s


@dataclass(frozen=True)
class Frozen(_SameRate):
    """One frame throughout: the first, or the last."""

    last: bool

    def schedule(self, times: FloatArray, frame_s: float) -> Schedule:
        """The same times, one frame."""
        return Schedule(np.full(len(times), len(times) - 1 if self.last else 0), times)


@dataclass(frozen=True)
class Reversed(_SameRate):
    """The last frame first. Frame i, shown at t_i, is now shown at t_last - t_i."""

    def schedule(self, times: FloatArray, frame_s: float) -> Schedule:
        """The frames from last to first, each after the gap that followed it."""
        return Schedule(np.arange(len(times))[::-1], times[-1] - times[::-1])


@dataclass(frozen=True)
class Cut(_SameRate):
    """The frames shown before ``to_s``; always the first."""

    to_s: float

    def schedule(self, times: FloatArray, frame_s: float) -> Schedule:
        """The first frames, as they were."""
        kept = max(1, int(first_frame_from(times, self.to_s)))
        return Schedule(np.arange(kept), times[:kept])


@dataclass(frozen=True)
class Slowed:
    """The same frames, each shown ``factor`` times as long."""

    factor: float

    def schedule(self, times: FloatArray, frame_s: float) -> Schedule:
        """All frames at stretched times."""
        return Schedule(np.arange(len(times)), times * self.factor)

    def frame_s(self, frame_s: float) -> float:
        """Stretched as the times are."""
        return frame_s * self.factor


@dataclass(frozen=True)
class Paused(_SameRate):
    """The frame shown at ``at_s`` stays for ``seconds`` longer, repeated at the frame rate."""

    at_s: float
    seconds: float

    def schedule(self, times: FloatArray, frame_s: float) -> Schedule:
        """The frames up to the pause, copies of the last of them, and the rest ``seconds`` later."""
        held = int(frame_at(times, self.at_s))
        copies = int((self.seconds + TIME_TOLERANCE_S) / frame_s)
        frames = np.insert(np.arange(len(times)), held + 1, np.full(copies, held))
        pause = times[held] + frame_s * np.arange(1, copies + 1)
        after = times[held + 1 :] + self.seconds
        return Schedule(frames, np.concatenate([times[: held + 1], pause, after]))


@dataclass(frozen=True)
class RetimedView:
    """A view under a change of time. Holds no frames and opens nothing until asked.

    Attributes:
        view: The view as recorded.
        change: Which of its frames are shown when.
    """

    view: View
    change: TimeChange

    def info(self) -> ViewInfo:
        """Count, rate and duration after the change; reads the recorded view's headers, no frames."""
        recorded = self.view.info()
        shown = self._schedule(recorded)
        fps = 1.0 / self.change.frame_s(1.0 / recorded.fps)
        return recorded._replace(
            n_frames=len(shown.frames),
            fps=fps,
            duration_s=float(shown.times[-1]) + 1.0 / fps,
            first_frame=recorded.first_frame + int(shown.frames[0]),
        )

    def timestamps(self) -> FloatArray:
        """Seconds of every frame after the change."""
        return self._schedule(self.view.info()).times

    def read(self, indices: Sequence[int], size: int | None = None) -> Frames:
        """The frames at ``indices`` of the changed view; a recorded frame shown often is decoded once."""
        shown = self._schedule(self.view.info()).frames
        wanted = shown[check_indices(indices, len(shown), self.location())]
        distinct, place = np.unique(wanted, return_inverse=True)
        if len(distinct) == len(wanted):
            return self.view.read(wanted.tolist(), size)
        return self.view.read(distinct.tolist(), size)[place]

    def digest(self) -> bytes:
        """sha256 of the recorded view's digest and the change."""
        return hashlib.sha256(self.view.digest() + repr(self.change).encode()).digest()

    def location(self) -> str:
        """Where the recorded pictures are, and the change."""
        return f"{self.view.location()} as {self.change!r}"

    def _schedule(self, recorded: ViewInfo) -> Schedule:
        return self.change.schedule(self.view.timestamps(), 1.0 / recorded.fps)
