"""Metrics by group (a row per group, a column per metric), and their distribution over episodes."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from stepscore._tables import (
    Cell,
    Column,
    PrintedTable,
    TableRow,
    count_cell,
    estimate_cell,
    group_name,
    percent,
    percent_cell,
    seconds,
    text_cell,
)
from stepscore.analysis.episode_metrics import EpisodeMetrics, metric_columns
from stepscore.analysis.estimates import GroupEstimate, episode_groups, main_metrics
from stepscore.analysis.pooling import DURATION_COLUMN, coverage_note, other_scenes_note
from stepscore.metrics.stats import these_scenes
from stepscore.types import Estimate


def metric_table(
    estimates: Iterable[GroupEstimate], *, revision: str, note: str, success_name: str = "success by judge"
) -> PrintedTable:
    """Return the table of the known :func:`main_metrics` over all episodes, without conditioned estimates."""
    unconditioned = [row for row in estimates if "|" not in row.metric]
    return _table(f"Metrics (OPD {revision})", unconditioned, revision, note, success_name)


def conditioned_tables(
    estimates: Sequence[GroupEstimate], *, revision: str, note: str, success_name: str = "success by judge"
) -> list[PrintedTable]:
    """Return the tables among successes and among failures, by label and by judge."""
    tables = []
    for source in ("label", "judge"):
        for word in ("success", "failure"):
            chosen = [row for row in estimates if row.metric.endswith(f"|{word}:{source}")]
            if chosen:
                by = source if source == "label" else success_name.removeprefix("success by ")
                title = f"Among {word} by {by} (OPD {revision})"
                tables.append(_table(title, chosen, revision, note, success_name))
    return tables


def episodes_behind(estimates: Iterable[Estimate]) -> int:
    """Return the number of episodes behind estimates, including those with an unknown value."""
    return max((round(e.n / e.coverage) for e in estimates if e.coverage > 0), default=0)


def _table(
    title: str, estimates: Iterable[GroupEstimate], revision: str, note: str, success_name: str
) -> PrintedTable:
    lines: dict[tuple[tuple[str, str | None], ...], dict[str, GroupEstimate]] = {}
    for row in estimates:
        lines.setdefault(tuple(row.group.items()), {})[row.metric.split("|")[0]] = row
    names = [name for name in main_metrics() if any(name in line for line in lines.values())]
    better = {column.name: column.better for column in metric_columns(revision)}
    rows = []
    coverages: dict[str, dict[str, float]] = {name: {} for name in names}
    for key, line in lines.items():
        n, label = episodes_behind(row.estimate for row in line.values()), group_name(dict(key))
        cells = [
            estimate_cell(line[name].estimate, n, line[name].metric, text=_text(name))
            if name in line
            else estimate_cell(None)
            for name in names
        ]
        rows.append(TableRow((text_cell(label), count_cell(n), *cells), dict(key)))
        for name in names:
            coverages[name][label] = line[name].estimate.coverage if name in line else math.nan
    scope = scope_of(
        {group_name(row.group): row.fixed_scenes for line in lines.values() for row in line.values()}
    )
    heads = [Column(_head(name, success_name), better.get(name, "neither")) for name in names]
    notes = [note, scope[1], no_interval_note(rows), coverage_note(coverages)]
    columns = (Column("group", left=True), Column("n"), *heads)
    return PrintedTable(f"{title}{scope[0]}", columns, tuple(rows), tuple(text for text in notes if text))


def scope_of(fixed: Mapping[str, int]) -> tuple[str, str]:
    """Return the addition to a table's title for fixed scenes, and the note on them; or empty texts."""
    numbers = set(fixed.values())
    if numbers <= {0}:
        return "", ""
    if len(numbers) == 1:
        (number,) = numbers
        return f" {these_scenes(number)}", other_scenes_note(number)
    groups = ", ".join(f"{name} {these_scenes(number)}" for name, number in fixed.items() if number)
    return "", f"{groups}: {other_scenes_note(0)}"


def _head(name: str, success_name: str) -> str:
    by_judge = success_name.replace(" by ", "\nby ").replace(", ", ",\n")
    named = {
        "success_label": "success\nby label",
        "success_judge": by_judge,
        DURATION_COLUMN.name: "duration\nin s",
    }
    return named.get(name, name)


def _text(name: str) -> Callable[[float], str]:
    return seconds if name == DURATION_COLUMN.name else percent


def no_interval_note(rows: Iterable[TableRow]) -> str:
    """Return the note on estimates without an interval; empty if all have one."""
    bare = any(cell.bare for row in rows for cell in row.cells)
    return "A value without an interval: the sample is too small for one." if bare else ""


QUANTILES = {"least": 0.0, "p10": 0.1, "median": 0.5, "p90": 0.9, "most": 1.0}


def distribution_tables(episodes: EpisodeMetrics, apart: Sequence[str]) -> list[PrintedTable]:
    """Return the distribution of every known metric over episodes, a table per group of ``apart``."""
    return [
        _distribution_table(episodes.select(chosen), group)
        for group, chosen in episode_groups(episodes, apart)
    ]


def episode_records(episodes: EpisodeMetrics) -> list[dict[str, Any]]:
    """Return a row per episode with the value of every metric, for ``--json``."""
    names = [column.name for column in episodes.columns]
    return [
        {
            "episode_id": row["episode_id"],
            "judge": row["judge"],
            "task": row["task"],
            "policy": row["policy"],
            "revision": episodes.revision,
            **{name: float(episodes.values[name][i]) for name in names},
            "error": row["error"],
        }
        for i, row in enumerate(episodes.episodes)
    ]


def _distribution_table(episodes: EpisodeMetrics, group: dict[str, str | None]) -> PrintedTable:
    rows = []
    for name, values in episodes.values.items():
        known = values[~np.isnan(values)]
        if len(known):
            cuts = np.quantile(known, list(QUANTILES.values()))
            cells = [percent_cell(float(cut), metric=word) for word, cut in zip(QUANTILES, cuts, strict=True)]
            line = (text_cell(name), count_cell(len(known), "n"), *cells, Cell(_histogram(known)))
            rows.append(TableRow(line, {**group, "metric": name}))
    judge = "".join(f" of {part}" for part in group.values())
    title = f"{len(episodes)} episodes{judge}, OPD {episodes.revision}"
    heads = [Column(word) for word in ("n", *QUANTILES)]
    columns = (Column("metric", left=True), *heads, Column("least…most", left=True))
    return PrintedTable(title, columns, tuple(rows))


def _histogram(values: np.ndarray[Any, Any]) -> str:
    counts, _ = np.histogram(values, bins=10)
    return "".join("·▁▂▃▄▅▆▇█"[int(np.ceil(8 * count / counts.max()))] for count in counts)
