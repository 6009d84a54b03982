"""The metrics of every episode of a run.

The only source of numbers: tables, reports, filters and audits read it, so that they cannot disagree.
"""

from __future__ import annotations

from array import array
from collections import deque
from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from stepscore._options import DEFAULT_REVISION, SceneChoice
from stepscore._progress import doing, track
from stepscore.analysis.pooling import (
    check_scene_choice,
    copied_trials,
    copies_note,
    distinct_runs,
    fixed_scenes,
    nothing_known_note,
    repeated_episodes,
)
from stepscore.analysis.run_truth import progress_truths
from stepscore.analysis.success_verdict import (
    BY_PROBABILITY,
    fitted_on_note,
    map_holds,
    map_id,
    other_mode_note,
    robust_opd,
    success_maps,
    success_name,
    success_verdict,
    was_fitted_on,
)
from stepscore.analysis.table_rows import EpisodeCurve, EpisodeRow, curves_by_episode, table_rows
from stepscore.errors import OptionError, UnknownNameError
from stepscore.metrics import (
    CurveMetric,
    MetricColumn,
    metric_registry,
    opd_metric,
    registered_metrics,
    truth_error,
)
from stepscore.metrics.opd import REVISIONS
from stepscore.metrics.stats import estimate_within_scenes, mean_estimate, rate_estimate, share_estimate
from stepscore.runs import Run
from stepscore.types import Estimate, FloatArray

SUCCESS_THRESHOLD = 0.99
"""Highest progress that counts as success for a judge without a success score (OPD v1.5)."""

SUCCESS_COLUMNS = (
    MetricColumn("success_label", "higher", "rate", "succeeded, by label"),
    MetricColumn("success_judge", "higher", "rate", "succeeded, by the judge"),
)
STAGE_COLUMNS = (
    MetricColumn(
        "stage_MAE", "lower", "share", "mean distance to true progress: labelled, else by annotated stages"
    ),
    MetricColumn("stage_CCC", "higher", "mean", "concordance with true progress"),
)
COVERAGE_COLUMN = MetricColumn("coverage", "higher", "share", "share of the curve's points that are known")

ESTIMATES: Mapping[str, Callable[..., Estimate]] = {
    "rate": rate_estimate,
    "share": share_estimate,
    "mean": mean_estimate,
}
"""The estimator of each kind of column."""

T = TypeVar("T")


