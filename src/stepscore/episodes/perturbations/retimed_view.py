"""Views that play frames in another order or at other times, applied when frames are read.

A time perturbation is a small object that maps the recorded timestamps to the indices and the new timestamps
of the played frames. Each view of an episode applies the perturbation to its timestamps, so cameras with
different frame rates stay synchronised.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple, Protocol

import numpy as np

from stepscore.episodes.sampling import TIME_TOLERANCE_S, check_indices, first_frame_from, frame_at
from stepscore.episodes.signals import Signal, SignalReader
from stepscore.episodes.view import View, ViewInfo
from stepscore.types import FloatArray, Frames, IntArray


class Schedule(NamedTuple):
    """Recorded frames in the order of a retimed view: their indices, and the time of each in seconds."""

    frames: IntArray
    times: FloatArray


class TimePerturbation(Protocol):
    """A frozen dataclass that schedules frames. Its repr is part of the view's digest, so names are frozen."""

    def schedule(self, times: FloatArray, frame_s: float) -> Schedule:
        """Return the schedule for recorded ``times`` (from 0, increasing) and the length of a frame in seconds."""

    def frame_s(self, frame_s: float) -> float:
        """Return the length of a frame after the perturbation."""


class _SameRate:
    """Base of perturbations that keep the frame rate."""

    def frame_s(self, frame_s: float) -> float:
        """Return ``frame_s``."""
        return frame_s


@dataclass(frozen=True)
class Frozen(_SameRate):
    """Plays a single frame throughout, the first or the last."""

    last: bool

    def schedule(self, times: FloatArray, frame_s: float) -> Schedule:
        """Return the recorded times, all with the same frame."""
        return Schedule(np.full(len(times), len(times) - 1 if self.last else 0), times)


@dataclass(frozen=True)
class Reversed(_SameRate):
    """Plays the frames backwards. Frame i moves from t_i to t_last - t_i."""

    def schedule(self, times: FloatArray, frame_s: float) -> Schedule:
        """Return the frames from last to first, with the gaps between frames reversed."""
        return Schedule(np.arange(len(times))[::-1], times[-1] - times[::-1])


@dataclass(frozen=True)
class Cut(_SameRate):
    """Plays the frames before ``to_s``, and at least the first."""

    to_s: float

    def schedule(self, times: FloatArray, frame_s: float) -> Schedule:
        """Return the first frames at their recorded times."""
        kept = max(1, int(first_frame_from(times, self.to_s)))
        return Schedule(np.arange(kept), times[:kept])


@dataclass(frozen=True)
class Slowed:
    """Plays each frame ``factor`` times as long."""

    factor: float

    def schedule(self, times: FloatArray, frame_s: float) -> Schedule:
        """Return all frames at stretched times."""
        return Schedule(np.arange(len(times)), times * self.factor)

    def frame_s(self, frame_s: float) -> float:
        """Return the stretched length of a frame."""
        return frame_s * self.factor


@dataclass(frozen=True)
class Paused(_SameRate):
    """Holds the frame at ``at_s`` for ``seconds`` longer, repeated at the frame rate."""

    at_s: float
    seconds: float

    def schedule(self, times: FloatArray, frame_s: float) -> Schedule:
        """Return the frames up to the pause, copies of the last of them, and the rest ``seconds`` later."""
        held = int(frame_at(times, self.at_s))
        copies = int((self.seconds + TIME_TOLERANCE_S) / frame_s)
        frames = np.insert(np.arange(len(times)), held + 1, np.full(copies, held))
        pause = times[held] + frame_s * np.arange(1, copies + 1)
        after = times[held + 1 :] + self.seconds
        return Schedule(frames, np.concatenate([times[: held + 1], pause, after]))


@dataclass(frozen=True)
class Thinned:
    """Plays every ``every``-th frame, starting with the first, at its recorded time."""

    every: int

    def schedule(self, times: FloatArray, frame_s: float) -> Schedule:
        """Return the remaining frames."""
        kept = np.arange(0, len(times), self.every)
        return Schedule(kept, times[kept])

    def frame_s(self, frame_s: float) -> float:
        """Return the time between the remaining frames."""
        return frame_s * self.every


