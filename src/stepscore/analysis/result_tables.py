"""Results of runs as tables for scripts and notebooks: :func:`measure` and :func:`compare`.

Their rows are those of ``stepscore metrics --json`` and ``stepscore compare --json``.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, Self, TypeVar, overload

from stepscore._defaults import DEFAULT_REVISION
from stepscore._lazy import import_extra
from stepscore.analysis.comparison import COMPARED_METRICS, GroupComparison, compare_groups
from stepscore.analysis.episode_metrics import measure_episodes
from stepscore.analysis.estimates import (
    MAIN_METRICS,
    Group,
    GroupEstimate,
    check_group_keys,
    grouped_estimates,
)
from stepscore.analysis.pooling import add_protocol_keys, check_unmixed, distinct_runs
from stepscore.analysis.subgoals import subgoal_tables
from stepscore.runs import Run, open_run
from stepscore.types import Estimate

if TYPE_CHECKING:
    import pandas as pd

RunLike = Run | str | Path


class _Row(Protocol):
    def to_dict(self) -> dict[str, Any]: ...


RowT = TypeVar("RowT", bound=_Row)


class ResultTable(Sequence[RowT]):
    """Rows of a result, in order: a sequence that pandas and notebooks understand."""

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
        """Return the rows as ``--json`` prints them: ``None`` where a value is unknown."""
        return [_without_nan(row.to_dict()) for row in self._rows]

    def to_pandas(self) -> pd.DataFrame:
        """Return the rows as a DataFrame with a column per name, NaN where a value is unknown.

        Raises:
            MissingExtraError: pandas is not installed.
        """
        pandas = import_extra("pandas", extra="pandas", purpose=f"{type(self).__name__}.to_pandas")
        return pandas.DataFrame([self._flat(row) for row in self._rows])

    @abstractmethod
    def _flat(self, row: RowT) -> dict[str, Any]:
        """Return a row whose values are all scalars."""

    @abstractmethod
    def _repr_html_(self) -> str:
        """Return the table as a notebook shows it."""


class EstimateTable(ResultTable[GroupEstimate]):
    """Estimates by group and metric, from :func:`measure`."""

    def _flat(self, row: GroupEstimate) -> dict[str, Any]:
        values = row.to_dict()
        return {**values.pop("group"), **values}

    def _repr_html_(self) -> str:
        cells: dict[tuple[tuple[str, str | None], ...], dict[str, Estimate]] = {}
        for row in self._rows:
            if row.metric in MAIN_METRICS:
                cells.setdefault(tuple(row.group.items()), {})[row.metric] = row.estimate
        names = [name for name in MAIN_METRICS if any(name in line for line in cells.values())]
        lines = [
            [_group_name(dict(key)), *(_interval(line.get(name)) for name in names)]
            for key, line in cells.items()
        ]
        in_cells = sum(len(line) for line in cells.values())
        revisions = ", ".join(sorted({row.revision for row in self._rows}))
        note = (
            f"OPD {revisions}. "
            "Percent with 95 % intervals and n (and the share of episodes that it is, if not all)."
        )
        if len(self) > in_cells:
            note += f" {len(self) - in_cells} further rows: to_pandas() or to_dicts()."
        return _html_table(["group", *names], lines, note)


class ComparisonTable(ResultTable[GroupComparison]):
    """Differences between groups by metric, from :func:`compare`.

    ``notes`` are sentences that belong beside them: what was counted once, or judged by different judges.
    """

    def __init__(self, rows: Iterable[GroupComparison], notes: tuple[str, ...] = ()) -> None:
        super().__init__(rows)
        self.notes = notes

    def _flat(self, row: GroupComparison) -> dict[str, Any]:
        return {**row.to_dict(), "a": _group_name(row.a), "b": _group_name(row.b)}

    def _repr_html_(self) -> str:
        lines = [
            [
                row.metric,
                _group_name(row.a),
                _group_name(row.b),
                _interval(row.comparison.difference),
                "–" if math.isnan(row.q_value) else f"{row.q_value:.3g}",
                _interval(row.comparison.probability_of_improvement),
            ]
            for row in self._rows
        ]
        revisions = ", ".join(sorted({row.revision for row in self._rows}))
        note = (
            f"OPD {revisions}. "
            "Percent points with 95 % intervals and n (and the share of episodes that it is, if not all). "
            "q: p-value corrected over all rows (Benjamini-Hochberg)."
        )
        return _html_table(["metric", "A", "B", "A minus B", "q", "P(A > B)"], lines, note)


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
) -> EstimateTable:
    """Estimate the metrics of runs by group: the rows of ``stepscore metrics RUN --json``.

    Every metric comes for all episodes of a group, then among its successes and failures
    (``PPL|failure:label``); subgoals follow by task (``reached:grasp:judge``). An episode that several runs hold with
    the same judgement counts once. Several judges or protocols are never averaged: groups are by judge too.

    Args:
        runs: A run, a run folder, or several (other judges, other policies).
        by: Any of dataset, robot, task, policy, judge, model, protocol; empty for one group of all.
        metrics: Only these, without subgoals; ``stepscore ls metrics`` lists them.
        revision: The OPD revision: ``paper``, ``v1.0``, ``v1.5`` or ``robust``.
        channel: Series of the curve to measure; others than ``progress`` are not comparable across episodes.
        labels: Labels file with the true progress, or stages; by default the runs' own labels.
        potential: Name of the progress labels that are the truth, where there are several.
        done_at: Progress that ``robust`` counts as done; see :func:`stepscore.analysis.measure_episodes`.
        held_out: Leave out the episodes that a calibration map of the runs was fitted on.
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
    )
    keys = add_protocol_keys(episodes.episodes, [by] if isinstance(by, str) else by)
    rows = grouped_estimates(episodes, keys, names=metrics)
    if metrics is None:
        tables = subgoal_tables(opened, keys, left_out=episodes.repeated)
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
) -> ComparisonTable:
    """Compare groups of runs pairwise: the rows of ``stepscore compare RUN --json``.

    Policies that met the same scenes are paired on task and scene, two judges on the episode; p-values are
    corrected over all rows. An episode that several runs hold with the same judgement counts once. A group that would
    average several judges or protocols is an error.

    Args:
        runs: A run, a run folder, or several that share their episodes.
        by: What to compare: ``policy``, ``task``, ``judge`` ..., as in :func:`measure`.
        metrics: Only these; by default success, MC50, MC100, MP, PPL, CRA, STR and VOC.
        revision: The OPD revision.
        done_at: Progress that ``robust`` counts as done; see :func:`stepscore.analysis.measure_episodes`.
        held_out: Leave out the episodes that a calibration map of the runs was fitted on.
    """
    episodes = measure_episodes(_open(runs), revision=revision, done_at=done_at, held_out=held_out)
    known = {column.name for column in episodes.columns}
    names = metrics or [name for name in COMPARED_METRICS if name in known]
    keys = [by] if isinstance(by, str) else by
    check_group_keys(keys)
    notes = [*episodes.notes, check_unmixed(episodes.episodes, keys)]
    compared = compare_groups(episodes, keys, names=names)
    return ComparisonTable(compared, tuple(note for note in notes if note))


