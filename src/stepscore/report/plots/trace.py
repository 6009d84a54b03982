"""One episode as papers show it: frames in a strip, below them the judged curve with labelled progress and stages."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from stepscore.analysis.findings import worst_time
from stepscore.episodes import Clip
from stepscore.report.episode_data import TRUTH_NAMES, EpisodeData
from stepscore.report.plots.contact_sheet import draw_frames
from stepscore.report.plots.episode_lanes import LEFT_INCHES, outcome, stage_numbers
from stepscore.report.plots.style import (
    BASE,
    BLACK,
    COLUMN_INCHES,
    GREY,
    RED,
    SMALL,
    fit_lines,
    group_style,
    inch_axes,
    inch_text,
    percent_axis,
    plain,
)
from stepscore.types import FloatArray

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from matplotlib.lines import Line2D

CURVE_INCHES, BAND_INCHES, RIGHT_INCHES = 1.15, 0.13, 0.17
TRUTH_POINTS = 400
"""Points at which labelled progress is drawn."""
LETTER_INCHES, TEXT_HEIGHT = 0.05, 9.0
"""Width of a letter of a note; half the height that it needs, in percent of progress."""
_BANDS = ("#F1F1F1", "#DDDDDD")


def draw_trace(episode: EpisodeData, clip: Clip, width: float = COLUMN_INCHES) -> Figure:
    """Draw the figure.

    Args:
        episode: The episode with its judgements.
        clip: Its frames, from :func:`stepscore.report.plots.contact_sheet.sheet_frames`.
        width: Width of the figure in inches.
    """
    from matplotlib.figure import Figure

    axis_inches = width - LEFT_INCHES - RIGHT_INCHES
    title = fit_lines(episode.row["instruction"], width - 0.1, most=1, points=BASE + 0.7)
    policy = f"{plain(episode.row['policy'])}: " if episode.row["policy"] else ""
    subtitle = fit_lines(f"{policy}{outcome(episode)}; {episode.id}", width - 0.1, most=2)
    step = axis_inches / len(clip)
    frame_high = (step - 0.02) * clip.frames.shape[1] / clip.frames.shape[2]
    head = 0.2 + 0.1 * (subtitle.count("\n") + 1) + 0.04
    key = _stage_key(episode, axis_inches)
    below = 0.2 + (0.1 * (key.count("\n") + 1) + 0.05 if key else 0.0) + 0.14
    bands = BAND_INCHES if episode.row["stages"] else 0.0
    figure = Figure(figsize=(width, head + frame_high + 0.16 + bands + CURVE_INCHES + below))
    inch_text(figure, 0.04, 0.03, title, fontweight="bold")
    inch_text(figure, 0.04, 0.18, subtitle, fontsize=SMALL, color=GREY, linespacing=1.15)
    draw_frames(figure, clip, head, step, frame_high)
    top = head + frame_high + 0.16
    if bands:
        _draw_stages(inch_axes(figure, LEFT_INCHES, top, axis_inches, bands), episode, axis_inches)
        top += bands
    axes = inch_axes(figure, LEFT_INCHES, top, axis_inches, CURVE_INCHES)
    _draw_curves(axes, episode, axis_inches)
    for time in clip.timestamps:
        axes.axvline(time, color=GREY, lw=0.4, ls=(0, (1, 2)), zorder=1)
    top += CURVE_INCHES + 0.2
    if key:
        inch_text(figure, LEFT_INCHES, top, key, fontsize=SMALL, color=GREY, linespacing=1.15)
        top += 0.1 * (key.count("\n") + 1) + 0.05
    _draw_key(figure, axes, top)
    return figure


def _draw_curves(axes: Axes, episode: EpisodeData, inches: float) -> None:
    axes.set_xlim(0, episode.duration_s)
    axes.locator_params(axis="x", nbins=max(3, int(inches / 0.4)))
    axes.xaxis.set_major_formatter("{x:g} s")
    percent_axis(axes, "y")
    axes.set_ylabel("progress (%)", fontsize=SMALL, labelpad=1.0)
    for place, stage in enumerate(episode.row["stages"]):
        axes.axvspan(stage["start_s"], stage["end_s"], color=_BANDS[place % 2], lw=0, zorder=0)
    truth = episode.row["truth"]
    if truth.source is not None:
        times = np.linspace(0.0, episode.duration_s, TRUTH_POINTS)
        name = TRUTH_NAMES[truth.source]
        axes.plot(times, 100 * truth.at(times), color=BLACK, lw=1.0, ls=(0, (3, 1.5)), label=name, zorder=3)
    for number, judgement in enumerate(episode.judgements):
        if len(judgement.times):
            style = group_style(number)
            dots: dict[str, Any] = {"marker": style.marker, "markersize": 2.6}
            axes.plot(
                judgement.times,
                100 * judgement.progress,
                color=style.colour,
                lw=1.3,
                label=plain(judgement.judge),
                zorder=4,
                clip_on=False,
                **(dots if len(judgement.times) <= 64 else {}),
            )
    _mark_worst(axes, episode, inches)


def _mark_worst(axes: Axes, episode: EpisodeData, inches: float) -> None:
    """Mark where a failure goes wrong, by the first judge's curve."""
    curves = [judgement for judgement in episode.judgements if len(judgement.times)]
    worst = worst_time(curves[0].times, curves[0].progress) if episode.failed and curves else None
    if worst is None:
        return
    axes.axvline(worst.time_s, color=RED, lw=0.9, zorder=2)
    right, height = _free_place(
        axes, worst.time_s, LETTER_INCHES * len(worst.text) / inches * episode.duration_s
    )
    axes.annotate(
        worst.text,
        (worst.time_s, height),
        xytext=(3 if right else -3, 0),
        textcoords="offset points",
        ha="left" if right else "right",
        va="center",
        fontsize=SMALL,
        color=RED,
        zorder=5,
    )


