"""A contact sheet: frames of one episode in a row, each above its timestamp on the curve."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from stepscore.episodes import Clip, Episode
from stepscore.report.episode_data import EpisodeData
from stepscore.report.plots.episode_lanes import (
    LEFT_INCHES,
    LINE_INCHES,
    draw_lanes,
    lanes_inches,
    outcome,
    right_inches,
)
from stepscore.report.plots.style import (
    BASE,
    COLUMN_INCHES,
    GREY,
    SMALL,
    fit_lines,
    inch_axes,
    inch_text,
    plain,
)

if TYPE_CHECKING:
    from matplotlib.figure import Figure

FRAME_INCHES = 0.52
"""Approximate width of a frame; the sheet holds as many as fit."""

DPI = 300


def sheet_frames(
    episode: EpisodeData, source: Episode, width: float = COLUMN_INCHES, view: str | None = None
) -> Clip:
    """Read the frames of a sheet: of k frames, those at the middle of each k-th part of the episode.

    Each frame is then right above its timestamp if the row of frames is as wide as the time axis.

    Args:
        episode: The episode with its judgements.
        source: The same episode opened in its source, see :func:`stepscore.report.episode_data.source_episode`.
        width: Width of the sheet in inches.
        view: Camera; default: the main view.
    """
    name = view or source.main_view
    info = source.view(name).info()
    axis_inches = width - LEFT_INCHES - right_inches(episode)
    count = max(1, min(info.n_frames, round(axis_inches / FRAME_INCHES)))
    times = (np.arange(count) + 0.5) / count * min(episode.duration_s, info.duration_s)
    # As large as it is printed: a larger image would only make the file larger.
    wide = axis_inches / count * DPI
    longer = round(wide * max(1.0, info.height / info.width))
    return source.clip(name, times=times.tolist(), size=longer)


def draw_sheet(episode: EpisodeData, clip: Clip, width: float = COLUMN_INCHES) -> Figure:
    """Draw the sheet as a figure.

    Args:
        episode: The episode with its judgements.
        clip: Its frames, from :func:`sheet_frames`.
        width: Width of the figure in inches.
    """
    from matplotlib.figure import Figure

    title = fit_lines(episode.row["instruction"], width - 0.1, most=2, points=BASE + 0.7)
    policy = f"{plain(episode.row['policy'])}, " if episode.row["policy"] else ""
    subtitle = fit_lines(f"{episode.id}: {policy}{outcome(episode)}", width - 0.1, most=2)
    frame_step = (width - LEFT_INCHES - right_inches(episode)) / len(clip)
    frame_high = (frame_step - 0.02) * clip.frames.shape[1] / clip.frames.shape[2]
    head = 0.13 * (title.count("\n") + 1) + LINE_INCHES * (subtitle.count("\n") + 1) + 0.08
    height = head + frame_high + 0.16 + lanes_inches(episode, width)
    figure = Figure(figsize=(width, height))
    inch_text(figure, 0.04, 0.03, title, fontweight="bold", linespacing=1.1)
    inch_text(figure, 0.04, 0.05 + 0.13 * (title.count("\n") + 1), subtitle, fontsize=SMALL, color=GREY)
    draw_frames(figure, clip, head, frame_step, frame_high)
    curve, _ = draw_lanes(figure, episode, head + frame_high + 0.14)
    for time in clip.timestamps:
        curve.axvline(time, color=GREY, lw=0.4, ls=(0, (1, 2)), zorder=0)
    return figure


def draw_frames(figure: Figure, clip: Clip, top: float, step: float, high: float) -> None:
    """Draw frames in a row as wide as the time axis, each with its timestamp below.

    Args:
        figure: Where to draw.
        clip: The frames.
        top: Inches from the figure's upper edge.
        step: Width of a frame with its gap, in inches.
        high: Height of a frame, in inches.
    """
    for place, (frame, time) in enumerate(zip(clip.frames, clip.timestamps, strict=True)):
        axes = inch_axes(figure, LEFT_INCHES + place * step + 0.01, top, step - 0.02, high)
        axes.imshow(frame, interpolation="none", aspect="auto")
        axes.set_axis_off()
        axes.set_title(f"{time:.2f} s", y=0, pad=-1.5, va="top", fontsize=SMALL - 1)
