"""Which episodes, and which of their frames, are worth training on."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view
from numpy.typing import NDArray

from stepscore.analysis import Measures
from stepscore.curation.frames import RunFrames
from stepscore.curation.rabc_corrected import DONE, done_levels
from stepscore.errors import OptionError, UnknownNameError

Failures = Literal["keep", "drop"]
SuccessBy = Literal["label", "judge"]
STILL = 0.01


@dataclass(frozen=True)
class Selection:
    """Ids of the episodes kept, and of those dropped with the reason."""

    kept: tuple[str, ...]
    dropped: Mapping[str, str]


def select_episodes(
    measures: Measures,
    *,
    top: float | None = None,
    by: str | None = None,
    per_task: bool = False,
    failures: Failures = "keep",
    success_by: SuccessBy = "label",
) -> Selection:
    """Drop failures, then keep the best share of the rest by a metric.

    Args:
        measures: Of one run, from :func:`stepscore.analysis.measures.measure_episodes`.
        top: Share to keep, above 0 and at most 1, rounded up to whole episodes. Of equals the first ids stay.
        by: Any column of the measures; its own direction says what is best. An episode whose value is
            unknown cannot be ranked and is dropped.
        per_task: Take the share of every task's episodes, lest an easy task crowds out the others.
        failures: ``drop`` them, or ``keep`` them; the files mark them in a column. An episode of which
            nobody says how it ended is no failure.
        success_by: Whose word counts: the ``label`` or the ``judge``.
    """
    for name, value, valid in (
        ("failures", failures, ("keep", "drop")),
        ("success_by", success_by, ("label", "judge")),
    ):
        if value not in valid:
            raise UnknownNameError(f"value of {name}", value, valid)
    if (top is None) != (by is None):
        raise OptionError("A share and a metric go together: --top 0.5 --by PPL keeps the best half by PPL.")
    dropped: dict[str, str] = {}
    ids = [str(row["episode_id"]) for row in measures.episodes]
    left = list(range(len(ids)))
    if failures == "drop":
        failed = measures.values[f"success_{success_by}"] == 0
        dropped |= {ids[i]: f"failed, by the {success_by}" for i in left if failed[i]}
        left = [i for i in left if not failed[i]]
    if top is not None and by is not None:
        worse = _below_the_top(measures, left, top, by, per_task=per_task)
        dropped |= {ids[i]: why for i, why in worse.items()}
        left = [i for i in left if i not in worse]
    return Selection(tuple(ids[i] for i in left), dropped)


def _below_the_top(
    measures: Measures, among: Sequence[int], top: float, by: str, *, per_task: bool
) -> dict[int, str]:
    """Those not among the best share, with the reason."""
    if not 0 < top <= 1:
        raise OptionError(f"top is {top}; it must be a share above 0 and at most 1, such as 0.5.")
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
    frames: RunFrames, *, seconds: float, still: float = STILL, done: float = DONE
) -> NDArray[np.bool_]:
    """Frames in a stretch of at least ``seconds`` in which progress stays within ``still``.

    The frames after the task is done (see :func:`done_levels`) stand still rightly and are none of them. A
    stretch with an unknown frame is no known stall.

    Args:
        frames: From :func:`run_frames`.
        seconds: Shortest stretch that is a stall.
        still: Range of progress within a stretch that stands still.
        done: Progress from which the task is done.
    """
    if not (0 < seconds < np.inf and still >= 0):
        raise OptionError(
            f"A stall of {seconds} s within {still} is none: seconds above 0, range 0 or above."
        )
    found = np.zeros(len(frames), dtype=bool)
    levels = done_levels(frames, done, slack=still)
    for episode, level, start, end in zip(
        frames.episodes, levels, frames.starts, frames.starts[1:], strict=False
    ):
        # A stretch of n steps spans n + 1 frames.
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
        found[start:end] = covered & ~(progress >= level)
    return found