@dataclass(frozen=True)
class EpisodeMetrics:
    """Every episode of one or more runs with its metrics.

    Attributes:
        episodes: A row per episode: id, task, policy, pair, success score ... and its run folder.
        values: One value per episode by metric; NaN where unknown.
        curves: Times and values of each episode's curve; empty arrays without one.
        notes: Sentences to show with the numbers: what was left out, or counted once.
        repeated: Run folder and id of episodes also judged in another run, and of trials that copy another.
        verdict_rules: The rule behind each episode's success by judge (``success_verdict.py``).
        left_out: Number of episodes left out because a calibration map was fitted on them.
        scenes: Whether estimates are about the tried scenes or about similar ones.
    """

    episodes: tuple[EpisodeRow, ...]
    columns: tuple[MetricColumn, ...]
    values: Mapping[str, FloatArray]
    curves: tuple[EpisodeCurve, ...]
    notes: tuple[str, ...] = ()
    repeated: frozenset[tuple[str, str]] = frozenset()
    revision: str = DEFAULT_REVISION
    verdict_rules: tuple[str | None, ...] = ()
    left_out: int = 0
    scenes: SceneChoice = "auto"

    def __len__(self) -> int:
        return len(self.episodes)

    def column(self, name: str) -> MetricColumn:
        """Return the column called ``name``; raise UnknownNameError with the valid names."""
        by_name = {column.name: column for column in self.columns}
        if name not in by_name:
            raise UnknownNameError("metric", name, by_name, hint="Run: stepscore ls metrics")
        return by_name[name]

    def select_columns(self, names: Sequence[str] | None) -> list[MetricColumn]:
        """Return the columns with these names; all for ``None``."""
        return list(self.columns) if names is None else [self.column(name) for name in names]

    def select(self, chosen: np.ndarray[Any, Any]) -> EpisodeMetrics:
        """Return the metrics of some episodes, given as a boolean each."""
        places = np.flatnonzero(chosen).tolist()
        return replace(
            self,
            episodes=tuple(self.episodes[i] for i in places),
            values={name: values[chosen] for name, values in self.values.items()},
            curves=tuple(self.curves[i] for i in places),
            verdict_rules=tuple(self.verdict_rules[i] for i in places) if self.verdict_rules else (),
        )

    def of_the_judge(self) -> EpisodeMetrics:
        """Return the metrics for estimates about the judge, which generalise to similar scenes."""
        return replace(self, scenes="sample")

    def counted_once(self) -> EpisodeMetrics:
        """Return the metrics without the repeated episodes."""
        once = [(row["run"], row["episode_id"]) not in self.repeated for row in self.episodes]
        return self.select(np.array(once, dtype=bool)) if self.repeated else self

    def success_calibrated(self, chosen: np.ndarray[Any, Any]) -> bool | None:
        """Return whether success by judge is calibrated in all chosen episodes; ``None`` if no rule applied."""
        rules = {rule for rule, one in zip(self.verdict_rules, chosen, strict=False) if one} - {None}
        return rules == {BY_PROBABILITY} if rules else None

    @property
    def success_name(self) -> str:
        """The name of success by judge in tables."""
        return success_name(set(self.verdict_rules))

    @property
    def fitted_on(self) -> int | None:
        """Number of episodes that a calibration map was fitted on; ``None`` if no map lists them."""
        known = [found for row in self.episodes if (found := was_fitted_on(row)) is not None]
        return sum(known) if known else None

    def fixed_scenes(self, chosen: np.ndarray[Any, Any]) -> int:
        """Return the number of fixed scenes of these episodes; 0 if estimates generalise to similar scenes."""
        rows = [self.episodes[i] for i in np.flatnonzero(chosen).tolist()]
        owners = [(row["policy"], row["protocol"]) for row in rows]
        return fixed_scenes(self.scenes, [scene_of(row) for row in rows], owners)

    def estimate(
        self, name: str, chosen: np.ndarray[Any, Any], group: np.ndarray[Any, Any] | None = None
    ) -> Estimate:
        """Estimate one metric over some episodes: strata are tasks, or a few fixed scenes; clusters are scenes.

        ``group`` is the larger group of these episodes, whose scenes decide whether they are fixed.
        """
        make = ESTIMATES[self.column(name).kind]
        fixed = self.fixed_scenes(chosen if group is None else group) > 0
        return self._estimate(make, self.values[name][chosen], np.flatnonzero(chosen).tolist(), fixed=fixed)

    def rate(
        self, outcomes: FloatArray, chosen: Sequence[int], group: Sequence[int] | None = None
    ) -> Estimate:
        """Estimate the rate of a custom yes/no outcome: 1, 0 or NaN (unknown) per chosen episode.

        ``group`` are the indices of the larger group, as in :meth:`estimate`.
        """
        inside = np.isin(np.arange(len(self)), chosen if group is None else group)
        return self._estimate(rate_estimate, outcomes, chosen, fixed=self.fixed_scenes(inside) > 0)

    def _estimate(
        self, make: Callable[..., Estimate], values: FloatArray, chosen: Sequence[int], *, fixed: bool
    ) -> Estimate:
        rows = [self.episodes[i] for i in chosen]
        if fixed:
            scenes = [scene_of(row) for row in rows]
            return estimate_within_scenes(values, scenes=scenes, shares=make is share_estimate)
        return make(values, clusters=[row["pair"] for row in rows], strata=[task_of(row) for row in rows])


def scene_of(row: EpisodeRow) -> Hashable:
    """Return an episode's scene within its task; ``None`` if not stated."""
    return None if row["pair"] is None else (task_of(row), row["pair"])


def task_of(row: EpisodeRow) -> str:
    """Return an episode's task, else its instruction."""
    return str(row["task"] or row["instruction"])


