"""The table of ``stepscore metrics --show episodes``: a row per episode, or how they are distributed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from rich.markup import escape

from stepscore.cli.tables import out, percent, print_csv, print_json, print_notes, tables

if TYPE_CHECKING:
    from stepscore.analysis import EpisodeMetrics


def print_episodes(episodes: EpisodeMetrics, apart: Sequence[str], *, json: bool, csv: bool) -> None:
    """Print a row per episode as JSON or CSV, else the distribution of every metric, for each judge."""
    from stepscore.analysis import episode_groups

    names = [column.name for column in episodes.columns]
    rows = [
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
    if json or csv:
        print_json(rows) if json else print_csv(rows)
        return
    for group, chosen in episode_groups(episodes, apart):
        judge = "".join(f" of {part}" for part in group.values())
        _print_distributions(episodes.select(chosen), judge)
    print_notes(episodes.notes)


def _print_distributions(episodes: EpisodeMetrics, judge: str) -> None:
    import numpy as np

    lines = []
    for name, values in episodes.values.items():
        known = values[~np.isnan(values)]
        if len(known):
            cuts = np.quantile(known, [0.0, 0.1, 0.5, 0.9, 1.0])
            lines.append([name, str(len(known)), *(percent(float(cut)) for cut in cuts), _histogram(known)])
    console = out()
    heads = ["metric", "n", "least", "p10", "median", "p90", "most", "least…most"]
    title = f"{len(episodes)} episodes{escape(judge)}, OPD {episodes.revision} (--csv or --json lists them)"
    for part in tables(title, heads, lines, width=console.width):
        console.print(part)


def _histogram(values: Any) -> str:
    import numpy as np

    counts, _ = np.histogram(values, bins=10)
    return "".join(" ▁▂▃▄▅▆▇█"[int(np.ceil(8 * count / counts.max()))] for count in counts)
