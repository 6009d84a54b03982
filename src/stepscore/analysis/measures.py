"""A run into per-episode metrics, and those into grouped Estimates.

This is the one source of numbers: tables, reports, filters and audits all read what is measured here, so that
two of them cannot disagree.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from stepscore.errors import OptionError, UnknownNameError
from stepscore.metrics import CurveMetric, MetricColumn, metric_registry, opd_metric, trace_error
from stepscore.metrics.opd import REVISIONS
from stepscore.metrics.stats import mean_estimate, rate_estimate
from stepscore.runs import Run
from stepscore.types import Estimate, FloatArray

GROUP_KEYS = ("dataset", "robot", "task", "policy", "judge", "model", "protocol")
SUCCESS_THRESHOLD = 0.99
"""Highest progress from which a judge without a success score is taken to say success (OPD v1.5)."""

SUCCESS = (
    MetricColumn("success_label", "higher", "rate", "succeeded, by label"),
    MetricColumn("success_judge", "higher", "rate", "succeeded, by the judge"),
)
STAGES = (
    MetricColumn(
        "stage_MAE", "lower", "mean", "mean distance to the progress that the annotated stages imply"
    ),
    MetricColumn("stage_CCC", "higher", "mean", "concordance with that progress"),
)
COVERAGE = MetricColumn("coverage", "higher", "mean", "share of the curve's points that are known")


@dataclass(frozen=True)
class EpisodeMetrics:
    """Every episode of one or more runs with its numbers.

    Attributes:
        episodes: One row an episode: id, task, policy, pair ... and the run it is from.
        columns: What was measured.
        values: Column name to one value an episode; NaN where unknown.
        curves: Times and values of each episode's curve; empty arrays where there is none.
    """

    episodes: tuple[Mapping[str, Any], ...]
    columns: tuple[MetricColumn, ...]
    values: Mapping[str, FloatArray]
    curves: tuple[tuple[FloatArray, FloatArray], ...]

    def __len__(self) -> int:
        return len(self.episodes)

    def column(self, name: str) -> MetricColumn:
        """The column called ``name``; a wrong name lists the valid ones."""
        found = {column.name: column for column in self.columns}
        if name not in found:
            raise UnknownNameError("metric", name, found, hint="Run: stepscore ls metrics")
        return found[name]

    def estimate(self, name: str, chosen: np.ndarray[Any, Any]) -> Estimate:
        """The Estimate of one column over the chosen episodes: strata are tasks, clusters are scenes."""
        make = rate_estimate if self.column(name).kind == "rate" else mean_estimate
        return self._estimate(make, self.values[name][chosen], np.flatnonzero(chosen).tolist())

    def rate(self, outcomes: FloatArray, chosen: Sequence[int]) -> Estimate:
        """The Estimate of a yes/no value of your own over the episodes with these numbers."""
        return self._estimate(rate_estimate, outcomes, chosen)

    def _estimate(self, make: Callable[..., Estimate], values: FloatArray, chosen: Sequence[int]) -> Estimate:
        rows = [self.episodes[i] for i in chosen]
        tasks = [row["task"] or row["instruction"] for row in rows]
        return make(values, clusters=[row["pair"] for row in rows], strata=tasks)


@dataclass(frozen=True)
class GroupEstimate:
    """One number of a table: which group, which metric, and the Estimate."""

    group: Mapping[str, str | None]
    metric: str
    estimate: Estimate

    def row(self) -> dict[str, Any]:
        """As a row of ``metrics --json``."""
        e = self.estimate
        return {
            "group": dict(self.group),
            "metric": self.metric,
            "value": e.value,
            "lo": e.lo,
            "hi": e.hi,
            "n": e.n,
            "clusters": e.clusters,
            "coverage": e.coverage,
            "method": e.method,
        }


def measure_episodes(
    runs: Run | Sequence[Run],
    *,
    revision: str = "v1.0",
    channel: str = "progress",
    success_threshold: float = SUCCESS_THRESHOLD,
) -> EpisodeMetrics:
    """Every episode's numbers.

    Args:
        runs: One run, or several (other judges, other policies).
        revision: The OPD revision: ``paper``, ``v1.0``, ``v1.5`` or ``robust``.
        channel: Which series of the curve to measure. ``progress`` is absolute and comparable; anything else
            (``raw``, ``minmax``) is not, and is used only when named here.
        success_threshold: For judges without a success score, the highest progress that counts as success.
    """
    if revision not in REVISIONS:
        raise UnknownNameError("OPD revision", revision, REVISIONS)
    families, columns = _families(revision), metric_columns(revision)
    rows: list[dict[str, Any]] = []
    curves: list[tuple[FloatArray, FloatArray]] = []
    numbers: list[dict[str, float]] = []
    for run in [runs] if isinstance(runs, Run) else runs:
        for row, curve in _judged(run, channel):
            rows.append(row)
            curves.append(curve)
            numbers.append(_numbers(row, curve, families, success_threshold))
    values = {c.name: np.array([n.get(c.name, np.nan) for n in numbers], dtype=np.float64) for c in columns}
    return EpisodeMetrics(tuple(rows), columns, values, tuple(curves))


def metric_columns(revision: str) -> tuple[MetricColumn, ...]:
    """Every column that episodes are measured with under an OPD revision; each is a name ``--metrics`` takes."""
    measured = (column for family in _families(revision) for column in family.columns)
    return (*SUCCESS, *measured, *STAGES, COVERAGE)


def _families(revision: str) -> list[CurveMetric]:
    return [opd_metric(revision), *(metric for name, metric in metric_registry if name != "opd")]


def grouped_estimates(
    measures: EpisodeMetrics, by: Sequence[str] = ("policy",), *, names: Sequence[str] | None = None
) -> list[GroupEstimate]:
    """Estimates of every column in every group, and beside them the same among successes and among failures.

    Conditioned rows are called ``PPL|success:label``, ``PPL|failure:judge`` and so on: the source of success
    stands in the name. Columns that nothing is known of are left out.

    Args:
        measures: From :func:`measure_episodes`.
        by: Any of dataset, robot, task, policy, judge, model, protocol; empty for one group of all.
        names: Only these columns.
    """
    wanted = [measures.column(name) for name in names] if names is not None else list(measures.columns)
    known = [column for column in wanted if np.any(~np.isnan(measures.values[column.name]))]
    found: list[GroupEstimate] = []
    for group, chosen in episode_groups(measures, by):
        found += [GroupEstimate(group, c.name, measures.estimate(c.name, chosen)) for c in known]
        for source in ("label", "judge"):
            success = measures.values[f"success_{source}"]
            for word, subset in (("success", success == 1), ("failure", success == 0)):
                if not np.any(subset):
                    continue
                found += [
                    GroupEstimate(
                        group, f"{c.name}|{word}:{source}", measures.estimate(c.name, chosen & subset)
                    )
                    for c in known
                    if c not in SUCCESS
                ]
    return found


def episode_groups(
    measures: EpisodeMetrics, by: Sequence[str]
) -> Iterator[tuple[dict[str, str | None], np.ndarray[Any, Any]]]:
    """Each group's name and which episodes are in it, in the order of the names; unknown comes last."""
    for name in by:
        if name not in GROUP_KEYS:
            raise UnknownNameError("grouping", name, GROUP_KEYS)
    keys = [tuple(row[name] for name in by) for row in measures.episodes]
    order = sorted(set(keys), key=lambda key: [(part is None, part or "") for part in key])
    for key in order:
        yield dict(zip(by, key, strict=True)), np.array([k == key for k in keys], dtype=bool)