def measure_episodes(
    runs: Run | Sequence[Run],
    *,
    revision: str = DEFAULT_REVISION,
    channel: str = "progress",
    success_threshold: float = SUCCESS_THRESHOLD,
    labels: Path | None = None,
    potential: str | None = None,
    keep_repeated: bool = False,
    done_at: float | None = None,
    held_out: bool = False,
    scenes: SceneChoice = "auto",
    only: Collection[str] | None = None,
) -> EpisodeMetrics:
    """Compute every metric of every episode.

    An episode in several runs with the same judgement under the same protocol is returned once; with another
    judgement it is an error. Copied trials of one policy in one scene, as deterministic simulators make them,
    are returned once.

    Args:
        channel: Channel of the curve to measure; others than ``progress`` (``raw``, ``minmax``) are not
            comparable across
        episodes.
        success_threshold: Highest progress that counts as success, for judges without a success score.
        labels: Labels file with true progress or stages; the runs' own labels by default.
        potential: Name of the true progress labels, if there are several.
        keep_repeated: Return all rows of all runs; ``repeated`` lists those not to count again.
        done_at: Progress that ``robust`` counts as done; by default see :func:`done_rule`.
        held_out: Leave out the episodes that a calibration map of the run was fitted on.
        scenes: What estimates are about: ``fixed``, the tried scenes; ``sample``, similar scenes; ``auto``:
            ``fixed`` for
        fewer than ten scenes with repeated trials.
        only: Ids of the episodes to measure; facts about their tasks still come from all.
    """
    if revision not in REVISIONS:
        raise UnknownNameError("OPD revision", revision, REVISIONS)
    if done_at is not None and revision != "robust":
        raise OptionError(
            f"done-at is for the OPD revision 'robust', not {revision!r}. Add --revision robust"
        )
    check_scene_choice(scenes)
    opened = [runs] if isinstance(runs, Run) else distinct_runs(runs)
    judged = deque(pair for run in opened for pair in track(judged_rows(run, channel), "Reading", run.count))
    n_found = len(judged)
    if held_out:
        judged = deque(pair for pair in judged if not was_fitted_on(pair[0]))
    left_out = n_found - len(judged)
    with doing("Looking for episodes that repeat"):
        rows, curves = [row for row, _ in judged], [curve for _, curve in judged]
        repeats = repeated_episodes(rows, curves)
        copies = copied_trials(rows, curves, repeats)
    _check_scenes(scenes, rows)
    repeated = frozenset((rows[i]["run"], rows[i]["episode_id"]) for i in (*repeats, *copies))
    del rows, curves  # free the rows without truth
    with doing("Reading true progress"):
        truths = progress_truths(opened, (row for row, _ in judged), labels=labels, potential=potential)
    with_truth = (
        ({**row, "truth": truths.of(row)}, curve)
        for row, curve in track(_taken(judged), "Measuring episodes", len(judged))
        if only is None or row["episode_id"] in only
    )
    opd_of = robust_opd(opened, channel, done_at) if revision == "robust" else None
    metrics = measure_rows(with_truth, revision=revision, success_threshold=success_threshold, opd_of=opd_of)
    metrics = replace(metrics, repeated=repeated, left_out=left_out, scenes=scenes)
    metrics = metrics if keep_repeated else metrics.counted_once()
    said = _repeated_note(len(repeats)) if repeats else ""
    unknown = nothing_known_note(metrics.values, len(metrics))
    dropped_map = other_mode_note(opened, metrics.episodes)
    copied = copies_note(len(copies)) if copies else ""
    notes = (unknown, truths.note, said, copied, dropped_map, fitted_on_note(metrics))
    return replace(metrics, notes=tuple(filter(None, notes)))


