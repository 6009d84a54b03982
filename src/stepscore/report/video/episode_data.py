"""All that runs say of one episode, and its pictures: what a contact sheet and an overlay video show."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import pyarrow.compute as pc

from stepscore.analysis import Measures
from stepscore.episodes import Episode, open_episodes
from stepscore.errors import EpisodeError, SourceError, UnknownNameError
from stepscore.report.plots.curve_bands import duration_of
from stepscore.runs import Run
from stepscore.types import FloatArray, Verdict


class Judged(NamedTuple):
    """One judge's view of the episode.

    Attributes:
        judge: The judge's name, told apart from the others.
        times: Seconds of its curve; empty where it gave none.
        progress: Values there; NaN where unknown.
        verdicts: By subgoal.
        success: 1, 0 or NaN.
        run: The run it is from.
    """

    judge: str
    times: FloatArray
    progress: FloatArray
    verdicts: Mapping[str, Verdict]
    success: float
    run: Run


@dataclass(frozen=True)
class OneEpisode:
    """One episode as the runs describe and judge it.

    Attributes:
        row: Its row of the ``episodes`` table.
        duration_s: How long it lasts.
        success: By label: 1, 0 or NaN.
        judged: One a run that holds it.
    """

    row: Mapping[str, Any]
    duration_s: float
    success: float
    judged: tuple[Judged, ...]

    @property
    def id(self) -> str:
        """The episode's id."""
        return str(self.row["episode_id"])

    @property
    def subgoals(self) -> tuple[tuple[str, bool | None], ...]:
        """Subgoals in order with what the label says of each: those of the source, else the judge's own."""
        listed = tuple((goal["name"], goal["label"]) for goal in self.row["subgoals"])
        own = dict.fromkeys(name for one in self.judged for name in one.verdicts)
        return listed or tuple((name, None) for name in own)

    @property
    def has_verdicts(self) -> bool:
        """Whether a judge or a label says anything of a subgoal."""
        return any(label is not None for _, label in self.subgoals) or any(j.verdicts for j in self.judged)


def one_episode(runs: Sequence[Run], measures: Measures, name: str) -> OneEpisode:
    """The episode called ``name`` in every run that holds it; a wrong name lists the closest ones.

    Args:
        runs: The runs.
        measures: Their episodes and curves, from :func:`stepscore.analysis.measures.measure_episodes`.
        name: The episode's id.
    """
    places = [i for i, row in enumerate(measures.episodes) if row["episode_id"] == name]
    if not places:
        ids = {row["episode_id"] for row in measures.episodes}
        raise UnknownNameError(
            "episode", name, ids, hint="List them: stepscore metrics RUN --show episodes --csv"
        )
    row = measures.episodes[places[0]]
    names = run_names(runs)
    by_path = {str(run.path): (run, names[number]) for number, run in enumerate(runs)}
    judged = []
    for i in places:
        run, judge = by_path[measures.episodes[i]["run"]]
        success = float(measures.values["success_judge"][i])
        judged.append(Judged(judge, *measures.curves[i], _verdicts(run, name), success, run))
    longest = max((j.times for j in judged), key=len)
    duration = duration_of(row["duration_s"], longest)
    if not duration > 0:
        raise EpisodeError(f"Episode {name} has neither a video nor a curve: there is nothing to draw.")
    return OneEpisode(row, duration, float(measures.values["success_label"][places[0]]), tuple(judged))


def run_names(runs: Sequence[Run]) -> list[str]:
    """A name for each run: its judge; with the model, or else the folder, where that names two of them."""
    ways = (
        [run.judge for run in runs],
        [f"{run.judge}, {run.model}" if run.model else run.judge for run in runs],
        [f"{run.judge}, {run.path.name}" for run in runs],
        [f"{run.judge}, {run.path}" for run in runs],
    )
    return next((names for names in ways if max(Counter(names).values()) == 1), ways[-1])


def pictures_of(episode: OneEpisode) -> Episode:
    """The episode in its source, whose frames can be read; an error where it is not what was judged."""
    run = episode.judged[0].run
    source = run.info["source"]
    if not source:
        raise SourceError(
            f"{run.path} does not say where its episodes are from, so their pictures cannot be shown. "
            "Judge them from a source: stepscore judge SOURCE ..."
        )
    found = open_episodes(source, reader=run.info["reader"])[episode.id]
    if not found.views:
        raise EpisodeError(f"Episode {episode.id} of {source} has no video, only a recorded curve.")
    shown = [view["name"] for view in episode.row["views"]]
    if episode.row["fingerprint"] not in (None, found.with_views(shown).fingerprint):
        raise EpisodeError(
            f"Episode {episode.id} of {source} has changed since it was judged: its curve is of other pictures. "
            "Judge it again: stepscore judge"
        )
    return found.with_views(shown)


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
