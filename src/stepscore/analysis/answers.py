"""A judge's answers by episode, without metrics."""

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
        times: Seconds of the curve's points; empty without a curve.
        progress: NaN where unknown.
        success: Its verdict: 1, 0, or NaN where it gives none; as in :func:`measure_episodes`.
    """

    episode_id: str
    times: FloatArray
    progress: FloatArray
    success: float


def judge_answers(run: Run, only: Collection[str] | None = None) -> Iterator[JudgeAnswer]:
    """Iterate over a judge's answers; their arrays are slices of the run's table of curves."""
    for row, (times, progress) in track(judged_rows(run), f"Reading answers of {run.judge}", run.count):
        if only is None or row["episode_id"] in only:
            verdict = success_verdict(row, progress, SUCCESS_THRESHOLD)
            yield JudgeAnswer(row["episode_id"], times, progress, float(verdict.value))