def _judged(run: Run, channel: str) -> Iterator[tuple[dict[str, Any], tuple[FloatArray, FloatArray]]]:
    """Every episode of a run with its judgement and curve."""
    curves = dict(curves_by_episode(run.curves(), channel))
    nothing = (np.empty(0), np.empty(0))
    for row, judgement in zip(run.episodes().to_pylist(), run.judgements().to_pylist(), strict=True):
        yield (
            {**row, **judgement, "model": run.model, "run": str(run.path)},
            curves.get(row["episode_id"], nothing),
        )


def curves_by_episode(table: pa.Table, channel: str) -> Iterator[tuple[str, tuple[FloatArray, FloatArray]]]:
    """Times and one channel's values of each episode in a ``curves`` table, which is sorted by episode."""
    valid = [name for name in table.column_names if name not in ("episode_id", "time_s")]
    if channel not in valid:
        raise UnknownNameError("channel", channel, valid, where="this run's curves")
    if not len(table):
        return
    coded = table.column("episode_id").combine_chunks().dictionary_encode()
    codes = coded.indices.to_numpy()
    names = coded.dictionary.to_pylist()
    starts = np.flatnonzero(np.r_[True, codes[1:] != codes[:-1]])
    times = table.column("time_s").to_numpy()
    values = table.column(channel).to_numpy()
    for start, end in zip(starts, [*starts[1:], len(codes)], strict=True):
        yield names[codes[start]], (times[start:end], values[start:end])


def _numbers(
    row: Mapping[str, Any],
    curve: tuple[FloatArray, FloatArray],
    families: Sequence[CurveMetric],
    success_threshold: float,
) -> dict[str, float]:
    times, values = curve
    found = {"success_label": np.nan if row["success"] is None else float(row["success"])}
    if len(values):
        for family in families:
            found.update(_apply(family, times, values, str(row["episode_id"])))
        found["coverage"] = float(np.mean(~np.isnan(values)))
        if row["stages"]:
            spans = [(span["name"], span["start_s"], span["end_s"]) for span in row["stages"]]
            error = trace_error(times, values, spans)
            found |= {"stage_MAE": error.mae, "stage_CCC": error.ccc}
    found["success_judge"] = _judge_success(row["success_score"], values, success_threshold)
    return found


def _apply(family: CurveMetric, times: FloatArray, values: FloatArray, episode: str) -> Mapping[str, float]:
    try:
        return family.func(times, values)
    except OptionError as error:
        raise OptionError(f"Episode {episode}: {error}") from error


def _judge_success(score: float | None, values: FloatArray, threshold: float) -> float:
    """1 or 0 by the judge's success score (from 0.5), else by its highest progress; NaN for neither."""
    if score is not None:
        return float(score >= 0.5)
    if not len(values) or np.any(np.isnan(values)):
        return np.nan
    return float(np.max(values) >= threshold)
