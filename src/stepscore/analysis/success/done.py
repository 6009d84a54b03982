"""When a task counts as done in the metrics of the OPD revision ``robust``: by probability, else by progress."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from stepscore.analysis.table_rows import EpisodeRow, curves_by_episode
from stepscore.metrics import CurveMetric, opd_metric
from stepscore.metrics.opd import DONE_PROGRESS
from stepscore.runs import Run

SUCCESS_PROBABILITY = "success_probability"
"""Channel of the probability that the task is done, by a calibrated judge."""


@dataclass(frozen=True, slots=True)
class DoneRule:
    """When ``robust`` counts a sample of a run's curves as done.

    Attributes:
        channel: Channel of the success probability, which decides where an episode has known values of it.
        at: The progress that decides elsewhere.
    """

    channel: str | None
    at: float


def done_rule(run: Run, done_at: float | None = None) -> DoneRule:
    """Return a run's rule: the success probability if it has one, else the progress its calibration map states.

    Args:
        run: The run.
        done_at: Progress instead of both.
    """
    if done_at is not None:
        return DoneRule(None, done_at)
    has_channel = SUCCESS_PROBABILITY in run.channels
    judge = run.protocol.content["judge"]
    calibration = judge["options"].get("calibration") if isinstance(judge, Mapping) else None
    stated = calibration.get("done_at") if isinstance(calibration, Mapping) else None
    # A map that states 0 says that every sample is done, which separates nothing.
    return DoneRule(SUCCESS_PROBABILITY if has_channel else None, float(stated) if stated else DONE_PROGRESS)


def robust_opd(
    runs: Sequence[Run], channel: str, done_at: float | None
) -> Callable[[EpisodeRow], CurveMetric]:
    """Return what gives the OPD metrics of an episode, by the rule of its run."""
    rules = {str(run.path): done_rule(run, done_at) for run in runs}
    probabilities = {
        (str(run.path), name): values
        for run in runs
        if (by := rules[str(run.path)].channel) is not None
        for name, (_, values) in curves_by_episode(run.curves(), by)
        if np.any(~np.isnan(values))
    }

    def opd_of(row: EpisodeRow) -> CurveMetric:
        at = rules[row["run"]].at if channel == "progress" or done_at is not None else None
        probability = probabilities.get((row["run"], row["episode_id"]))
        return opd_metric("robust", success_probability=probability, done_at=at)

    return opd_of
