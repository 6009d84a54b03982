"""A judge's answer about one episode, and what an audit reads off its curve."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace

import numpy as np

from stepscore.analysis import curves_by_episode, judge_answers
from stepscore.metrics import voc
from stepscore.runs import Run
from stepscore.types import FloatArray

DONE_CHANNELS = ("success_probability", "success")
"""Channels that state after each point whether the task is done, the first that a run has."""

TIME_TOLERANCE_S = 1e-6


@dataclass(frozen=True)
class Judged:
    """What a judge said of one episode.

    Attributes:
        times: Seconds of the curve's points; empty where there is no curve.
        progress: Progress at them, NaN where unknown.
        success: Its verdict on success: 1, 0, or NaN where it gives none.
        done: Its probability, or score, that the task is done after each point; empty where it gives none.
    """

    times: FloatArray = field(default_factory=lambda: np.zeros(0))
    progress: FloatArray = field(default_factory=lambda: np.zeros(0))
    success: float = math.nan
    done: FloatArray = field(default_factory=lambda: np.zeros(0))

    def up_to(self, time_s: float) -> Judged:
        """Return what a judge that never looks ahead had said by a time: the points up to it.

        The first point stays, as nothing is said before it.
        """
        kept = max(1, int(np.searchsorted(self.times, time_s + TIME_TOLERANCE_S, side="right")))
        done = self.done[:kept]
        success = math.nan if not len(done) or math.isnan(done[-1]) else float(done[-1] >= 0.5)
        return Judged(self.times[:kept], self.progress[:kept], success, done)

    @property
    def last(self) -> float:
        """Progress at the end; NaN where unknown."""
        return float(self.progress[-1]) if len(self.progress) else math.nan

    @property
    def gain(self) -> float:
        """Progress at the end less progress at the start; NaN where either is unknown."""
        return float(self.progress[-1] - self.progress[0]) if len(self.progress) else math.nan

    def at(self, times_s: FloatArray | float) -> FloatArray:
        """Return progress at some times, linear between the points, level before the first and after the last.

        NaN where a neighbouring point is unknown.
        """
        if not len(self.times):
            return np.full(np.shape(times_s), np.nan)
        return np.asarray(np.interp(times_s, self.times, self.progress))

    def order(self, along: FloatArray | None = None) -> float:
        """Return the rank correlation of progress with time, or with ``along`` at its points.

        A level curve has no order: 0, not unknown. NaN where fewer than two points are known.
        """
        known = self.progress[~np.isnan(self.progress)]
        if len(known) < 2:
            return math.nan
        if np.ptp(known) == 0:
            return 0.0
        return voc(self.progress, self.times if along is None else along)

    def difference(self, other: Judged, times_s: FloatArray, other_times_s: FloatArray) -> float:
        """Return the mean absolute difference to another curve: this one at ``times_s``, it at ``other_times_s``."""
        gaps = np.abs(self.at(times_s) - other.at(other_times_s))
        known = gaps[~np.isnan(gaps)]
        return float(known.mean()) if len(known) else math.nan


def judged_episodes(run: Run, only: Collection[str] | None = None) -> Mapping[str, Judged]:
    """Return what a run's judge said, by episode id.

    Args:
        only: Ids of the episodes; all if not given. Their curves are copied, so that those of all are not kept.
    """
    kept = np.asarray if only is None else np.array
    judged = {
        answer.episode_id: Judged(kept(answer.times), kept(answer.progress), answer.success)
        for answer in judge_answers(run, only)
    }
    channel = next((name for name in DONE_CHANNELS if name in run.channels), None)
    if channel is not None:
        for name, (_, done) in curves_by_episode(run.curves(), channel):
            if name in judged:
                judged[name] = replace(judged[name], done=kept(done))
    return judged
