"""Which frames of an episode are taken, by index or by time, and the frame a view shows at a given time.

The main view sets the sampled timestamps; every other view contributes the frame it shows at the same time.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import ArrayLike

from stepscore._untrusted.limits import MAX_SAMPLES
from stepscore.episodes.view import View
from stepscore.errors import EpisodeError, OptionError
from stepscore.types import FloatArray, IntArray

TIME_TOLERANCE_S = 5e-7
"""Two times this close are the same: sums of 1/fps must not fall just short of a frame's timestamp."""

MAX_LAG_S = 0.5
"""A view that ended longer than this before a sampled timestamp has no frame for it."""


def frame_at(timestamps: FloatArray, times: ArrayLike) -> IntArray:
    """Return the index of the frame shown at each time: the last one that began by then, at least frame 0.

    Args:
        timestamps: Seconds of all frames of a view, increasing, shape (n,) with n >= 1.
        times: Seconds, of any shape; the answer has the same.
    """
    begun = np.searchsorted(timestamps, np.asarray(times) + TIME_TOLERANCE_S, side="right")
    return np.maximum(begun - 1, 0).astype(np.int64)


def first_frame_from(timestamps: FloatArray, times: ArrayLike) -> IntArray:
    """Return the index of the first frame that begins at each time or later; n where there is none.

    It is also the number of frames that begin before that time.

    Args:
        timestamps: Seconds of all frames of a view, increasing, shape (n,).
        times: Seconds, of any shape; the answer has the same.
    """
    before = np.searchsorted(timestamps, np.asarray(times) - TIME_TOLERANCE_S, side="left")
    return np.asarray(before, dtype=np.int64)


IDENTIFYING_FRAMES = 16
"""Frames of a view of single images that are read to tell it from others: trials may begin and end alike."""


def identifying_frames(n_frames: int) -> list[int]:
    """Return the indices of the frames that identify a view of single images: the first, the last, some between."""
    if not n_frames:
        return []
    spread = np.linspace(0, n_frames - 1, min(n_frames, IDENTIFYING_FRAMES))
    return [int(index) for index in np.round(spread)]


def sample_by_index(
    n_frames: int, where: str, *, count: int | None = None, indices: Sequence[int] | None = None
) -> IntArray:
    """Return ``count`` frame indices spread evenly from the first to the last, or the given ``indices``, checked.

    Args:
        n_frames: Frames of the view.
        where: The episode or file, for messages.
        count: At least 1; where there are fewer frames, all of them.
        indices: Each in 0..n_frames-1, in any order, repeats allowed.
    """
    if count is not None:
        if count < 1:
            raise OptionError(f"count is {count}; it must be at least 1.")
        return np.round(np.linspace(0, n_frames - 1, min(count, n_frames))).astype(np.int64)
    return check_indices(() if indices is None else indices, n_frames, where)


def check_indices(indices: Sequence[int], n_frames: int, where: str) -> IntArray:
    """Return the indices as an array; an OptionError names the first that is not a frame of ``where``."""
    picked = np.asarray(indices, dtype=np.int64).reshape(-1)
    wrong = picked[(picked < 0) | (picked >= n_frames)]
    if len(wrong):
        raise OptionError(f"{where} has frames 0..{n_frames - 1}; index {wrong[0]} is not among them.")
    return picked


def sample_by_time(
    timestamps: FloatArray, where: str, *, fps: float | None = None, times: Sequence[float] | None = None
) -> IntArray:
    """Return the indices of the frames shown every ``1 / fps`` seconds from the start, or at the given ``times``.

    Args:
        timestamps: Seconds of all frames of the view, increasing.
        where: The episode or file, for messages.
        fps: Above 0 and finite.
        times: Seconds from 0 to the end of the last frame.
    """
    if fps is not None:
        if not 0 < fps < np.inf:
            raise OptionError(f"fps is {fps}; it must be above 0 and finite.")
        if timestamps[-1] * fps > MAX_SAMPLES:
            raise OptionError(
                f"{where} lasts {timestamps[-1]:g} s; {fps:g} frames per second of it are more than {MAX_SAMPLES}."
            )
        return frame_at(timestamps, np.arange(0.0, timestamps[-1] + TIME_TOLERANCE_S, 1.0 / fps))
    wanted = np.asarray(times, dtype=np.float64)
    if not np.all(np.isfinite(wanted)):
        raise OptionError(f"{where}: times must be finite.")
    end = timestamps[-1] + (timestamps[-1] - timestamps[-2] if len(timestamps) > 1 else np.inf)
    outside = wanted[(wanted < 0) | (wanted > end)]
    if len(outside):
        raise OptionError(f"{where} runs from 0 to {end:.3f} s; {outside[0]:g} s is not in it.")
    return frame_at(timestamps, wanted)