def _free_place(axes: Axes, time: float, seconds: float) -> tuple[bool, float]:
    """Return where a text beside a time hides the least of the curves: right of it or left, and at what height."""
    least, most = axes.get_xlim()
    crowded: dict[tuple[bool, float], int] = {}
    for right in (True, False):
        start, end = (time, time + seconds) if right else (time - seconds, time)
        at = np.linspace(start, end, 50)
        for height in (92.0, 75.0, 58.0, 42.0, 25.0, 8.0):
            curves = [points for points in map(_points, axes.lines) if len(points[0]) > 2]
            near = [np.abs(np.interp(at, *points) - height) < TEXT_HEIGHT for points in curves]
            outside = 1000 if start < least or end > most else 0
            crowded[right, height] = outside + sum(int(hidden.sum()) for hidden in near)
    return min(crowded, key=lambda place: crowded[place])


def _points(line: Line2D) -> tuple[FloatArray, FloatArray]:
    times, values = (np.asarray(data, dtype=np.float64) for data in line.get_data())
    known = ~np.isnan(values)
    return times[known], values[known]


def _fits(name: str, share: float, inches: float) -> bool:
    return LETTER_INCHES * len(name) + 0.04 < share * inches


def _draw_stages(axes: Axes, episode: EpisodeData, inches: float) -> None:
    """Draw the stages as a row, each with its name where all fit, else with its number."""
    axes.set(xlim=(0, episode.duration_s), ylim=(0, 1))
    axes.set_axis_off()
    numbered = bool(_stage_key(episode, inches))
    numbers = stage_numbers(episode)
    for place, stage in enumerate(episode.row["stages"]):
        start, end = stage["start_s"], stage["end_s"]
        axes.axvspan(start, end, facecolor=_BANDS[place % 2], edgecolor="white", lw=0.5)
        text = str(numbers[stage["name"]]) if numbered else plain(stage["name"])
        if _fits(text, (end - start) / episode.duration_s, inches):
            style: dict[str, Any] = {"ha": "center", "va": "center", "fontsize": SMALL, "clip_on": True}
            axes.text((start + end) / 2, 0.45, text, **style)


def _stage_key(episode: EpisodeData, inches: float) -> str:
    """Return the legend of the stage numbers; empty where every name fits into its stage."""
    stages = episode.row["stages"]
    shares = [(plain(s["name"]), (s["end_s"] - s["start_s"]) / episode.duration_s) for s in stages]
    if all(_fits(name, share, inches) for name, share in shares):
        return ""
    named = " · ".join(f"{number} {plain(name)}" for name, number in stage_numbers(episode).items())
    return fit_lines(f"stages: {named}", inches, most=4)


def _draw_key(figure: Figure, axes: Axes, top: float) -> None:
    handles, labels = axes.get_legend_handles_labels()
    wide, high = figure.get_size_inches()
    figure.legend(
        handles,
        labels,
        loc="upper left",
        bbox_to_anchor=(LEFT_INCHES / wide, 1 - top / high),
        ncols=max(1, len(handles)),
        fontsize=SMALL,
        borderpad=0,
        borderaxespad=0,
        columnspacing=1.2,
    )
