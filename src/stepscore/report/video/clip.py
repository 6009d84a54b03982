"""A clip for a slide: an episode's video beside its curve, with policy, task and verdict in the frame."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from stepscore.episodes import Episode, View
from stepscore.report.episode_data import EpisodeData
from stepscore.report.plots.episode_lanes import outcome
from stepscore.report.plots.style import (
    BASE,
    GREY,
    PALE,
    SMALL,
    fit_lines,
    group_style,
    inch_axes,
    inch_text,
    paper_style,
    percent_axis,
    plain,
)
from stepscore.report.video.gif import write_gif
from stepscore.report.video.h264 import stream_frames, write_h264
from stepscore.report.video.overlay import (
    OverlayPanel,
    made_panel,
    panel_at,
    readout,
    render,
    text_font,
    write_text,
)
from stepscore.types import FloatArray, Frames

if TYPE_CHECKING:
    from matplotlib.axes import Axes

WIDTH, HEIGHT, VIDEO_WIDTH, DPI = 1280, 720, 720, 220
LEFT_INCHES, RIGHT_INCHES, BELOW_INCHES = 0.36, 0.14, 0.24
CLIP_FORMATS = ("mp4", "gif")


def write_clip(
    folder: Path,
    name: str,
    episode: EpisodeData,
    source: Episode,
    *,
    span: tuple[float, float],
    happened: str = "",
    view: str | None = None,
    formats: Sequence[str] = ("mp4",),
) -> list[Path]:
    """Write the clip as ``folder/name.FORMAT`` and return the paths.

    Args:
        folder: Where to write.
        name: File name without its suffix.
        episode: The episode with its judgements.
        source: The same episode opened in its source.
        span: First and last second.
        happened: What happened in the episode, as its failure mode names it.
        view: Camera; default: the main view.
        formats: ``mp4``, ``gif`` or both.
    """
    chosen = source.view(view or source.main_view)
    times, info = chosen.timestamps(), chosen.info()
    inside = np.flatnonzero((times >= span[0] - 1e-6) & (times <= span[1] + 1e-6))
    if not len(inside):
        inside = np.array([int(np.searchsorted(times, span[0], side="right")) - 1])
    panel = draw_clip_panel(episode, span, happened)
    paths = []
    for kind in formats:
        path = folder / f"{name}.{kind}"
        if kind == "gif":
            write_gif(path, lambda places: clip_frames(episode, chosen, panel, places), inside, times)
        else:
            frames = clip_frames(episode, chosen, panel, inside.tolist())
            after = inside[-1] + 1
            end = float(times[after]) if after < len(times) else info.duration_s
            first = float(times[inside[0]])
            write_h264(path, frames, times[inside] - first, duration_s=end - first, fps=info.fps)
        paths.append(path)
    return paths


def clip_frames(
    episode: EpisodeData, view: View, panel: OverlayPanel, places: Sequence[int]
) -> Iterator[Frames]:
    """Yield frames of the view beside the panel at their timestamps, shape (720, 1280, 3)."""
    info, times = view.info(), view.timestamps()
    scale = min(VIDEO_WIDTH / info.width, HEIGHT / info.height)
    font = text_font(SMALL / 72 * DPI)
    image = np.full((HEIGHT, WIDTH, 3), 255, np.uint8)
    longer = max(1, int(max(info.width, info.height) * scale + 1e-6))
    for place, frame in zip(places, stream_frames(view, longer, places), strict=True):
        high, wide = frame.shape[:2]
        top, left = (HEIGHT - high) // 2, (VIDEO_WIDTH - wide) // 2
        image[top : top + high, left : left + wide] = frame
        time = float(times[place])
        drawing = panel_at(panel, time, done=False)
        write_text(drawing, panel.readout, readout(episode, time), font)
        image[:, VIDEO_WIDTH:] = drawing
        yield image.copy()


def draw_clip_panel(episode: EpisodeData, span: tuple[float, float], happened: str = "") -> OverlayPanel:
    """Draw the panel beside the video: its curve pale, and complete."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    width, height = (WIDTH - VIDEO_WIDTH) / DPI, HEIGHT / DPI
    with paper_style():
        figure = Figure(figsize=(width, height), dpi=DPI)
        canvas = FigureCanvasAgg(figure)
        title = fit_lines(episode.row["instruction"], width - 0.16, most=3, points=BASE + 2)
        inch_text(figure, 0.08, 0.1, title, fontweight="bold", fontsize=BASE + 1, linespacing=1.15)
        top = 0.16 + 0.15 * (title.count("\n") + 1)
        policy = f"policy: {plain(episode.row['policy'])}" if episode.row["policy"] else ""
        for text, colour in ((policy, "black"), (happened, "black"), (outcome(episode), GREY)):
            if text:
                lines = fit_lines(text, width - 0.16, most=2)
                inch_text(figure, 0.08, top, lines, fontsize=SMALL, color=colour, linespacing=1.2)
                top += 0.05 + 0.11 * (lines.count("\n") + 1)
        row = top + 0.08
        top = row + 0.2
        inside = (LEFT_INCHES, top, width - LEFT_INCHES - RIGHT_INCHES, height - top - BELOW_INCHES)
        axes = inch_axes(figure, *inside)
        _draw_curves(axes, episode, span, inside[2])
        after = render(canvas)
        for line in axes.lines:
            line.set_alpha(0.25)
        before = render(canvas)
        return made_panel(before, after, axes, episode.duration_s, (round(row * DPI), round(0.08 * DPI)))


def _draw_curves(axes: Axes, episode: EpisodeData, span: tuple[float, float], inches: float) -> None:
    axes.set_xlim(0, episode.duration_s)
    axes.locator_params(axis="x", nbins=max(3, int(inches / 0.45)))
    axes.xaxis.set_major_formatter("{x:g} s")
    percent_axis(axes, "y")
    axes.set_ylabel("progress (%)", fontsize=SMALL, labelpad=1.0)
    if span != (0.0, episode.duration_s):
        axes.axvspan(*span, color=PALE, alpha=0.4, lw=0, zorder=0)
    for number, judgement in enumerate(episode.judgements):
        if len(judgement.times):
            style = group_style(number)
            dots = {"marker": ".", "markersize": 4} if len(judgement.times) <= 64 else {}
            values: FloatArray = 100 * judgement.progress
            axes.plot(judgement.times, values, color=style.colour, ls=style.dashes, lw=1.6, **dots)  # type: ignore[arg-type]
