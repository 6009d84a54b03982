"""The plot: differences to plain behaviour cloning with their intervals, over all tasks and by task."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from examples.better_policy.configurations import SHUFFLED
from examples.better_policy.results import ALL, CEILING, Row
from stepscore.report.plots import BLACK, BLUE, GREEN, GREY, ORANGE, paper_style, save_figure

if TYPE_CHECKING:
    from matplotlib.axes import Axes

NAME = "differences"
WIDE_INCHES = 7.1
COLOURS = {"": BLACK, CEILING: GREEN, "sarm": BLUE, "embedded": ORANGE}


def plot_differences(folder: Path, rows: Sequence[Row], tasks: Sequence[str]) -> list[Path]:
    """Write ``differences.svg`` and ``.png``, and return their paths."""
    compared = [row for row in rows if row.to_plain]
    configs = list(dict.fromkeys(row.config for row in compared))
    with paper_style():
        from matplotlib.figure import Figure

        figure = Figure(figsize=(WIDE_INCHES, 0.8 + 0.15 * len(configs)), layout="constrained")
        panels = figure.subplots(
            1, 1 + len(tasks), sharey=True, squeeze=False, width_ratios=[1.7, *[1] * len(tasks)]
        )
        for axes, group in zip(panels[0], (ALL, *tasks), strict=True):
            _panel(axes, [row for row in compared if row.group == group])
            axes.set_title("all tasks" if group == ALL else group)
        panels[0][0].set_yticks(range(len(configs)), [config.name for config in configs])
        panels[0][0].invert_yaxis()
        figure.supxlabel("success, points to plain behaviour cloning, 95 % interval", fontsize="medium")
        return save_figure(figure, folder, NAME, ["svg", "png"])


def _panel(axes: Axes, rows: Sequence[Row]) -> None:
    axes.axvline(0.0, color=GREY, linewidth=0.6)
    axes.grid(visible=True, axis="x")
    for place, row in enumerate(rows):
        difference, colour = row.to_plain["success"], COLOURS[row.config.source]
        if not math.isnan(difference.lo):
            axes.plot([100 * difference.lo, 100 * difference.hi], [place, place], color=colour)
        face = "white" if row.config.form == SHUFFLED else colour
        axes.plot([100 * difference.value], [place], "o", color=colour, markerfacecolor=face)
