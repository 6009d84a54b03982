"""The frames of a run's episodes in the order of the dataset, each with the judge's progress."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise
from typing import Any

import numpy as np

from stepscore.analysis import curves_by_episode
from stepscore.curation.interpolation import at_frames, curve_noise, step_changes
from stepscore.errors import RunError
from stepscore.runs import Run
from stepscore.types import FloatArray, IntArray


@dataclass(frozen=True)
class EpisodeFrames:
    """One episode: the position of its frames in the dataset, and the judge's curve.

    Attributes:
        id: The episode's id.
        number: Its episode number in the dataset; its position in the run where the source has no numbers.
        first_index: The dataset's index of its first frame.
        n_frames: Number of frames.
        fps: Frames per second; frame i is at i / fps seconds.
        task: Its task, or its instruction.
        success: Whether it succeeded, by label; ``None`` without a label.
        times: Timestamps of the curve's points in seconds; empty if there is no curve.
        values: Progress (or the requested channel) at those timestamps; NaN for unknown.
    """

    id: str
    number: int
    first_index: int
    n_frames: int
    fps: float
    task: str
    success: bool | None
    times: FloatArray
    values: FloatArray


@dataclass(frozen=True)
class RunFrames:
    """Every frame of some episodes, in the order of the dataset's index.

    Attributes:
        episodes: The episodes, by index.
        channel: The channel of the curve that ``progress`` is interpolated from.
        numbered: Whether number and index are the source's own (LeRobot), not counted here.
        left_out: Ids of the run's episodes without a known number of frames, with the reason.
    """

    episodes: tuple[EpisodeFrames, ...]
    channel: str = "progress"
    numbered: bool = True
    left_out: Mapping[str, str] | None = None

    def __len__(self) -> int:
        return int(self.starts[-1])

    @cached_property
    def starts(self) -> IntArray:
        """Row of each episode's first frame, and after them the number of rows: shape (episodes + 1,)."""
        lengths = [0, *(episode.n_frames for episode in self.episodes)]
        return np.cumsum(lengths, dtype=np.int64)

    @cached_property
    def progress(self) -> FloatArray:
        """Progress of every frame, interpolated between the curve's points; NaN if unknown."""
        return _joined(at_frames(e.times, e.values, e.n_frames, e.fps) for e in self.episodes)

    @property
    def known(self) -> bool:
        """Whether the progress of any frame is known."""
        return not bool(np.isnan(self.progress).all())

    @cached_property
    def changes(self) -> FloatArray:
        """Change between the two curve points around every frame; see :func:`step_changes`."""
        return _joined(step_changes(e.times, e.values, e.n_frames, e.fps) for e in self.episodes)

    @cached_property
    def noise(self) -> float:
        """Standard deviation of the judge's noise over all curves; see :func:`curve_noise`."""
        return curve_noise((e.times, e.values) for e in self.episodes)

    @cached_property
    def lengths(self) -> IntArray:
        """Number of frames of each episode."""
        return np.diff(self.starts)

    def index(self) -> IntArray:
        """Return the dataset's index of every frame."""
        return self.per_frame([e.first_index for e in self.episodes]) + self.frame_index()

    def episode_index(self) -> IntArray:
        """Return the episode number of every frame."""
        return self.per_frame([e.number for e in self.episodes])

    def frame_index(self) -> IntArray:
        """Return every frame's number within its episode, from 0."""
        return np.arange(len(self), dtype=np.int64) - self.per_frame(self.starts[:-1].tolist())

    def per_frame(self, values: Sequence[int]) -> IntArray:
        """Repeat one value per episode for each of its frames."""
        return np.repeat(np.asarray(values, dtype=np.int64), self.lengths)

    def select(self, ids: Collection[str]) -> RunFrames:
        """Return a copy with these episodes only."""
        wanted = set(ids)
        return replace(self, episodes=tuple(e for e in self.episodes if e.id in wanted))


def run_frames(run: Run, channel: str = "progress") -> RunFrames:
    """Return the frames of all episodes of a run, each with the judge's progress.

    ``progress`` is absolute and comparable between episodes; another channel, such as ``minmax``, must be named.
    """
    curves = dict(curves_by_episode(run.curves(), channel))
    episodes: list[EpisodeFrames] = []
    left_out: dict[str, str] = {}
    rows = run.episodes().to_pylist()
    numbered = all(_first_index(row) is not None for row in rows)
    position = index = 0
    for row in rows:
        if row["n_frames"] is None or not row["fps"]:
            left_out[row["episode_id"]] = "its frames could not be counted"
            continue
        number, first = (row["source_index"], _first_index(row)) if numbered else (position, index)
        times, values = curves.get(row["episode_id"], (np.empty(0), np.empty(0)))
        episodes.append(
            EpisodeFrames(
                id=row["episode_id"],
                number=int(number),
                first_index=int(first or 0),
                n_frames=row["n_frames"],
                fps=row["fps"],
                task=row["task"] or row["instruction"],
                success=row["success"],
                times=np.asarray(times, dtype=np.float64),
                values=np.asarray(values, dtype=np.float64),
            )
        )
        position, index = position + 1, index + row["n_frames"]
    episodes.sort(key=lambda episode: episode.first_index)
    _check_disjoint(episodes, run)
    return RunFrames(tuple(episodes), channel, numbered, left_out)


def _first_index(row: Mapping[str, Any]) -> int | None:
    """Return the dataset's index of the episode's first frame, where the source is a LeRobot dataset."""
    metadata = json.loads(row["metadata"] or "{}")
    first = metadata.get("dataset_from_index")
    return int(first) if first is not None and row["source_index"] is not None else None


def _check_disjoint(episodes: Sequence[EpisodeFrames], run: Run) -> None:
    for before, after in pairwise(episodes):
        if before.first_index + before.n_frames > after.first_index:
            raise RunError(
                f"{run.path}: episodes {before.id} and {after.id} share index {after.first_index} of the "
                "dataset. Weights are by index, so a run may hold the episodes of one dataset only."
            )


def _joined(parts: Iterator[FloatArray]) -> FloatArray:
    return np.concatenate([np.empty(0), *parts])
