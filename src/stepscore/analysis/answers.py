"""What a judge said of each episode, without any metric."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import NamedTuple

from stepscore._progress import track
from stepscore.analysis.episode_metrics import SUCCESS_THRESHOLD, judged_rows
from stepscore.analysis.success_verdict import success_verdict
from stepscore.runs import Run
from stepscore.types import FloatArray


class JudgeAnswer(NamedTuple):
    """A judge's answer about one episode.

    Attributes:
        times: Seconds of the curve's points; empty where there is no curve.
        progress: Progress at them, NaN where unknown.
        success: Its verdict on success: 1, 0, or NaN where it gives none; that of :func:`measure_episodes`.
    """

    episode_id: str
    times: FloatArray
    progress: FloatArray
    success: float


def judge_answers(run: Run, only: Collection[str] | None = None) -> Iterator[JudgeAnswer]:
    """Iterate over what a run's judge said; its arrays are parts of the run's whole table of curves.

    Args:
        only: Ids of the episodes; all if not given.
    """
    for row, (times, progress) in track(judged_rows(run), f"Reading answers of {run.judge}", run.count):
        if only is None or row["episode_id"] in only:
            verdict = success_verdict(row, progress, SUCCESS_THRESHOLD)
            yield JudgeAnswer(row["episode_id"], times, progress, float(verdict.value))
