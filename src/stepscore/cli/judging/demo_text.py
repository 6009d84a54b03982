"""The text of the demo: who is best, where each policy fails, how a failure looks, and which judge to trust."""

from __future__ import annotations

import math
import shutil
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import quote

from rich.markup import escape
from rich.padding import Padding
from rich.text import Text

from stepscore.cli.streams import safe_text
from stepscore.cli.tables import out, table

if TYPE_CHECKING:
    from rich.table import Table

    from stepscore.analysis import EpisodeMetrics, Findings, JudgeTrust, WorstFailure
    from stepscore.types import Estimate

COLUMNS = {
    "success_label": "success\nby label ↑",
    "success_judge": "success\nby judge ↑",
    "MP": "furthest\nMP ↑",
    "PPL": "efficient\nPPL ↑",
    "CRA": "undone\nCRA ↓",
    "STR": "idle\nSTR ↓",
}
"""Metrics of the first table, with a word for each."""
BARS = "▁▂▃▄▅▆▇█"
WIDTH = 48


def print_findings(
    metrics: EpisodeMetrics,
    findings: Findings,
    subgoal_trust: JudgeTrust,
    policies: Mapping[str, str],
    page: Path,
    limits: str,
) -> None:
    """Print what the rollouts show; ``policies`` describes each policy, ``limits`` where the judge can be trusted."""
    _heading(1, "Who is best?")
    _sentences(findings.opening.sentences)
    out().print(Padding(_table(metrics, list(policies)), (0, 0, 0, 2)))
    _heading(2, "Where does each policy fail?")
    phrases = {found.policy: found.phrase for found in findings.first_failures}
    _sentences([f"{policy} ({does}): {phrases.get(policy, 'unknown')}." for policy, does in policies.items()])
    if findings.worst:
        _heading(3, "What does a failure look like?")
        _print_failure(findings.worst[0], metrics, page)
    _heading(4, "Can the judge be trusted here?")
    _sentences([findings.trust.text, subgoal_trust.text, limits])


def print_next_steps(commands: Sequence[tuple[str, str]]) -> None:
    """Print the commands for a user's own videos, each with what it does."""
    _heading(5, "Your own videos, in folders rollouts/POLICY/TASK/")
    if shutil.which("stepscore") is None and (activate := Path(sys.prefix, "bin", "activate")).is_file():
        out().print(
            f"   source {activate}\n      once in a terminal: the commands below are installed there",
            soft_wrap=True,
        )
    for command, what in commands:
        # A command stays on one line, to be copied; its description is folded.
        out().print(f"   {command}", soft_wrap=True)
        out().print(Padding(Text(what), (0, 0, 0, 6), expand=False))


def sparkline(times: Sequence[float], values: Sequence[float], width: int = WIDTH) -> str:
    """Return a curve as a line of ``width`` bars, blank where it is unknown."""
    span = times[-1] - times[0] or 1.0
    bars = []
    for column in range(width):
        at = times[0] + span * (column + 0.5) / width
        value = values[max(index for index, time in enumerate(times) if time <= at)]
        bars.append(" " if math.isnan(value) else BARS[min(int(value * len(BARS)), len(BARS) - 1)])
    return "".join(bars)


def time_axis(first: float, last: float, mark: float | None, width: int = WIDTH) -> str:
    """Return the line below a sparkline: first and last time, and an arrow at ``mark``, if given."""
    end = f"{last:.1f} s"
    labels = [(0, f"{first:.1f} s"), (width - len(end), end)]
    if mark is not None:
        text = f"↑ {mark:.1f} s"
        place = min(int((mark - first) / ((last - first) or 1.0) * width), width - 1)
        if place + len(text) > width:  # the arrow stays at its time, so the seconds precede it
            text = f"{mark:.1f} s ↑"
            place -= len(text) - 1
        # The arrow's time replaces a time at an edge.
        labels = [(at, label) for at, label in labels if at + len(label) < place or at > place + len(text)]
        labels = sorted([*labels, (place, text)])
    line = ""
    for at, label in labels:
        line = line.ljust(at) + label
    return line


def _print_failure(failure: WorstFailure, metrics: EpisodeMetrics, page: Path) -> None:
    """Print the curve of a failure, and the address of its worst frame in the report."""
    index = next(
        i
        for i, row in enumerate(metrics.episodes)
        if (row["run"], row["episode_id"]) == (failure.run, failure.episode_id)
    )
    row, (times, values) = metrics.episodes[index], metrics.curves[index]
    _sentences([f"{failure.policy}, “{failure.task}” ({failure.episode_id}): {failure.text}."])
    seconds = [float(time) for time in times]
    out().print(f"   progress {sparkline(seconds, [float(v) for v in values])}")
    at = None if failure.worst is None else failure.worst.time_s
    out().print(f"            {time_axis(seconds[0], seconds[-1], at)}")
    frame = "" if failure.worst is None else f"/{round(failure.worst.time_s * row['fps'])}"
    address = (
        f"#/explorer/{quote(Path(failure.run).name, safe='')}/{quote(failure.episode_id, safe='')}{frame}"
    )
    out().print(f"   its video, at that frame: {page}{address}", soft_wrap=True)


def _table(metrics: EpisodeMetrics, policies: Sequence[str]) -> Table:
    import numpy as np

    rows = []
    for policy in policies:
        chosen = np.array([row["policy"] == policy for row in metrics.episodes], dtype=bool)
        cells = [_cell(metrics.estimate(name, chosen)) for name in COLUMNS]
        rows.append([escape(policy), *cells])
    each = len(metrics) // len(policies)
    return table(
        "",
        ["policy", *COLUMNS.values()],
        rows,
        caption=f"OPD {metrics.revision}, percent, 95 % intervals; {each} rollouts each; ↑ more, ↓ less is better",
    )


def _cell(estimate: Estimate) -> str:
    """Return an estimate in whole percent: few rollouts do not support more digits."""
    if not estimate.n:
        return "–"
    return f"{100 * estimate.value:.0f}\n{100 * estimate.lo:.0f}…{100 * estimate.hi:.0f}"


def _heading(number: int, text: str) -> None:
    out().print(f"\n[bold]{number}. {escape(text)}[/bold]", markup=True)


def _sentences(sentences: Sequence[str]) -> None:
    for sentence in sentences:
        out().print(Padding(Text(safe_text(sentence)), (0, 0, 0, 3), expand=False))
