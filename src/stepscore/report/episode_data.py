"""One episode as several runs judged it, with its frames: the content of a contact sheet or overlay video."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import pyarrow.compute as pc

from stepscore._untrusted import shown
from stepscore.analysis import EpisodeMetrics
from stepscore.episodes import Episode
from stepscore.errors import EpisodeError, UnknownNameError
from stepscore.report.run_sources import RunSources
from stepscore.runs import Run
from stepscore.types import FloatArray, Verdict


class EpisodeJudgement(NamedTuple):
    """The judgement of the episode in one run.

    Attributes:
        judge: The judge's name, made unique among the runs; see :func:`run_names`.
        times: Timestamps of its curve in seconds; empty if it has none.
        progress: Progress at these times, 0..1; NaN where unknown.
        verdicts: Subgoal name to verdict.
        success: Success by judge: 1, 0 or NaN.
        run: The run that holds it.
    """

    judge: str
    times: FloatArray
    progress: FloatArray
    verdicts: Mapping[str, Verdict]
    success: float
    run: Run


@dataclass(frozen=True)
class EpisodeData:
    """One episode as the runs describe and judge it.

    Attributes:
        row: Its row of the run's ``episodes`` table.
        duration_s: Duration in seconds.
        success: Success by label: 1, 0 or NaN.
        judgements: One per run that holds the episode.
    """

    row: Mapping[str, Any]
    duration_s: float
    success: float
    judgements: tuple[EpisodeJudgement, ...]

    @property
    def id(self) -> str:
        """Return the episode's id."""
        return str(self.row["episode_id"])

    @property
    def failed(self) -> bool:
        """Return whether it failed, by label, else by any judge."""
        if math.isnan(self.success):
            return any(judgement.success == 0 for judgement in self.judgements)
        return self.success == 0

    @property
    def subgoals(self) -> tuple[tuple[str, bool | None], ...]:
        """Return each subgoal with its label, in order: those of the source, else those that judges named."""
        listed = tuple((goal["name"], goal["label"]) for goal in self.row["subgoals"])
        named = dict.fromkeys(name for judgement in self.judgements for name in judgement.verdicts)
        return listed or tuple((name, None) for name in named)

    @property
    def has_verdicts(self) -> bool:
        """Return whether any subgoal has a verdict or a label."""
        return any(label is not None for _, label in self.subgoals) or any(
            judgement.verdicts for judgement in self.judgements
        )


def episode_data(runs: Sequence[Run], metrics: EpisodeMetrics, name: str) -> EpisodeData:
    """Collect the judgements of the episode called ``name`` from every run that holds it.

    Args:
        runs: The runs that ``metrics`` was computed from.
        metrics: Their episodes and curves, from :func:`stepscore.analysis.measure_episodes`.
        name: The episode's id; an unknown one is an error that lists the closest ids.
    """
    places = [i for i, row in enumerate(metrics.episodes) if row["episode_id"] == name]
    if not places:
        ids = {row["episode_id"] for row in metrics.episodes}
        raise UnknownNameError(
            "episode", name, ids, hint="List them: stepscore metrics RUN --show episodes --format csv"
        )
    row = metrics.episodes[places[0]]
    for other in (metrics.episodes[i] for i in places):
        if other["source"] != row["source"] and other["fingerprint"] != row["fingerprint"]:
            raise EpisodeError(
                f"Two episodes are called {name}: one of {shown(row['source'])} and one of {shown(other['source'])}. "
                "Give the runs of one of them."
            )
    names = run_names(runs)
    by_path = {str(run.path): (run, names[number]) for number, run in enumerate(runs)}
    judgements = []
    for i in places:
        run, judge = by_path[metrics.episodes[i]["run"]]
        success = float(metrics.values["success_judge"][i])
        judgements.append(EpisodeJudgement(judge, *metrics.curves[i], _verdicts(run, name), success, run))
    longest = max((judgement.times for judgement in judgements), key=len)
    duration = duration_of(row["duration_s"], longest)
    if not duration > 0:
        raise EpisodeError(f"Episode {name} has neither a video nor a curve: there is nothing to draw.")
    return EpisodeData(row, duration, float(metrics.values["success_label"][places[0]]), tuple(judgements))


def duration_of(row_duration: float | None, times: FloatArray) -> float:
    """Return an episode's duration: as recorded, or the time of its curve's last point if it has no video."""
    if row_duration is not None:
        return row_duration
    return float(times[-1]) if len(times) else float("nan")


def run_names(runs: Sequence[Run]) -> list[str]:
    """Return a unique name for each run: its judge, followed by its model or folder where needed."""
    candidates = (
        [run.judge for run in runs],
        [f"{run.judge}, {run.model}" if run.model else run.judge for run in runs],
        [f"{run.judge}, {run.path.name}" for run in runs],
        [f"{run.judge}, {run.path}" for run in runs],
    )
    return next((names for names in candidates if max(Counter(names).values()) == 1), candidates[-1])


def source_episode(episode: EpisodeData, source: str | None = None) -> Episode:
    """Open the episode in its source to read its frames; an error if they are not those that were judged.

    Args:
        episode: The episode.
        source: Where it is, instead of where the run says.
    """
    return RunSources([episode.judgements[0].run], source).episode(episode.row)


def _verdicts(run: Run, name: str) -> dict[str, Verdict]:
    table = run.verdicts()
    rows = table.filter(pc.equal(table["episode_id"], name)).to_pylist()
    return {
        row["subgoal"]: Verdict(
            row["subgoal"], row["answer"], _nan(row["score"]), _nan(row["when_s"]), row["why"]
        )
        for row in rows
    }


def _nan(value: float | None) -> float:
    return np.nan if value is None else value
