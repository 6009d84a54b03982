"""Results of runs as tables for scripts and notebooks: :func:`measure` and :func:`compare`.

Their rows are those of ``stepscore metrics --json`` and ``stepscore compare --json``.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, Self, TypeVar, overload

from stepscore._imports import import_extra
from stepscore._options import DEFAULT_REVISION, SceneChoice
from stepscore._tables import PrintedTable, group_name, html_table, latex_table, markdown_table
from stepscore.analysis.comparison import GroupComparison, compare_groups, compared_metrics
from stepscore.analysis.episode_metrics import measure_episodes
from stepscore.analysis.estimates import (
    GroupEstimate,
    check_group_keys,
    grouped_estimates,
    main_metrics,
    metrics_of,
)
from stepscore.analysis.pooling import (
    add_protocol_keys,
    check_unmixed,
    distinct_runs,
)
from stepscore.analysis.subgoals import subgoal_tables
from stepscore.analysis.tables import comparison_tables, metric_table
from stepscore.runs import Run, open_run

if TYPE_CHECKING:
    import pandas as pd

RunLike = Run | str | Path


class _Row(Protocol):
    def to_dict(self) -> dict[str, Any]: ...


RowT = TypeVar("RowT", bound=_Row)


class ResultTable(Sequence[RowT]):
    """Rows of a result in order: a sequence with forms for pandas and notebooks."""

    def __init__(self, rows: Iterable[RowT]) -> None:
        self._rows = tuple(rows)

    def __len__(self) -> int:
        return len(self._rows)

    @overload
    def __getitem__(self, index: int) -> RowT: ...
    @overload
    def __getitem__(self, index: slice) -> Self: ...
    def __getitem__(self, index: int | slice) -> RowT | Self:
        return type(self)(self._rows[index]) if isinstance(index, slice) else self._rows[index]

    def __eq__(self, other: object) -> bool:
        return isinstance(other, type(self)) and self._rows == other._rows

    def __hash__(self) -> int:
        return hash(self._rows)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({len(self)} rows)"

    def to_dicts(self) -> list[dict[str, Any]]:
        """Return the rows as ``--json`` prints them; ``None`` where unknown."""
        return [_without_nan(row.to_dict()) for row in self._rows]

    def to_pandas(self) -> pd.DataFrame:
        """Return the rows as a DataFrame, NaN where unknown.

        Raises:
            MissingExtraError: pandas is not installed.
        """
        pandas = import_extra("pandas", extra="pandas", purpose=f"{type(self).__name__}.to_pandas")
        return pandas.DataFrame([self._flat(row) for row in self._rows])

    @abstractmethod
    def _flat(self, row: RowT) -> dict[str, Any]:
        """Return a row whose values are all scalars."""

    @abstractmethod
    def printed(self) -> list[PrintedTable]:
        """Return the tables that the command prints, with a note if they omit rows."""

    def to_markdown(self) -> str:
        """Return the printed tables in Markdown."""
        return "\n".join(map(markdown_table, self.printed()))

    def to_latex(self) -> str:
        """Return the printed tables in LaTeX; they need booktabs."""
        return "\n".join(map(latex_table, self.printed()))

    def _repr_html_(self) -> str:
        return "".join(map(html_table, self.printed()))


class EstimateTable(ResultTable[GroupEstimate]):
    """Estimates by group and metric, from :func:`measure`."""

    def _flat(self, row: GroupEstimate) -> dict[str, Any]:
        values = row.to_dict()
        return {**values.pop("group"), **values}

    def printed(self) -> list[PrintedTable]:
        """Return the table of ``stepscore metrics``: a row per group, a column per main metric."""
        shown = main_metrics()
        main = [row for row in self._rows if row.metric in shown]
        revision = next((row.revision for row in self._rows), DEFAULT_REVISION)
        note = "Percent with 95 % intervals; n = episodes, in a cell those known."
        if len(self) > len(main):
            note += f" {len(self) - len(main)} further rows: to_pandas() or to_dicts()."
        by_judge = {row.calibrated for row in main if row.metric == "success_judge" and row.estimate.n}
        name = "success by judge" if by_judge <= {True} else "success by judge, uncalibrated"
        return [metric_table(main, revision=revision, note=note, success_name=name)]


class ComparisonTable(ResultTable[GroupComparison]):
    """Differences between groups by metric, from :func:`compare`, with notes."""

    def __init__(self, rows: Iterable[GroupComparison], notes: tuple[str, ...] = ()) -> None:
        super().__init__(rows)
        self.notes = notes

    def _flat(self, row: GroupComparison) -> dict[str, Any]:
        return {**row.to_dict(), "a": group_name(row.a), "b": group_name(row.b)}

    def printed(self) -> list[PrintedTable]:
        """Return the tables of ``stepscore compare``: one per pair of groups, a row per metric."""
        return comparison_tables(self._rows, self.notes)


def measure(
    runs: RunLike | Sequence[RunLike],
    by: str | Sequence[str] = ("policy",),
    *,
    metrics: Sequence[str] | None = None,
    revision: str = DEFAULT_REVISION,
    channel: str = "progress",
    labels: str | Path | None = None,
    potential: str | None = None,
    done_at: float | None = None,
    held_out: bool = False,
    scenes: SceneChoice = "auto",
) -> EstimateTable:
    """Estimate the metrics of runs by group: the rows of ``stepscore metrics RUN --json``.

    Every metric comes for all episodes of a group, then among its successes and failures
    (``PPL|failure:label``); subgoals follow by task (``reached:grasp:judge``). An episode with the same
    judgement in several runs counts once. Several judges or protocols are never averaged but added to the
    groups. For episodes judged by a baseline (``linear-time``, ``constant``, ``random-monotone``), only
    success by label and duration are given, unless ``by`` names the judge.

    Args:
        runs: A run, a run folder, or several (other judges, other policies).
        by: Any of dataset, robot, task, policy, judge, model, protocol; empty for one group of all.
        metrics: Only these, without subgoals; ``stepscore ls metrics`` lists them.
        revision: The OPD revision: ``paper``, ``v1.0``, ``v1.5`` or ``robust``.
        channel: Channel of the curve to measure; only ``progress`` is comparable across episodes.
        labels: Labels file with true progress or stages; the runs' own labels by default.
        potential: Name of the true progress labels, if there are several.
        done_at: Progress that ``robust`` counts as done; see :func:`stepscore.analysis.measure_episodes`.
        held_out: Leave out the episodes that a calibration map of the runs was fitted on.
        scenes: What intervals and tests are about: ``fixed``, the tried scenes; ``sample``, similar scenes;
            ``auto``:
        ``fixed`` for fewer than ten scenes with repeated trials.
    """
    opened = _open(runs)
    episodes = measure_episodes(
        opened,
        revision=revision,
        channel=channel,
        labels=None if labels is None else Path(labels),
        potential=potential,
        done_at=done_at,
        held_out=held_out,
        scenes=scenes,
    )
    episodes = metrics_of(episodes, [by] if isinstance(by, str) else by)
    keys = add_protocol_keys(episodes.episodes, [by] if isinstance(by, str) else by)
    rows = grouped_estimates(episodes, keys, names=metrics)
    if metrics is None:
        tables = subgoal_tables(opened, keys, left_out=episodes.repeated, scenes=scenes)
        rows += [replace(row, revision=revision) for table in tables for row in table.estimates()]
    return EstimateTable(rows)


def compare(
    runs: RunLike | Sequence[RunLike],
    by: str | Sequence[str] = ("policy",),
    *,
    metrics: Sequence[str] | None = None,
    revision: str = DEFAULT_REVISION,
    done_at: float | None = None,
    held_out: bool = False,
    scenes: SceneChoice = "auto",
) -> ComparisonTable:
    """Compare groups of runs pairwise: the rows of ``stepscore compare RUN --json``.

    Policies that met the same scenes are paired on task and scene, or compared within a few fixed scenes; two
    judges are paired on the episode. p-values are corrected over all rows. An episode with the same judgement
    in several runs counts once. Groups that would average judges or protocols are an error. Policies judged
    by a baseline are compared only on success by label.

    Args:
        runs: A run, a run folder, or several that share their episodes.
        by: What to compare: ``policy``, ``task``, ``judge`` ..., as in :func:`measure`.
        metrics: Only these; by default success, MC50, MC100, MP, PPL, CRA, STR, VOC and all registered
            metrics.
        done_at: Progress that ``robust`` counts as done; see :func:`stepscore.analysis.measure_episodes`.
        held_out: Leave out the episodes that a calibration map of the runs was fitted on.
        scenes: As in :func:`measure`.
    """
    episodes = measure_episodes(
        _open(runs), revision=revision, done_at=done_at, held_out=held_out, scenes=scenes
    )
    keys = [by] if isinstance(by, str) else by
    check_group_keys(keys)
    episodes = metrics_of(episodes, keys)
    names = metrics or compared_metrics(episodes)
    notes = [*episodes.notes, check_unmixed(episodes.episodes, keys)]
    compared = compare_groups(episodes, keys, names=names)
    return ComparisonTable(compared, tuple(note for note in notes if note))


def _open(runs: RunLike | Sequence[RunLike]) -> list[Run]:
    several = [runs] if isinstance(runs, RunLike) else runs
    return distinct_runs(run if isinstance(run, Run) else open_run(run) for run in several)


def _without_nan(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {key: _without_nan(item) for key, item in value.items()}
    return None if isinstance(value, float) and not math.isfinite(value) else value