def _open(runs: RunLike | Sequence[RunLike]) -> list[Run]:
    several = [runs] if isinstance(runs, RunLike) else runs
    return distinct_runs(run if isinstance(run, Run) else open_run(run) for run in several)


def _group_name(group: Group) -> str:
    return " / ".join("unknown" if part is None else part for part in group.values()) or "all"


def _without_nan(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {key: _without_nan(item) for key, item in value.items()}
    return None if isinstance(value, float) and not math.isfinite(value) else value


def _interval(estimate: Estimate | None) -> str:
    if estimate is None or math.isnan(estimate.value):
        return "–"
    bounds = f" ({100 * estimate.lo:.1f}…{100 * estimate.hi:.1f})" if math.isfinite(estimate.lo) else ""
    known = f" ({100 * estimate.coverage:.0f} %)" if estimate.coverage < 1 else ""
    return f"{100 * estimate.value:.1f}{bounds}, {estimate.n}{known}"


def _html_table(heads: Sequence[str], lines: Sequence[Sequence[str]], note: str) -> str:
    head = "".join(f"<th>{escape(name)}</th>" for name in heads)
    body = "".join("<tr>" + "".join(f"<td>{escape(cell)}</td>" for cell in line) + "</tr>" for line in lines)
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table><p>{escape(note)}</p>"
