"""Differences between groups as a forest plot: one panel per metric, one row per pair, with intervals."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from stepscore._options import DEFAULT_REVISION
from stepscore.analysis import (
    EpisodeMetrics,
    GroupComparison,
    compare_groups,
    compared_metrics,
    episode_groups,
    scope_text,
)
from stepscore.report.plots.leaderboard import METRIC_TITLES, bare_rows
from stepscore.report.plots.style import (
    BLACK,
    COLUMN_INCHES,
    GREY,
    SMALL,
    fit_lines,
    group_name,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

SIGNIFICANT = 0.05
"""Corrected p-value below which a dot is filled."""
MIN_PANEL_INCHES = 0.72
_SHADE = "#DCEAF5"


@dataclass(frozen=True)
class Differences:
    """The differences of some groups.

    Attributes:
        pairs: Names of A and B of every row; the judge in front where there are several.
        metrics: Names of the panels.
        cells: (pair, metric) to the comparison; absent where it is not known in both.
    """

    pairs: tuple[tuple[str, str], ...]
    metrics: tuple[str, ...]
    cells: dict[tuple[tuple[str, str], str], GroupComparison]


def differences(
    metrics: EpisodeMetrics,
    by: Sequence[str],
    names: Sequence[str] | None = None,
    *,
    apart: Sequence[str] = (),
) -> Differences:
    """Compare the groups pairwise, as :func:`stepscore.compare` does; judges are never mixed.

    Args:
        metrics: The metrics of every episode.
        by: What makes a group.
        names: Metrics; default: those of ``stepscore compare``.
        apart: What is compared by itself: the judge, where there are several.
    """
    wanted = list(names) if names is not None else compared_metrics(metrics)
    cells = {}
    for section, chosen in episode_groups(metrics, apart):
        prefix = f"{group_name(section)}: " if apart else ""
        for row in compare_groups(metrics.select(chosen), by, names=wanted):
            if not row.why_not:
                cells[(prefix + group_name(row.a), group_name(row.b)), row.metric] = row
    pairs = tuple(dict.fromkeys(pair for pair, _ in cells))
    return Differences(pairs, tuple(n for n in wanted if any(n == metric for _, metric in cells)), cells)


def draw_differences(found: Differences, width: float = COLUMN_INCHES) -> Figure:
    """Draw the differences as a figure of this width in inches."""
    from matplotlib.figure import Figure

    names = [f"{a} − {b}" for a, b in found.pairs]
    label_inches = min(0.34 * width, 0.055 * max(map(len, names)))
    labels = [fit_lines(name, label_inches, most=2) for name in names]
    across = max(1, int((width - label_inches) / MIN_PANEL_INCHES))
    down = math.ceil(len(found.metrics) / across)
    across = math.ceil(len(found.metrics) / down)
    row_inches = 0.24 if any("\n" in label for label in labels) else 0.17
    figure = Figure(figsize=(width, down * (0.44 + row_inches * len(labels)) + 0.26), layout="constrained")
    panels = figure.subplots(down, across, squeeze=False, sharey=True)
    for axes in panels[:, 0]:
        axes.set_yticks(range(len(labels)), labels)
    for number, axes in enumerate(panels.flat):
        if number < len(found.metrics):
            name = found.metrics[number]
            _panel(axes, name, [found.cells.get((pair, name)) for pair in found.pairs])
        else:
            axes.set_axis_off()
    panels[0, 0].set_ylim(len(labels) - 0.5, -0.5)
    revision = next((row.revision for row in found.cells.values()), DEFAULT_REVISION)
    scope = scope_text(row.comparison.scenes for row in found.cells.values())
    where = f" {scope}" if scope else ""
    figure.supxlabel(
        f"OPD {revision}; A − B{where} in percent points, with 95 % interval; blue: A is better;\nfilled: "
        f"q < {SIGNIFICANT}, corrected over all comparisons (Benjamini-Hochberg)",
        fontsize=SMALL,
        color=GREY,
    )
    return figure


def _panel(axes: Axes, name: str, rows: Sequence[GroupComparison | None]) -> None:
    better = next(row.better for row in rows if row is not None)
    arrow = {"higher": " ↑", "lower": " ↓", "neither": ""}[better]
    axes.set_title(METRIC_TITLES.get(name, name) + arrow, fontsize=SMALL)
    bare_rows(axes)
    axes.grid(visible=True, axis="y")
    most = _most(rows)
    if better != "neither":
        axes.axvspan(0, most if better == "higher" else -most, color=_SHADE, lw=0, zorder=0)
    axes.axvline(0, color=GREY, lw=0.6, zorder=1)
    axes.set(xlim=(-most, most), xticks=(-most, 0, most), xticklabels=(f"−{most:g}", "0", f"{most:g}"))
    for y, row in enumerate(rows):
        if row is not None:
            _difference(axes, row, y)


def _difference(axes: Axes, row: GroupComparison, y: int) -> None:
    d = row.comparison.difference
    if math.isnan(d.value):
        return
    if math.isfinite(d.lo) and math.isfinite(d.hi):
        axes.plot([100 * d.lo, 100 * d.hi], [y, y], "-", color=BLACK, solid_capstyle="butt", lw=1.1)
    filled = math.isfinite(row.q_value) and row.q_value < SIGNIFICANT
    face = BLACK if filled else "white"
    axes.plot(
        [100 * d.value],
        [y],
        "o",
        color=BLACK,
        markersize=2.8,
        markerfacecolor=face,
        markeredgewidth=0.7,
        clip_on=False,
    )


def _most(rows: Sequence[GroupComparison | None]) -> float:
    """Return the end of a panel's axis: the same on both sides, a round number."""
    given = [row.comparison.difference for row in rows if row is not None]
    ends = np.array([100 * v for d in given for v in (d.value, d.lo, d.hi) if math.isfinite(v)])
    largest = float(np.max(np.abs(ends), initial=1.0))
    return next((float(end) for end in (5, 10, 20, 50, 100) if largest <= end), 25 * math.ceil(largest / 25))