def measure_rows(
    judged: Iterable[tuple[EpisodeRow, EpisodeCurve]],
    *,
    revision: str = DEFAULT_REVISION,
    success_threshold: float = SUCCESS_THRESHOLD,
    opd_of: Callable[[EpisodeRow], CurveMetric] | None = None,
) -> EpisodeMetrics:
    """Compute every metric of episodes given as rows with curves; see :func:`measure_episodes`.

    ``opd_of`` returns an episode's OPD metrics, if episodes differ in when their task is done.
    """
    opd, *others = _families(revision)
    columns = metric_columns(revision)
    rows: list[EpisodeRow] = []
    curves: list[EpisodeCurve] = []
    measured = {column.name: array("d") for column in columns}
    rules: list[str | None] = []
    for row, curve in judged:
        verdict = success_verdict(row, curve[1], success_threshold)
        rows.append(row)
        curves.append(curve)
        families = [opd_of(row) if opd_of is not None else opd, *others]
        rules.append(verdict.rule)
        known = {**_measure_episode(row, curve, families), "success_judge": verdict.value}
        for name, column in measured.items():
            column.append(known.get(name, np.nan))
    values = {name: np.array(column, dtype=np.float64) for name, column in measured.items()}
    return EpisodeMetrics(
        tuple(rows), columns, values, tuple(curves), revision=revision, verdict_rules=tuple(rules)
    )


def _taken(judged: deque[T]) -> Iterator[T]:
    """Iterate over the items, releasing each to save memory."""
    while judged:
        yield judged.popleft()


def _check_scenes(choice: SceneChoice, rows: Sequence[EpisodeRow]) -> None:
    if choice == "fixed" and rows and all(row["pair"] is None for row in rows):
        raise OptionError(
            "Fixed scenes need episodes whose scene is known, and no episode here states its scene. "
            "Add it to the episodes as `pair`, e.g. in a manifest; or use --scenes sample."
        )


def _repeated_note(n: int) -> str:
    subject = "1 episode is" if n == 1 else f"{n} episodes are"
    return f"{subject} in more than one of these runs with the same judgement, and count once."


def metric_columns(revision: str) -> tuple[MetricColumn, ...]:
    """Return every metric of an episode under an OPD revision; ``--metrics`` takes their names.

    Raises:
        OptionError: Two metrics have a column of the same name.
    """
    of_curves = (column for family in _families(revision) for column in family.columns)
    columns = (*SUCCESS_COLUMNS, *of_curves, *STAGE_COLUMNS, COVERAGE_COLUMN)
    names = [column.name for column in columns]
    for name in names:
        if names.count(name) > 1:
            raise OptionError(
                f"Two metrics have a column {name!r}. Rename that of the metric you registered."
            )
    return columns


def _families(revision: str) -> list[CurveMetric]:
    others = (m for name, m in metric_registry if metric_registry.is_builtin(name) and name != "opd")
    return [opd_metric(revision), *others, *registered_metrics()]


def judged_rows(run: Run, channel: str = "progress") -> Iterator[tuple[EpisodeRow, EpisodeCurve]]:
    """Iterate over a run's episodes, each with its judgement and curve."""
    curves = dict(curves_by_episode(run.curves(), channel))
    no_curve = (np.empty(0), np.empty(0))
    maps = success_maps(run)
    shared = {"model": run.model, "run": str(run.path), "success_map": map_id(run)}
    for row, judgement in zip(table_rows(run.episodes()), table_rows(run.judgements()), strict=True):
        joined = {**row, **judgement, **shared}
        # A map fits one success mode, which labels may only state after judging.
        if not map_holds(row, maps):
            joined["success_calibrated"] = False
        yield joined, curves.get(row["episode_id"], no_curve)


def _measure_episode(
    row: EpisodeRow, curve: EpisodeCurve, families: Sequence[CurveMetric]
) -> dict[str, float]:
    times, values = curve
    measured = {"success_label": np.nan if row["success"] is None else float(row["success"])}
    if len(values):
        for family in families:
            measured.update(_apply(family, times, values, str(row["episode_id"])))
        measured["coverage"] = float(np.mean(~np.isnan(values)))
        if row["truth"].source is not None:
            measured |= _truth_error(row, times, values)
    return measured


def _truth_error(row: EpisodeRow, times: FloatArray, values: FloatArray) -> dict[str, float]:
    try:
        error = truth_error(values, row["truth"].at(times))
    except OptionError as wrong:
        raise OptionError(f"Episode {row['episode_id']}: {wrong}") from wrong
    return {"stage_MAE": error.mae, "stage_CCC": error.ccc}


def _apply(family: CurveMetric, times: FloatArray, values: FloatArray, episode: str) -> Mapping[str, float]:
    try:
        return family.func(times, values)
    except OptionError as error:
        raise OptionError(f"Episode {episode}: {error}") from error
