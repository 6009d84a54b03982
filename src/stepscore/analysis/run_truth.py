"""The true progress of the episodes of runs, from the runs' own labels and a labels file.

Each episode uses the first available of: progress labels of the file, its stages, progress labels of the run,
its stages. Progress labels are never mixed: all episodes use those of one name.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from stepscore.analysis.episode_truth import EpisodeTruth, StagedEpisode, task_procedure
from stepscore.episodes.labels import POTENTIAL, Labels, read_labels
from stepscore.errors import OptionError, UnknownNameError
from stepscore.metrics import StageSpan
from stepscore.runs import Run
from stepscore.types import FloatArray

EpisodeRow = Mapping[str, Any]
EpisodeKey = tuple[str, str]
"""Run folder and episode id."""

Points = tuple[FloatArray, FloatArray]
"""Times and values of labelled progress."""


@dataclass(frozen=True)
class ProgressTruths:
    """The true progress of the episodes of runs, by run folder and episode id.

    Attributes:
        potential: Name of the progress labels in use, if any.
        ambiguous: The names of progress labels that are not used, because there are several and none was
            named.
    """

    by_episode: Mapping[EpisodeKey, EpisodeTruth]
    potential: str | None
    ambiguous: tuple[str, ...]

    @property
    def note(self) -> str:
        """Return a note on unused labels; empty if all are used."""
        if not self.ambiguous:
            return ""
        listed = ", ".join(repr(name) for name in self.ambiguous)
        return f"Progress is labelled under several names ({listed}) and was not used. Name one: --potential NAME"

    def of(self, row: EpisodeRow) -> EpisodeTruth:
        """Return the truth of an episode, by its row."""
        return self.by_episode[_key(row)]


def progress_truths(
    runs: Sequence[Run],
    rows: Iterable[EpisodeRow],
    *,
    labels: Path | None = None,
    potential: str | None = None,
) -> ProgressTruths:
    """Return the true progress of the episodes of runs.

    Args:
        rows: Rows of ``episodes`` with the run folder as ``run``.
        labels: Labels file with progress or stages; it takes precedence over the runs' own labels.
        potential: Name of the progress labels to use. By default the only one, or ``potential``.
    """
    rows = list(rows)
    given = {name: Labels(own) for name, own in read_labels(labels).items()} if labels is not None else {}
    if labels is not None and rows and not any(row["episode_id"] in given for row in rows):
        raise OptionError(
            f"{labels} labels no episode of these runs. Its first id is {next(iter(given), 'none')!r}, that of the "
            f"run {rows[0]['episode_id']!r}. Use the same ids."
        )
    points = _stored_points(runs)
    names = _potentials(given, points)
    chosen = _chosen(names, potential, str(labels or ", ".join(str(run.path) for run in runs)))
    known = [_known(row, given.get(row["episode_id"]), points.get(_key(row), {}), chosen) for row in rows]
    procedures = _procedures(rows, known)
    truths = {
        _key(row): _truth(labelled, chosen, staged, procedures[_task(row)], row["success_mode"])
        for row, (labelled, staged) in zip(rows, known, strict=True)
    }
    return ProgressTruths(truths, chosen, tuple(sorted(names)) if chosen is None else ())


def _truth(
    labelled: Points | None,
    potential: str | None,
    staged: StagedEpisode,
    procedure: tuple[str, ...],
    mode: str | None,
) -> EpisodeTruth:
    at_last_stage = bool(staged.stages and procedure) and staged.stages[-1][0] == procedure[-1]
    # Success at some time may be lost at the end; an annotated last stage without a label was carried out.
    done = at_last_stage if staged.success is None or (staged.success and mode == "ever") else staged.success
    name = None if labelled is None else potential
    return EpisodeTruth(labelled, staged.stages, procedure, done, name)


def _known(
    row: EpisodeRow, given: Labels | None, points: Mapping[str, Points], potential: str | None
) -> tuple[Points | None, StagedEpisode]:
    """Return an episode's labelled progress, if any, and its stages; those of the file come first."""
    goals = tuple(goal["name"] for goal in row["subgoals"])
    success = row["success"] if given is None or given.success is None else given.success
    if given is not None:
        if potential in given.potentials:
            times, values = given.progress(potential)
            return (times, values), StagedEpisode(tuple(given.stages), goals, success)
        if given.stages:
            return None, StagedEpisode(tuple(given.stages), goals, success)
    labelled = points.get(potential) if potential is not None else None
    return labelled, StagedEpisode(_own_stages(row), goals, success)


def _own_stages(row: EpisodeRow) -> tuple[StageSpan, ...]:
    return tuple((stage["name"], _nan(stage["start_s"]), _nan(stage["end_s"])) for stage in row["stages"])


def _procedures(
    rows: Sequence[EpisodeRow], known: Sequence[tuple[Points | None, StagedEpisode]]
) -> Mapping[str, tuple[str, ...]]:
    by_task: dict[str, list[StagedEpisode]] = defaultdict(list)
    for row, (_, staged) in zip(rows, known, strict=True):
        by_task[_task(row)].append(staged)
    return {task: task_procedure(episodes) for task, episodes in by_task.items()}


def _potentials(
    given: Mapping[str, Labels], points: Mapping[EpisodeKey, Mapping[str, Points]]
) -> dict[str, None]:
    """Return the names of the file's progress labels, else of the runs'."""
    in_file = dict.fromkeys(name for own in given.values() for name in own.potentials)
    return in_file or dict.fromkeys(name for own in points.values() for name in own)


def _chosen(names: Mapping[str, None], asked: str | None, where: str) -> str | None:
    if asked is not None:
        if asked not in names:
            raise UnknownNameError("potential", asked, sorted(names), where=where)
        return asked
    if len(names) == 1:
        return next(iter(names))
    # The one name that means what was true, and not how someone derived it; see episodes/labels.
    return POTENTIAL if POTENTIAL in names else None


def _stored_points(runs: Sequence[Run]) -> dict[EpisodeKey, dict[str, Points]]:
    """Return the runs' labelled progress by episode and name; arrays are views of the tables."""
    points: dict[EpisodeKey, dict[str, Points]] = defaultdict(dict)
    for run in runs:
        table = run.labelled_progress()
        if not len(table):
            continue
        columns = [table.column(name).combine_chunks().dictionary_encode() for name in ("episode_id", "name")]
        codes = np.stack([column.indices.to_numpy() for column in columns])
        starts = np.flatnonzero(np.r_[True, np.any(codes[:, 1:] != codes[:, :-1], axis=0)])
        ids, names = (column.dictionary.to_pylist() for column in columns)
        times, values = (table.column(name).to_numpy() for name in ("time_s", "progress"))
        for start, end in zip(starts, [*starts[1:], len(times)], strict=True):
            key = str(run.path), ids[codes[0, start]]
            points[key][names[codes[1, start]]] = times[start:end], values[start:end]
    return points


def _key(row: EpisodeRow) -> EpisodeKey:
    return row["run"], row["episode_id"]


def _nan(value: float | None) -> float:
    return math.nan if value is None else value


def _task(row: EpisodeRow) -> str:
    return str(row["task"] or row["instruction"])
