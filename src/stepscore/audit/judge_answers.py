"""A judge's answers about episodes, and the values that an audit takes from a curve."""

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
"""Channels that state whether the task is done after each point; the first available channel is used."""

TIME_TOLERANCE_S = 1e-6


@dataclass(frozen=True)
class Judged:
    """A judge's answers about one episode.

    Attributes:
        times: Timestamps of the curve's points in seconds; empty without a curve.
        progress: Progress at each point; NaN if unknown.
        success: The judge's verdict: 1, 0, or NaN without a verdict.
        done: Probability or score of being done after each point; empty if the judge gives none.
    """

    times: FloatArray = field(default_factory=lambda: np.zeros(0))
    progress: FloatArray = field(default_factory=lambda: np.zeros(0))
    success: float = math.nan
    done: FloatArray = field(default_factory=lambda: np.zeros(0))

    def up_to(self, time_s: float) -> Judged:
        """Return the answers of a causal judge up to a given time; the first point is always included."""
        kept = max(1, int(np.searchsorted(self.times, time_s + TIME_TOLERANCE_S, side="right")))
        done = self.done[:kept]
        success = math.nan if not len(done) or math.isnan(done[-1]) else float(done[-1] >= 0.5)
        return Judged(self.times[:kept], self.progress[:kept], success, done)

    @property
    def last(self) -> float:
        """Progress at the end; NaN if unknown."""
        return float(self.progress[-1]) if len(self.progress) else math.nan

    @property
    def gain(self) -> float:
        """Progress at the end minus progress at the start; NaN if either is unknown."""
        return float(self.progress[-1] - self.progress[0]) if len(self.progress) else math.nan

    def at(self, times_s: FloatArray | float) -> FloatArray:
        """Interpolate progress linearly; constant outside the curve, NaN next to unknown points."""
        if not len(self.times):
            return np.full(np.shape(times_s), np.nan)
        return np.asarray(np.interp(times_s, self.times, self.progress))

    def order(self, along: FloatArray | None = None) -> float:
        """Return the rank correlation of progress with time, or with the values ``along`` at the same points.

        The result is 0 for a constant curve, and NaN with fewer than two known points.
        """
        known = self.progress[~np.isnan(self.progress)]
        if len(known) < 2:
            return math.nan
        if np.ptp(known) == 0:
            return 0.0
        return voc(self.progress, self.times if along is None else along)

    def difference(self, other: Judged, times_s: FloatArray, other_times_s: FloatArray) -> float:
        """Return the mean absolute difference of this curve at ``times_s`` and the other at ``other_times_s``."""
        gaps = np.abs(self.at(times_s) - other.at(other_times_s))
        known = gaps[~np.isnan(gaps)]
        return float(known.mean()) if len(known) else math.nan


def judged_episodes(run: Run, only: Collection[str] | None = None) -> Mapping[str, Judged]:
    """Return a judge's answers by episode id; with ``only``, curves are copied to free the full table."""
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
