"""Filters: which episodes, and which of their frames, to train on."""

from __future__ import annotations

import math
import warnings
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view
from numpy.typing import NDArray

from stepscore.analysis import EpisodeMetrics
from stepscore.curation.frames import RunFrames
from stepscore.errors import OptionError, UnknownNameError
from stepscore.types import FloatArray

Failures = Literal["keep", "drop"]
SuccessBy = Literal["label", "judge"]
STALL_RANGE = 0.01
"""Range of progress within which a stretch of frames does not move."""
DONE_PROGRESS = 0.95
"""Progress from which the task is done."""


@dataclass(frozen=True)
class EpisodeSelection:
    """Ids of the episodes kept, and of those dropped with the reason."""

    kept: tuple[str, ...]
    dropped: Mapping[str, str]


def select_episodes(
    measures: EpisodeMetrics,
    *,
    top: float | None = None,
    by: str | None = None,
    per_task: bool = False,
    failures: Failures = "keep",
    success_by: SuccessBy = "label",
) -> EpisodeSelection:
    """Drop failures, then keep the best share of the rest by a metric.

    Args:
        measures: The measures of one run, from :func:`stepscore.analysis.measure_episodes`.
        top: Share to keep, above 0 and at most 1, rounded up to whole episodes. Of equals the first ids stay.
        by: Any column of the measures; best is the column's own better direction. An episode whose value is
            unknown cannot be ranked and is dropped.
        per_task: Take the share of every task's episodes, so that an easy task does not displace the others.
        failures: ``drop`` them, or ``keep`` them; the files mark them in a column. An episode of unknown
            success is not a failure.
        success_by: Success by ``label`` or by ``judge``; the latter warns where it is uncalibrated.
    """
    for name, value, valid in (
        ("failures", failures, ("keep", "drop")),
        ("success_by", success_by, ("label", "judge")),
    ):
        if value not in valid:
            raise UnknownNameError(f"value of {name}", value, valid)
    if (top is None) != (by is None):
        raise OptionError("Give both a share and a metric: --top 0.5 --by PPL keeps the best half by PPL.")
    dropped: dict[str, str] = {}
    ids = [str(row["episode_id"]) for row in measures.episodes]
    kept = list(range(len(ids)))
    if failures == "drop":
        if success_by == "judge":
            _warn_of_uncalibrated(measures)
        success = measures.values[f"success_{success_by}"]
        if np.isnan(success).all():
            other = "judge" if success_by == "label" else "label"
            raise OptionError(
                f"No episode's success is known by the {success_by}, so no failure can be dropped. Choose "
                f"--success-by {other}, or keep them: --failures keep"
            )
        failed = success == 0
        dropped |= {ids[i]: f"failed, by the {success_by}" for i in kept if failed[i]}
        kept = [i for i in kept if not failed[i]]
    if top is not None and by is not None:
        worse = _below_top(measures, kept, top, by, per_task=per_task)
        dropped |= {ids[i]: reason for i, reason in worse.items()}
        kept = [i for i in kept if i not in worse]
    return EpisodeSelection(tuple(ids[i] for i in kept), dropped)


def _warn_of_uncalibrated(measures: EpisodeMetrics) -> None:
    if measures.success_calibrated(np.ones(len(measures), dtype=bool)) is False:
        warnings.warn(
            f"The failures are dropped by {measures.success_name}: nothing says that its threshold separates "
            "successes from failures. Fit a success map: stepscore calibrate RUN -o map.json",
            stacklevel=3,
        )


def _below_top(
    measures: EpisodeMetrics, among: Sequence[int], top: float, by: str, *, per_task: bool
) -> dict[int, str]:
    """Return the rows that are not among the best share, each with the reason."""
    if not 0 < top <= 1:
        raise OptionError(f"top must be a share above 0 and at most 1, such as 0.5, got {top}.")
    column = measures.column(by)
    if column.better == "neither":
        raise OptionError(f"{by} has no better direction, so it has no best share. Choose another metric.")
    sign = -1.0 if column.better == "higher" else 1.0
    values = measures.values[by]
    groups: dict[str, list[int]] = defaultdict(list)
    worse: dict[int, str] = {}
    for i in among:
        if np.isnan(values[i]):
            worse[i] = f"its {by} is unknown"
        else:
            row = measures.episodes[i]
            groups[str(row["task"] or row["instruction"]) if per_task else ""].append(i)
    for members in groups.values():
        ranked = sorted(members, key=lambda i: (sign * values[i], measures.episodes[i]["episode_id"]))
        # Binary rounding must not turn 0.7 of 10 into 8 episodes.
        kept = math.ceil(top * len(ranked) - 1e-9)
        worse |= {i: f"{by} {values[i]:.3g}, not in the best {top:g}" for i in ranked[kept:]}
    return worse


def stall_frames(
    frames: RunFrames, *, seconds: float, still: float = STALL_RANGE, done: float = DONE_PROGRESS
) -> NDArray[np.bool_]:
    """Mark the frames in a stretch of at least ``seconds`` in which progress stays within ``still``.

    Frames after the task is done (see :func:`done_levels`) are not marked, nor is a
    stretch with an unknown frame.

    Args:
        frames: From :func:`run_frames`.
        seconds: Shortest stretch that is a stall.
        still: Range of progress within a stretch without movement.
        done: Progress from which the task is done.

    Returns:
        Whether each frame is in a stall, shape (frames,).
    """
    if not (0 < seconds < np.inf and still >= 0):
        raise OptionError(
            f"Invalid stall of {seconds} s within {still}: seconds must be above 0, the range 0 or above."
        )
    stalled = np.zeros(len(frames), dtype=bool)
    levels = done_levels(frames, done, slack=still)
    for episode, level, start, end in zip(
        frames.episodes, levels, frames.starts, frames.starts[1:], strict=False
    ):
        # A stretch of n frame intervals spans n + 1 frames.
        wide = max(2, math.ceil(seconds * episode.fps - 1e-9) + 1)
        progress = frames.progress[start:end]
        if len(progress) < wide:
            continue
        windows = sliding_window_view(progress, wide)
        steady = windows.max(axis=1) - windows.min(axis=1) <= still + 1e-9
        # A frame is in a stall if any steady window covers it: count windows that begin within reach before it.
        opened = np.cumsum(np.r_[0, steady, np.zeros(wide - 1, dtype=int)])
        rows = np.arange(len(progress))
        covered = opened[rows + 1] - opened[np.maximum(rows + 1 - wide, 0)] > 0
        stalled[start:end] = covered & ~(progress >= level)
    return stalled


def done_levels(frames: RunFrames, done: float = DONE_PROGRESS, *, slack: float = 0.0) -> FloatArray:
    """Return the progress from which each episode's task is done.

    ``done`` for an episode without a success label; for a success, no more than the highest progress of the
    episode less ``slack``, since a judge may never reach ``done``; for a failure, infinity: the task is not
    done at its end.
    """
    if not 0 < done <= 1:
        raise OptionError(f"done must be a progress above 0 and at most 1, got {done}.")
    levels = np.full(len(frames.episodes), done)
    for i, (episode, start, end) in enumerate(
        zip(frames.episodes, frames.starts, frames.starts[1:], strict=False)
    ):
        if episode.success is False:
            levels[i] = np.inf
        elif episode.success:
            known = frames.progress[start:end]
            levels[i] = min(done, np.max(known[~np.isnan(known)], initial=-np.inf) - slack)
    # A success without a known point keeps the default level.
    return np.where(np.isneginf(levels), done, levels)
