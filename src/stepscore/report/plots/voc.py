"""How VOC is distributed over episodes: one histogram per group, successes and failures stacked.

VOC, the value-order correlation, is how well a curve's order follows time (TOPReward, GVL). A judge that
sees progress gives successes a high one and failures a lower one; a clock gives both the highest.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from stepscore.analysis import EpisodeMetrics, episode_groups
from stepscore.errors import OptionError
from stepscore.report.plots.curves import OUTCOME_COLOURS, outcome_masks
from stepscore.report.plots.style import BLACK, COLUMN_INCHES, GREY, SMALL, fit_lines, group_name
from stepscore.types import Estimate, FloatArray, IntArray

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

EDGES: FloatArray = np.linspace(-1.0, 1.0, 21)
"""Borders of the bars: ten percent each."""
ROW_INCHES = 0.52
_HATCHES = {"failure": "//////", "outcome unknown": "......"}


class VocRow(NamedTuple):
    """One group: its name, the counts of every outcome by bar, and the mean with its interval."""

    name: str
    counts: dict[str, IntArray]
    mean: Estimate


@dataclass(frozen=True)
class VocDistributions:
    """The distributions of all groups; ``source`` says where the outcome is from, label or judge."""

    source: str
    rows: tuple[VocRow, ...]


def voc_distributions(metrics: EpisodeMetrics, by: Sequence[str]) -> VocDistributions:
    """Count the episodes of every group by VOC and outcome."""
    values = metrics.values["VOC"]
    if not np.any(~np.isnan(values)):
        raise OptionError("No episode of these runs has a curve whose order can be compared with time (VOC).")
    source, masks = outcome_masks(metrics)
    rows = []
    for group, chosen in episode_groups(metrics, by):
        known = chosen & ~np.isnan(values)
        if np.any(known):
            counts = {
                outcome: np.histogram(values[known & mask], EDGES)[0].astype(np.int64)
                for outcome, mask in masks.items()
            }
            rows.append(VocRow(group_name(group), counts, metrics.estimate("VOC", chosen)))
    return VocDistributions(source, tuple(rows))


def draw_voc(distributions: VocDistributions, width: float = COLUMN_INCHES) -> Figure:
    """Draw the distributions as a figure of this width in inches."""
    from matplotlib.figure import Figure
    from matplotlib.patches import Patch

    rows = distributions.rows
    figure = Figure(figsize=(width, 0.6 + ROW_INCHES * len(rows)), layout="constrained")
    panels = figure.subplots(len(rows), 1, squeeze=False, sharex=True)[:, 0]
    for axes, row in zip(panels, rows, strict=True):
        _panel(axes, row)
    panels[-1].set_xlabel("VOC of an episode (%); diamond: mean with its 95 % interval", fontsize=SMALL)
    shown = [name for name in OUTCOME_COLOURS if any(row.counts[name].sum() for row in rows)]
    handles = [
        Patch(
            facecolor=OUTCOME_COLOURS[name],
            edgecolor="white",
            hatch=_HATCHES.get(name),
            label=name if name == "outcome unknown" else f"{name} by {distributions.source}",
        )
        for name in shown
    ]
    figure.legend(handles=handles, loc="outside upper center", ncols=len(handles), fontsize=SMALL)
    figure.supylabel("episodes", fontsize=SMALL)
    return figure


def _panel(axes: Axes, row: VocRow) -> None:
    below = np.zeros(len(EDGES) - 1)
    for outcome, counts in row.counts.items():
        axes.bar(
            100 * EDGES[:-1],
            counts,
            100 * np.diff(EDGES),
            below,
            align="edge",
            facecolor=OUTCOME_COLOURS[outcome],
            edgecolor="white",
            linewidth=0.5,
            hatch=_HATCHES.get(outcome),
        )
        below += counts
    top = float(below.max())
    axes.axvline(0, color=GREY, lw=0.5, ls=(0, (1, 2)), zorder=0)
    e = row.mean
    if np.isfinite(e.lo) and np.isfinite(e.hi):
        axes.plot([100 * e.lo, 100 * e.hi], [1.18 * top] * 2, color=BLACK, lw=1.1, solid_capstyle="butt")
    face = BLACK if np.isfinite(e.lo) else "white"
    axes.plot(
        [100 * e.value], [1.18 * top], "D", color=BLACK, markersize=3, markerfacecolor=face, clip_on=False
    )
    axes.set(xlim=(-100, 100), ylim=(0, 1.36 * top), yticks=[0, int(top)], xticks=[-100, -50, 0, 50, 100])
    # In the corner where curves that follow time leave room.
    text = f"{fit_lines(row.name, 1.5, most=2)}\nn={e.n}"
    axes.text(0.015, 0.95, text, transform=axes.transAxes, va="top", fontsize=SMALL, linespacing=1.2)
