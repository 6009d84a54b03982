"""How the metrics of single episodes are distributed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from stepscore._tables import Cell, Column, PrintedTable, TableRow, count_cell, percent_cell, text_cell
from stepscore.analysis.episode_metrics import EpisodeMetrics
from stepscore.analysis.estimates import episode_groups

QUANTILES = {"least": 0.0, "p10": 0.1, "median": 0.5, "p90": 0.9, "most": 1.0}


def distribution_tables(episodes: EpisodeMetrics, apart: Sequence[str]) -> list[PrintedTable]:
    """Return the distribution of every known metric over episodes, a table for each group.

    Args:
        episodes: The metrics of every episode.
        apart: What is never pooled: the judge, where there are several.
    """
    return [_table(episodes.select(chosen), group) for group, chosen in episode_groups(episodes, apart)]


def episode_records(episodes: EpisodeMetrics) -> list[dict[str, Any]]:
    """Return a row per episode with the value of every metric: what ``--json`` prints."""
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


def _table(episodes: EpisodeMetrics, group: dict[str, str | None]) -> PrintedTable:
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
