"""The leaderboard as dot plots: a panel a metric, a row a policy, each dot with its interval and n."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from stepscore.analysis import Measures, groups
from stepscore.errors import OptionError
from stepscore.metrics import Column
from stepscore.report.plots.style import COLUMN_INCHES, GREY, SMALL, fit_lines, group_name, look, percent_axis
from stepscore.types import Estimate

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

METRICS = ("success_label", "success_judge", "MC25", "MC50", "MC75", "MC100", "MP", "PPL", "CRA", "STR")
_TITLES = {"success_label": "success\nby label", "success_judge": "success\nby judge"}
PANEL_INCHES = 0.53
"""Least width of a panel: its title and ticks can still be read, and an interval of ten points be seen."""


class BoardRow(NamedTuple):
    """One group: its name, its look in every figure, its episodes, and an Estimate for every metric."""

    name: str
    number: int
    n: int
    estimates: tuple[Estimate, ...]


@dataclass(frozen=True)
class Board:
    """What the leaderboard shows.

    Attributes:
        columns: The metrics that something is known of.
        rows: One a group; the best in the first metric comes first, and unknown last.
    """

    columns: tuple[Column, ...]
    rows: tuple[BoardRow, ...]


def board(measures: Measures, by: Sequence[str], names: Sequence[str] | None = None) -> Board:
    """The Estimates of the leaderboard, from :mod:`stepscore.analysis.measures`.

    Args:
        measures: Every episode's numbers.
        by: How episodes are grouped, see :func:`stepscore.analysis.measures.measure`.
        names: Which metrics; without them the success rates and those of OPD.
    """
    wanted = [measures.column(name) for name in (METRICS if names is None else names)]
    columns = tuple(c for c in wanted if np.any(~np.isnan(measures.values[c.name])))
    if not columns:
        raise OptionError(f"Nothing is known of {', '.join(c.name for c in wanted)} in these runs.")
    rows = [
        BoardRow(
            group_name(group),
            number,
            int(chosen.sum()),
            tuple(measures.estimate(c.name, chosen) for c in columns),
        )
        for number, (group, chosen) in enumerate(groups(measures, by))
    ]

    def place(row: BoardRow) -> tuple[bool, float, int]:
        value = row.estimates[0].value
        return math.isnan(value), value if columns[0].better == "lower" else -value, row.number

    return Board(columns, tuple(sorted(rows, key=place)))


def draw_leaderboard(shown: Board, width: float = COLUMN_INCHES) -> Figure:
    """The board as a figure of this width in inches."""
    from matplotlib.figure import Figure

    label_inches = min(0.3 * width, 0.055 * max(len(f"{row.name} ({row.n})") for row in shown.rows))
    names = [fit_lines(f"{row.name} ({row.n})", label_inches, most=2) for row in shown.rows]
    across = max(1, int((width - label_inches) / PANEL_INCHES))
    down = math.ceil(len(shown.columns) / across)
    across = math.ceil(len(shown.columns) / down)
    row_inches = 0.23 if any("\n" in name for name in names) else 0.16
    height = down * (0.46 + row_inches * len(shown.rows)) + 0.16
    figure = Figure(figsize=(width, height), layout="constrained")
    panels = figure.subplots(down, across, squeeze=False, sharey=True)
    for axes in panels[:, 0]:
        axes.set_yticks(range(len(names)), names)
    for number, axes in enumerate(panels.flat):
        if number < len(shown.columns):
            _panel(axes, shown.columns[number], shown.rows, [row.estimates[number] for row in shown.rows])
        else:
            axes.set_axis_off()
    panels[0, 0].set_ylim(len(names) - 0.5, -0.5)
    figure.supxlabel("percent, with 95 % interval; in brackets: episodes", fontsize=SMALL, color=GREY)
    return figure


def _panel(axes: Axes, column: Column, rows: Sequence[BoardRow], estimates: Sequence[Estimate]) -> None:
    arrow = {"higher": " ↑", "lower": " ↓", "neither": ""}[column.better]
    axes.set_title(_TITLES.get(column.name, column.name) + arrow, fontsize=SMALL)
    bare_rows(axes)
    axes.grid(visible=True, axis="y")
    percent_axis(axes, "x", *_limits(column, estimates))
    for y, (row, e) in enumerate(zip(rows, estimates, strict=True)):
        draw_estimate(axes, e, y, row.number)
        if 0 < e.n != row.n:
            _note(axes, f"n={e.n}", 1.0, y - 0.34, "right")


def bare_rows(axes: Axes) -> None:
    """Rows are told by their names: no line and no ticks on the left."""
    axes.tick_params(axis="y", length=0)
    axes.spines["left"].set_visible(False)


def draw_estimate(axes: Axes, e: Estimate, y: float, number: int) -> None:
    """One dot in percent with its interval, in the look of the group with this number.

    Hollow where the sample was too small for an interval; the word "unknown" where there is no value.
    """
    if math.isnan(e.value):
        _note(axes, "unknown", 0.04, y, "left")
        return
    group = look(number)
    known = math.isfinite(e.lo) and math.isfinite(e.hi)
    if known:
        axes.plot([100 * e.lo, 100 * e.hi], [y, y], "-", color=group.colour, solid_capstyle="butt", lw=1.1)
    axes.plot(
        [100 * e.value],
        [y],
        group.marker,
        color=group.colour,
        markerfacecolor=group.colour if known else "white",
        markeredgewidth=0.7,
        clip_on=False,
    )


def _note(axes: Axes, text: str, x: float, y: float, side: str) -> None:
    """Small grey words at a share of the panel's width and the height of a row."""
    style: dict[str, Any] = {"fontsize": SMALL - 1, "color": GREY, "ha": side, "va": "center"}
    axes.text(x, y, text, transform=axes.get_yaxis_transform(), **style)


def _limits(column: Column, estimates: Sequence[Estimate]) -> tuple[float, float]:
    """0 to 100; less where low is good and all of it is low, more where a metric leaves 0 to 100."""
    ends = np.array([v for e in estimates for v in (e.value, e.lo, e.hi) if math.isfinite(v)]) * 100
    low, high = (float(ends.min()), float(ends.max())) if len(ends) else (0.0, 100.0)
    if low < 0 or high > 100:
        return min(0.0, 25 * math.floor(low / 25)), max(100.0, 25 * math.ceil(high / 25))
    if column.better != "lower":
        return 0.0, 100.0
    return 0.0, next(float(top) for top in (5, 10, 20, 50, 100) if high <= top)