def sample_indices(
    timestamps: FloatArray,
    where: str,
    *,
    count: int | None = None,
    indices: Sequence[int] | None = None,
    times: Sequence[float] | None = None,
    fps: float | None = None,
) -> IntArray:
    """Return frame indices chosen in exactly one of four ways: ``count``, ``indices``, ``times`` or ``fps``.

    See :func:`sample_by_index` for the first two and :func:`sample_by_time` for the others.
    """
    options = {"count": count, "indices": indices, "times": times, "fps": fps}
    given = [name for name, value in options.items() if value is not None]
    if len(given) != 1:
        raise OptionError(
            f"Give exactly one of count, indices, times and fps (got {', '.join(given) or 'none'})."
        )
    if not len(timestamps):
        raise EpisodeError(f"{where} has no frames.")
    if count is not None or indices is not None:
        return sample_by_index(len(timestamps), where, count=count, indices=indices)
    return sample_by_time(timestamps, where, fps=fps, times=times)


class WithViews(Protocol):
    """An :class:`Episode`, as far as sampling needs one (the episode itself imports this module)."""

    @property
    def id(self) -> str:
        """Its id, for messages."""

    @property
    def views(self) -> Mapping[str, View]:
        """Views by name."""

    @property
    def main_view(self) -> str:
        """Name of the main view."""


@dataclass(frozen=True, eq=False)
class SampledFrames:
    """Frames sampled from all views of an episode at the same times.

    Attributes:
        times: Timestamps of the main view's frames in seconds, strictly increasing, shape (n,).
        indices: View name to frame indices, shape (n,) each; the main view first.
    """

    times: FloatArray
    indices: Mapping[str, IntArray]

    def __len__(self) -> int:
        return len(self.times)

    @property
    def views(self) -> tuple[str, ...]:
        """Names of the views, the main one first."""
        return tuple(self.indices)


def sample_frames(
    episode: WithViews,
    *,
    count: int | None = None,
    fps: float | None = None,
    times: Sequence[float] | None = None,
    indices: Sequence[int] | None = None,
    most: int | None = None,
) -> SampledFrames:
    """Sample frames of every view of an episode; give exactly one of count, fps, times and indices.

    Args:
        episode: An episode with at least one view.
        count: This many frames, evenly from the first to the last; a single one is the last.
        fps: One frame every 1/fps seconds, and the last frame.
        times: The frames shown at these seconds, and no others.
        indices: These frames of the main view, and no others.
        most: With ``fps``: where there would be more, this many evenly spread ones instead.
    """
    where = f"episode {episode.id}"
    main = episode.main_view
    timestamps = episode.views[main].timestamps()
    picked = sample_indices(timestamps, where, count=count, fps=fps, times=times, indices=indices)
    last = len(timestamps) - 1
    picked = np.array([last]) if count == 1 else np.unique(np.append(picked, last) if fps else picked)
    if fps is not None and most is not None and len(picked) > most:
        picked = np.unique(sample_indices(timestamps, where, count=most))
    at = timestamps[picked]
    others = {view: _same_times(episode, view, at) for view in episode.views if view != main}
    return SampledFrames(at, {main: picked, **others})


def _same_times(episode: WithViews, view: str, times: FloatArray) -> IntArray:
    """Return the frames another view shows at these times."""
    own = episode.views[view].timestamps()
    if not len(own) or times[-1] - own[-1] > MAX_LAG_S:
        end = f"ends at {own[-1]:.2f} s" if len(own) else "has no frames"
        main = episode.main_view
        raise EpisodeError(
            f"Episode {episode.id}: the view {view!r} {end}, and {main!r} continues to {times[-1]:.2f} s. "
            f"Leave it out: --views {main}"
        )
    return frame_at(own, times)
