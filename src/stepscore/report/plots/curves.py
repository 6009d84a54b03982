"""Curves of many episodes with their median band: one row per policy, one column per outcome."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from stepscore.analysis import EpisodeMetrics, episode_groups
from stepscore.errors import OptionError
from stepscore.report.episode_data import duration_of
from stepscore.report.plots.curve_bands import Band, Points, median_band
from stepscore.report.plots.style import (
    BLUE,
    COLUMN_INCHES,
    GREY,
    RED,
    SMALL,
    fit_lines,
    group_name,
    percent_axis,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

MAX_CURVES = 100
"""Single curves drawn in a panel, evenly chosen from all; the band is always over all of them."""

MIN_CURVES_FOR_BAND = 3
"""Fewer curves are drawn without a median band."""

OUTCOME_COLOURS = {"success": BLUE, "failure": RED, "outcome unknown": GREY}


class CurvePanel(NamedTuple):
    """The curves of one group and outcome; their times are shares of the episode's duration."""

    curves: tuple[Points, ...]
    band: Band


@dataclass(frozen=True)
class CurveGrid:
    """The curves of all groups and outcomes.

    Attributes:
        source: Source of the outcome: ``"label"`` if any episode has one, else ``"judge"``.
        groups: Names of the rows.
        outcomes: Names of the columns.
        panels: (row, column) to curves; a pair without episodes is absent.
    """

    source: str
    groups: tuple[str, ...]
    outcomes: tuple[str, ...]
    panels: dict[tuple[int, int], CurvePanel]


def curve_grid(metrics: EpisodeMetrics, by: Sequence[str]) -> CurveGrid:
    """Group the episodes that have a curve by group and outcome."""
    source, masks = outcome_masks(metrics)
    has_curve = np.array([len(times) > 0 for times, _ in metrics.curves], dtype=bool)
    outcomes = tuple(outcome for outcome, mask in masks.items() if np.any(mask & has_curve))
    if not outcomes:
        raise OptionError("No episode of these runs has a curve to draw.")
    rows = [
        (group_name(g), chosen) for g, chosen in episode_groups(metrics, by) if np.any(chosen & has_curve)
    ]
    panels = {}
    for row, (_, chosen) in enumerate(rows):
        for column, outcome in enumerate(outcomes):
            members = np.flatnonzero(chosen & masks[outcome] & has_curve).tolist()
            if members:
                panels[row, column] = _panel_of(metrics, members)
    return CurveGrid(source, tuple(name for name, _ in rows), outcomes, panels)


def outcome_masks(metrics: EpisodeMetrics) -> tuple[str, dict[str, np.ndarray[Any, Any]]]:
    """Return where outcomes are from, label or judge, and which episodes have each of them."""
    source = "label" if np.any(~np.isnan(metrics.values["success_label"])) else "judge"
    success = metrics.values[f"success_{source}"]
    return source, {
        "success": success == 1,
        "failure": success == 0,
        "outcome unknown": np.isnan(success),
    }


def _panel_of(metrics: EpisodeMetrics, members: Sequence[int]) -> CurvePanel:
    curves = [metrics.curves[i] for i in members]
    durations = [
        duration_of(metrics.episodes[i]["duration_s"], times)
        for i, (times, _) in zip(members, curves, strict=True)
    ]
    shares = tuple((t / d if d > 0 else t, v) for (t, v), d in zip(curves, durations, strict=True))
    return CurvePanel(shares, median_band(curves, durations))


def draw_curves(grid: CurveGrid, width: float = COLUMN_INCHES) -> Figure:
    """Draw the grid as a figure of this width in inches."""
    from matplotlib.figure import Figure

    height = 0.5 + 0.72 * len(grid.groups)
    figure = Figure(figsize=(width, height), layout="constrained")
    shape = (len(grid.groups), len(grid.outcomes))
    panels = figure.subplots(*shape, squeeze=False, sharex=True, sharey=True)
    for row, name in enumerate(grid.groups):
        panels[row, 0].set_ylabel(fit_lines(name, 0.7, most=2), fontsize=SMALL)
        for column, outcome in enumerate(grid.outcomes):
            axes = panels[row, column]
            _panel(axes, grid.panels.get((row, column)), OUTCOME_COLOURS[outcome])
            if row == 0:
                axes.set_title(outcome if outcome == "outcome unknown" else f"{outcome} by {grid.source}")
    for axes in panels.flat:
        percent_axis(axes, "x")
        percent_axis(axes, "y")
    figure.supxlabel("percent of the episode's time", fontsize=SMALL)
    figure.supylabel("progress (%)", fontsize=SMALL)
    return figure


def _panel(axes: Axes, panel: CurvePanel | None, colour: str) -> None:
    if panel is None:
        axes.text(
            0.5, 0.5, "none", transform=axes.transAxes, ha="center", va="center", color=GREY, fontsize=SMALL
        )
        return
    n = len(panel.curves)
    drawn = np.unique(np.linspace(0, n - 1, min(n, MAX_CURVES)).round().astype(int))
    line_style = {"color": colour, "lw": 0.4, "alpha": max(0.2, 0.8 / len(drawn) ** 0.4)}
    for index in drawn:
        times, values = panel.curves[index]
        axes.plot(100 * times, 100 * values, **line_style)
    if n >= MIN_CURVES_FOR_BAND:
        band = panel.band
        at = 100 * band.at
        axes.fill_between(at, 100 * band.low, 100 * band.high, color=colour, alpha=0.22, lw=0)
        axes.plot(at, 100 * band.median, color=colour, lw=1.2, label="median")
    note = f"n={n}" if len(drawn) == n else f"n={n}, {len(drawn)} drawn"
    axes.text(0.03, 0.97, note, transform=axes.transAxes, ha="left", va="top", fontsize=SMALL, color=GREY)
