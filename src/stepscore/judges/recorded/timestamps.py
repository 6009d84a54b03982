"""Timestamps of a recorded curve's rows: stated as seconds, stated as frames, or reconstructed."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

import numpy as np

from stepscore.episodes import Episode
from stepscore.errors import CurveError
from stepscore.judges.recorded.formats import RecordedCurve
from stepscore.types import FloatArray, IntArray

TimeSource = Literal["recorded", "inferred"]


def place_rows(
    recorded: RecordedCurve, episode: Episode, interval: int | None, path: Path
) -> tuple[FloatArray, TimeSource]:
    """Return the timestamp of each row, and whether the file stated them; see :func:`infer_interval` if not."""
    if recorded.times is not None:
        check_within(float(recorded.times[-1]), f"{path}, row {recorded.rows[-1]}: time_s", episode)
        return recorded.times, "recorded"
    at = _frame_times(episode, path)
    if recorded.frames is not None:
        beyond = np.flatnonzero(recorded.frames >= len(at))
        if len(beyond):
            row = int(beyond[0])
            raise CurveError(
                f"{path}, row {recorded.rows[row]}: frame {recorded.frames[row]} is not in episode "
                f"{episode.id}, which has frames 0..{len(at) - 1}."
            )
        return at[recorded.frames], "recorded"
    return at[_inferred_frames(len(recorded.rows), len(at), interval, episode, path)], "inferred"


def infer_interval(rows: int, frames: int) -> int:
    """Return the frames between samples of a curve that states no times.

    PRM-as-a-Judge (code v1.0) samples every k-th frame and the last, and scores all but the first: ceil((F - 1) / k)
    rows for F frames. The smallest k whose count is nearest to ``rows`` is returned.
    """
    span = frames - 1
    # The count falls as k rises, so only two can be nearest: the first k with no more than ``rows``, and the
    # first k of the count just above.
    at_most = -(-span // rows)
    if at_most == 1:
        return 1
    above = -(-span // (at_most - 1))
    return -(-span // above) if above - rows <= rows - -(-span // at_most) else at_most


def _inferred_frames(rows: int, frames: int, interval: int | None, episode: Episode, path: Path) -> IntArray:
    """Return the frame of each row: row i, counted from 1, at frame min(i * k, F - 1)."""
    k = interval or (infer_interval(rows, frames) if frames > 1 else 1)
    placed = np.minimum(np.arange(1, rows + 1) * k, frames - 1)
    if frames < 2 or np.any(np.diff(placed) <= 0):
        fits = (frames - 1) // rows
        repair = f" If it is, state how many frames lie between rows: -J interval={fits}" if fits else ""
        raise CurveError(
            f"{path} has {rows} rows without times, too many for the {frames} frames of episode {episode.id} "
            f"with a row every {k} frames. Is it the curve of this video?{repair}"
        )
    return placed


def _frame_times(episode: Episode, path: Path) -> FloatArray:
    if not episode.views:
        raise CurveError(
            f"{path} states no times in seconds, and episode {episode.id} has no video to take them from. "
            "Add a column 'time_s': seconds from the episode's first frame."
        )
    return episode.views[episode.main_view].timestamps()


def check_within(second: float, what: str, episode: Episode) -> None:
    """Raise CurveError if a time lies more than a frame after the video's end. NaN passes."""
    info = episode.info
    if info is not None and second > info.duration_s + 1.0 / info.fps:
        raise CurveError(
            f"{what} is {second:g}, but episode {episode.id} lasts {info.duration_s:.3f} s. Times are "
            "seconds from the episode's first frame; another video, or another unit?"
        )
