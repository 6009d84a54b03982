"""The leaderboard as dot plots: one panel per metric, one row per policy, each dot with its interval and n."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from stepscore._options import DEFAULT_REVISION
from stepscore.analysis import EpisodeMetrics, episode_groups, scope_text
from stepscore.errors import OptionError
from stepscore.metrics import MetricColumn
from stepscore.report.plots.style import (
    COLUMN_INCHES,
    GREY,
    PALE,
    SMALL,
    fit_lines,
    group_name,
    group_style,
    percent_axis,
)
from stepscore.types import Estimate

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

METRICS = ("success_label", "success_judge", "MC25", "MC50", "MC75", "MC100", "MP", "PPL", "CRA", "STR")
METRIC_TITLES = {"success_label": "success\nby label", "success_judge": "success\nby judge"}
MIN_PANEL_INCHES = 0.53
"""Width of a panel at which its title, its ticks and an interval of ten points are still legible."""


class LeaderboardRow(NamedTuple):
    """One group.

    Attributes:
        name: Its name, for example the policy.
        number: Index that decides its style in every figure.
        n: Number of its episodes.
        estimates: One for every column.
        section: The judge under which it stands, where there are several; else empty.
    """

    name: str
    number: int
    n: int
    estimates: tuple[Estimate, ...]
    section: str = ""


@dataclass(frozen=True)
class Leaderboard:
    """Groups by metric.

    Attributes:
        columns: The metrics that have a known value.
        rows: One per group, by section, sorted by the first metric: best first, unknown last.
        success_name: How success by judge is called, by the rules that gave it.
        revision: The OPD revision.
        scope: What the intervals speak of where scenes are fixed: ``"on these 4 scenes"``; else empty.
    """

    columns: tuple[MetricColumn, ...]
    rows: tuple[LeaderboardRow, ...]
    success_name: str = "success by judge"
    revision: str = DEFAULT_REVISION
    scope: str = ""


def leaderboard(
    metrics: EpisodeMetrics,
    by: Sequence[str],
    names: Sequence[str] | None = None,
    *,
    apart: Sequence[str] = (),
) -> Leaderboard:
    """Return the leaderboard of some episodes, with the Estimates of :mod:`stepscore.analysis`.

    Args:
        metrics: The metrics of every episode.
        by: How episodes are grouped, see :func:`stepscore.analysis.measure`.
        names: Names of the metrics; default: the success rates and the OPD metrics.
        apart: What has a section of its own: the judge, where there are several. A group looks the same in all.
    """
    wanted = [metrics.column(name) for name in (METRICS if names is None else names)]
    columns = tuple(c for c in wanted if np.any(~np.isnan(metrics.values[c.name])))
    if not columns:
        raise OptionError(f"No episode of these runs has a value for {', '.join(c.name for c in wanted)}.")
    numbers = {tuple(group.values()): number for number, (group, _) in enumerate(episode_groups(metrics, by))}
    rows = []
    for group, chosen in episode_groups(metrics, (*by, *apart)):
        own = {key: group[key] for key in by}
        rows.append(
            LeaderboardRow(
                group_name(own),
                numbers[tuple(own.values())],
                int(chosen.sum()),
                tuple(metrics.estimate(c.name, chosen) for c in columns),
                group_name({key: group[key] for key in apart}) if apart else "",
            )
        )

    def place(row: LeaderboardRow) -> tuple[str, bool, float, int]:
        value = row.estimates[0].value
        return row.section, math.isnan(value), value if columns[0].better == "lower" else -value, row.number

    scope = scope_text(metrics.fixed_scenes(chosen) for _, chosen in episode_groups(metrics, (*by, *apart)))
    ordered = tuple(sorted(rows, key=place))
    return Leaderboard(columns, ordered, metrics.success_name, metrics.revision, scope)


def draw_leaderboard(board: Leaderboard, width: float = COLUMN_INCHES) -> Figure:
    """Draw the leaderboard as a figure of this width in inches."""
    from matplotlib.figure import Figure

    lines = _lines(board.rows)
    texts = [f"{line.name} ({line.n})" if isinstance(line, LeaderboardRow) else line for line in lines]
    label_inches = min(0.3 * width, 0.055 * max(map(len, texts)))
    names = [fit_lines(text, label_inches, most=2) for text in texts]
    across = max(1, int((width - label_inches) / MIN_PANEL_INCHES))
    down = math.ceil(len(board.columns) / across)
    across = math.ceil(len(board.columns) / down)
    row_inches = 0.23 if any("\n" in name for name in names) else 0.16
    height = down * (0.46 + row_inches * len(lines)) + 0.16
    figure = Figure(figsize=(width, height), layout="constrained")
    panels = figure.subplots(down, across, squeeze=False, sharey=True)
    for axes in panels[:, 0]:
        axes.set_yticks(range(len(names)), names)
        for line, label in zip(lines, axes.get_yticklabels(), strict=True):
            if isinstance(line, str):
                label.set_fontweight("bold")
    for number, axes in enumerate(panels.flat):
        if number < len(board.columns):
            _panel(axes, board.columns[number], lines, number)
        else:
            axes.set_axis_off()
    panels[0, 0].set_ylim(len(names) - 0.5, -0.5)
    text = f"OPD {board.revision}; percent, with 95 % interval; in brackets: episodes"
    if any(column.name == "success_judge" for column in board.columns) and "," in board.success_name:
        text += f"; {board.success_name}"
    text += f"; {board.scope}" if board.scope else ""
    figure.supxlabel(fit_lines(text, width - 0.2, most=3), fontsize=SMALL, color=GREY)
    return figure


def _lines(rows: Sequence[LeaderboardRow]) -> list[LeaderboardRow | str]:
    """Return the rows from top to bottom, with the name of a section before its first."""
    lines: list[LeaderboardRow | str] = []
    section = ""
    for row in rows:
        if row.section != section:
            section = row.section
            lines.append(f"by {section}")
        lines.append(row)
    return lines


def _panel(axes: Axes, column: MetricColumn, lines: Sequence[LeaderboardRow | str], number: int) -> None:
    rows = [(y, line) for y, line in enumerate(lines) if isinstance(line, LeaderboardRow)]
    estimates = [row.estimates[number] for _, row in rows]
    arrow = {"higher": " ↑", "lower": " ↓", "neither": ""}[column.better]
    axes.set_title(METRIC_TITLES.get(column.name, column.name) + arrow, fontsize=SMALL)
    bare_rows(axes)
    axes.hlines(
        [y for y, _ in rows], 0, 1, transform=axes.get_yaxis_transform(), color=PALE, lw=0.4, zorder=0
    )
    percent_axis(axes, "x", *_limits(column, estimates))
    for (y, row), e in zip(rows, estimates, strict=True):
        draw_estimate(axes, e, y, row.number)
        if 0 < e.n != row.n:
            _note(axes, f"n={e.n}", 1.0, y - 0.34, "right")


def bare_rows(axes: Axes) -> None:
    """Remove the axis line and the ticks on the left: the names alone mark the rows."""
    axes.tick_params(axis="y", length=0)
    axes.spines["left"].set_visible(False)


def draw_estimate(axes: Axes, e: Estimate, y: float, number: int) -> None:
    """Draw one dot in percent with its interval, in the style of the group with this number.

    The dot is hollow if the sample was too small for an interval; "unknown" is written if there is no value.
    """
    if math.isnan(e.value):
        _note(axes, "unknown", 0.04, y, "left")
        return
    style = group_style(number)
    known = math.isfinite(e.lo) and math.isfinite(e.hi)
    if known:
        axes.plot([100 * e.lo, 100 * e.hi], [y, y], "-", color=style.colour, solid_capstyle="butt", lw=1.1)
    axes.plot(
        [100 * e.value],
        [y],
        style.marker,
        color=style.colour,
        markerfacecolor=style.colour if known else "white",
        markeredgewidth=0.7,
        clip_on=False,
    )


def _note(axes: Axes, text: str, x: float, y: float, side: str) -> None:
    """Write small grey text at a share of the panel's width and the height of a row."""
    style: dict[str, Any] = {"fontsize": SMALL - 1, "color": GREY, "ha": side, "va": "center"}
    axes.text(x, y, text, transform=axes.get_yaxis_transform(), **style)


def _limits(column: MetricColumn, estimates: Sequence[Estimate]) -> tuple[float, float]:
    """Return 0 to 100; less if lower is better and all values are low, more if a metric leaves 0 to 100."""
    ends = np.array([v for e in estimates for v in (e.value, e.lo, e.hi) if math.isfinite(v)]) * 100
    low, high = (float(ends.min()), float(ends.max())) if len(ends) else (0.0, 100.0)
    if low < 0 or high > 100:
        return min(0.0, 25 * math.floor(low / 25)), max(100.0, 25 * math.ceil(high / 25))
    if column.better != "lower":
        return 0.0, 100.0
    return 0.0, next(float(top) for top in (5, 10, 20, 50, 100) if high <= top)
