"""The exported content of an episode: its recording, judgements and labels."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from stepscore.analysis import EpisodeMetrics, curves_by_episode, measure_episodes
from stepscore.analysis.findings import WorstTime, worst_failures, worst_time
from stepscore.episodes import View
from stepscore.errors import EpisodeError
from stepscore.report.episode_data import TRUTH_NAMES, EpisodeData, episode_data, truth_curve
from stepscore.report.run_sources import RunSources
from stepscore.runs import Run
from stepscore.types import FloatArray


class Series(NamedTuple):
    """Values over time, NaN if unknown."""

    name: str
    times: FloatArray
    values: FloatArray


@dataclass(frozen=True)
class EpisodeContent:
    """One episode as it is exported.

    Attributes:
        data: What the runs know about it: instruction, labels, stages, curves and verdicts.
        truth: Its true progress; ``None`` if nothing is known.
        channels: The further channels of each judge's curve, by the judge's name.
        views: Its cameras, or why one cannot be read.
        worst: The time to look at, where it failed; from the first judge with a curve.
    """

    data: EpisodeData
    truth: Series | None
    channels: Mapping[str, Sequence[Series]]
    views: Mapping[str, View | str]
    worst: WorstTime | None


def worst_first(runs: Sequence[Run]) -> str | None:
    """Return the id of the worst failure of the first run's protocol, on which the report opens too."""
    protocol = runs[0].protocol.hash
    metrics = measure_episodes([run for run in runs if run.protocol.hash == protocol]).counted_once()
    return next((failure.episode_id for failure in worst_failures(metrics, most=1)), None)


def episode_contents(
    runs: Sequence[Run],
    metrics: EpisodeMetrics,
    ids: Sequence[str],
    source: str | None,
    on_failed: Callable[[str, str], None],
) -> Iterator[EpisodeContent]:
    """Yield the episodes one by one, so that one at a time is in memory.

    Args:
        runs: The runs that ``metrics`` was computed from.
        metrics: Their episodes.
        ids: Which episodes.
        source: Where the recordings are; default: the runs' sources.
        on_failed: Called with the id of an episode that cannot be exported, and why; the others are yielded.

    Raises:
        EpisodeError: No episode can be exported.
    """
    failed = list[str]()
    sources = RunSources(runs, source)
    channels = {run.path: _channels(run) for run in runs}
    for name in ids:
        try:
            data = episode_data(runs, metrics, name)
        except EpisodeError as error:
            failed.append(str(error))
            on_failed(name, str(error))
            continue
        curve = truth_curve(data.row)
        yield EpisodeContent(
            data,
            None if curve is None else Series(TRUTH_NAMES[data.row["truth"].source], *curve),
            {judged.judge: channels[Path(judged.run.path)].get(name, []) for judged in data.judgements},
            sources.views(data.row),
            _worst(data),
        )
    if ids and len(failed) == len(ids):
        raise EpisodeError(f"None of {len(ids)} episodes can be exported. The first: {failed[0]}")


def _channels(run: Run) -> dict[str, list[Series]]:
    """Return every channel but progress, by episode."""
    table = run.curves()
    found: dict[str, list[Series]] = {}
    for name in table.column_names:
        if name not in ("episode_id", "time_s", "progress"):
            for episode, (times, values) in curves_by_episode(table, name):
                found.setdefault(episode, []).append(Series(name, times, values))
    return found


def _worst(data: EpisodeData) -> WorstTime | None:
    curves = [judged for judged in data.judgements if len(judged.times)]
    return worst_time(curves[0].times, curves[0].progress) if data.failed and curves else None
