"""The trivial judges beside a judge, at its own sample times: no picture is looked at, no model asked."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from stepscore.analysis.measures import EpisodeMetrics
from stepscore.episodes import Episode, ViewInfo
from stepscore.episodes.labels import Label, Labels
from stepscore.errors import VideoError
from stepscore.judges import get_judge
from stepscore.runs import Run, score
from stepscore.types import FloatArray, Frames

_POINTS = 32
_ALL_POINTS = 1_000_000


@dataclass(frozen=True)
class SampleTimes:
    """A camera of which only the times of its frames are known; enough for a judge that sees nothing."""

    times: FloatArray

    def info(self) -> ViewInfo:
        """Count and duration; the pictures have no size."""
        step = float(self.times[-1] - self.times[-2]) if len(self.times) > 1 else 1.0
        return ViewInfo(len(self.times), 1.0 / step, 0, 0, float(self.times[-1]) + step)

    def timestamps(self) -> FloatArray:
        """The times."""
        return self.times

    def read(self, indices: Sequence[int], size: int | None = None) -> Frames:
        """There is nothing to read."""
        raise VideoError("Only the frame times of this episode are known; its pictures are not at hand.")

    def digest(self) -> bytes:
        """The times."""
        return self.times.tobytes()

    def location(self) -> str:
        """Nowhere."""
        return ""


@contextmanager
def baseline_runs(measures: EpisodeMetrics, names: Sequence[str]) -> Iterator[list[Run]]:
    """Runs of the named trivial judges over the episodes of some measures, in a folder that goes away.

    Each episode is judged at the times at which the other judge sampled it (32 times over its duration where
    it has no curve), and has the labels it had there.
    """
    episodes = [
        episode
        for row, (times, _) in zip(measures.episodes, measures.curves, strict=True)
        if (episode := _blind(row, times)) is not None
    ]
    with tempfile.TemporaryDirectory(prefix="stepscore-") as folder:
        yield [score(episodes, get_judge(name, points=_ALL_POINTS), Path(folder) / name) for name in names]


def _blind(row: Mapping[str, Any], times: FloatArray) -> Episode | None:
    """The episode without its pictures; ``None`` where not even its duration is known."""
    if not len(times):
        if not row["duration_s"]:
            return None
        times = np.linspace(0.0, row["duration_s"], _POINTS)
    labels = [
        Label("stage", stage["name"], _known(stage["start_s"]), _known(stage["end_s"]))
        for stage in row["stages"]
    ]
    if row["success"] is not None:
        labels.append(Label("success", row["success_mode"] or "holds", value=float(row["success"])))
    return Episode(
        # Episodes of several sources may share an id.
        id=f"{row['source']}:{row['episode_id']}",
        instruction=row["instruction"] or "",
        source=row["source"],
        task=row["task"],
        policy=row["policy"],
        pair=row["pair"],
        views={"times": SampleTimes(times)},
        labels=Labels(tuple(labels)),
    )


def _known(value: float | None) -> float:
    return np.nan if value is None else value