@dataclass(frozen=True)
class Replayed(_SameRate):
    """Plays ``segments`` of the recording one after another, forwards or backwards.

    Attributes:
        segments: Start and end of each segment, as shares of the time from the first frame to the last: ``(0,
            1)`` plays the whole recording, ``(1, 0)`` plays all of it backwards.
    """

    segments: tuple[tuple[float, float], ...]

    def schedule(self, times: FloatArray, frame_s: float) -> Schedule:
        """Return the frames of each segment with their recorded gaps; a cut between segments lasts one frame."""
        frames: list[int] = []
        for begin, end in self.segments:
            first, last = (int(frame_at(times, share * times[-1])) for share in (begin, end))
            step = 1 if last >= first else -1
            part = list(range(first, last + step, step))
            # A frame that ends one segment and begins the next is played once.
            frames += part[1:] if frames and frames[-1] == part[0] else part
        order = np.array(frames, dtype=np.int64)
        gaps = np.abs(np.diff(times[order]))
        neighbours = np.abs(np.diff(order)) == 1
        shown = np.concatenate([[0.0], np.cumsum(np.where(neighbours, gaps, frame_s))])
        return Schedule(order, shown)


@dataclass(frozen=True)
class Scheduled:
    """Plays the given frames at the given times, regardless of the recorded times.

    Attributes:
        frames: Index of each played frame.
        shown: Timestamp of each played frame in seconds, increasing from 0.
    """

    frames: tuple[int, ...]
    shown: tuple[float, ...]

    def schedule(self, times: FloatArray, frame_s: float) -> Schedule:
        """Return the given frames and times."""
        return Schedule(np.array(self.frames, dtype=np.int64), np.array(self.shown, dtype=np.float64))

    def frame_s(self, frame_s: float) -> float:
        """Return the mean time between two played frames."""
        return self.shown[-1] / (len(self.shown) - 1) if len(self.shown) > 1 else frame_s


@dataclass(frozen=True)
class RetimedView:
    """A view with a time perturbation. It holds no frames and opens no file until it is read."""

    view: View
    perturbation: TimePerturbation

    def info(self) -> ViewInfo:
        """Return count, rate and duration after the perturbation; reads the recorded view's headers, no frames."""
        recorded = self.view.info()
        schedule = self._schedule(recorded)
        fps = 1.0 / self.perturbation.frame_s(1.0 / recorded.fps)
        return recorded._replace(
            n_frames=len(schedule.frames),
            fps=fps,
            duration_s=float(schedule.times[-1]) + 1.0 / fps,
            first_frame=recorded.first_frame + int(schedule.frames[0]),
        )

    def timestamps(self) -> FloatArray:
        """Return the timestamp of every frame after the perturbation, in seconds."""
        return self._schedule(self.view.info()).times

    def frames(self) -> IntArray:
        """Return the index of the recorded frame at each timestamp."""
        return self._schedule(self.view.info()).frames

    def read(self, indices: Sequence[int], size: int | None = None) -> Frames:
        """Read the frames at ``indices``; a recorded frame that is played several times is decoded once."""
        frames = self._schedule(self.view.info()).frames
        wanted = frames[check_indices(indices, len(frames), self.location())]
        distinct, inverse = np.unique(wanted, return_inverse=True)
        if len(distinct) == len(wanted):
            return self.view.read(wanted.tolist(), size)
        return self.view.read(distinct.tolist(), size)[inverse]

    def digest(self) -> bytes:
        """Return the sha256 of the recorded view's digest and the perturbation."""
        return hashlib.sha256(self.view.digest() + repr(self.perturbation).encode()).digest()

    def location(self) -> str:
        """Return the location of the recorded frames, and the perturbation."""
        return f"{self.view.location()} as {self.perturbation!r}"

    def _schedule(self, recorded: ViewInfo) -> Schedule:
        return self.perturbation.schedule(self.view.timestamps(), 1.0 / recorded.fps)


@dataclass(frozen=True)
class RetimedSignals:
    """The signals of an episode with a time perturbation, in the order and at the times of the played frames."""

    reader: SignalReader
    perturbation: TimePerturbation

    @property
    def path(self) -> Path:
        """The file that holds the signals."""
        return self.reader.path

    def read(self) -> tuple[Signal, ...]:
        """Read the signals and reorder them like the played frames."""
        return tuple(self._retimed(signal) for signal in self.reader.read())

    def _retimed(self, signal: Signal) -> Signal:
        if len(signal.times) < 2:
            return signal
        step = float(signal.times[-1] - signal.times[0]) / (len(signal.times) - 1)
        schedule = self.perturbation.schedule(signal.times, step)
        return signal.at(schedule.frames, schedule.times)
