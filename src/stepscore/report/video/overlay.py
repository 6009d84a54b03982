"""Video of an episode with the progress curve drawn underneath as time passes.

The panel under the frames is drawn twice: once empty, and once with the complete curve. Each output frame
combines the complete panel up to the frame's timestamp with the empty panel after that. A frame therefore
costs a copy instead of a plot, and memory does not grow with the length of the video.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from stepscore.episodes import TIME_TOLERANCE_S, Episode, View
from stepscore.report.episode_data import EpisodeData
from stepscore.report.plots.episode_lanes import draw_lanes, lanes_inches
from stepscore.report.plots.style import BASE, GREY, SMALL, fit_lines, inch_text, paper_style, plain
from stepscore.report.video.h264 import stream_frames, write_h264
from stepscore.types import FloatArray, Frames

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from PIL.ImageFont import FreeTypeFont

WIDTH, DPI = 640, 160


class OverlayPanel(NamedTuple):
    """The drawing under the frames.

    Attributes:
        before: The drawing without the curve and other time-dependent parts, shape (h, w, 3).
        after: The complete drawing, same shape.
        start_x: Pixel column of second 0.
        second_x: Number of pixel columns per second.
        rows: First and last pixel row of the cursor, which spans the curve but no text.
        readout: Pixel row and column at which the timestamp and the progress are written.
    """

    before: Frames
    after: Frames
    start_x: float
    second_x: float
    rows: tuple[int, int]
    readout: tuple[int, int]


def write_overlay(path: Path, episode: EpisodeData, source: Episode, view: str | None = None) -> Path:
    """Write the video as H.264 in mp4: one frame for each frame of the view, at the same timestamps.

    Args:
        path: Output file; an existing one is replaced once the new one is complete.
        episode: The episode with its judgements.
        source: The same episode opened in its source.
        view: Camera; default: the main view.
    """
    chosen = source.view(view or source.main_view)
    info = chosen.info()
    frames = overlay_frames(episode, chosen)
    return write_h264(path, frames, chosen.timestamps(), duration_s=info.duration_s, fps=info.fps)


def overlay_frames(episode: EpisodeData, view: View) -> Iterator[Frames]:
    """Yield every frame of the view above the panel at its timestamp; shape (h, w, 3), sides even."""
    panel = draw_panel(episode)
    info = view.info()
    scale = min(WIDTH / info.width, WIDTH / info.height)
    high = round(info.height * scale)
    left = (WIDTH - round(info.width * scale)) // 2
    total = high + len(panel.before)
    image = np.full((total + total % 2, WIDTH, 3), 255, np.uint8)
    font = text_font(SMALL / 72 * DPI)
    times = view.timestamps()
    for number, frame in enumerate(stream_frames(view, round(max(info.width, info.height) * scale))):
        image[: frame.shape[0], left : left + frame.shape[1]] = frame
        drawing = panel_at(panel, float(times[number]), done=number == len(times) - 1)
        write_text(drawing, panel.readout, readout(episode, float(times[number])), font)
        image[high:total] = drawing
        yield image.copy()


def draw_panel(episode: EpisodeData) -> OverlayPanel:
    """Draw the panel under the frames, without and with its time-dependent parts."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    width = WIDTH / DPI
    with paper_style():
        title = fit_lines(episode.row["instruction"], width - 0.1, most=2, points=BASE + 0.7)
        head = 0.08 + 0.13 * (title.count("\n") + 1)
        top = head + 0.16
        figure = Figure(figsize=(width, top + lanes_inches(episode, width)), dpi=DPI)
        canvas = FigureCanvasAgg(figure)
        inch_text(figure, 0.06, 0.05, title, fontweight="bold", linespacing=1.1)
        policy = plain(episode.row["policy"] or "")
        inch_text(figure, width - 0.06, head, policy, fontsize=SMALL, color=GREY, ha="right")
        axes, timed = draw_lanes(figure, episode, top)
        after = render(canvas)
        for artist in timed:
            artist.set_visible(False)
        before = render(canvas)
    return made_panel(before, after, axes, episode.duration_s, (round(head * DPI), round(0.06 * DPI)))


def made_panel(
    before: Frames, after: Frames, axes: Axes, duration: float, readout: tuple[int, int]
) -> OverlayPanel:
    """Return the panel made of two drawings, with the curve in these axes."""
    start, end = (float(axes.transData.transform((x, 0))[0]) for x in (0.0, duration))
    box = axes.get_window_extent()
    rows = (round(len(before) - box.y1), round(len(before) - box.y0))
    return OverlayPanel(before, after, start, (end - start) / duration, rows, readout)


def panel_at(panel: OverlayPanel, time: float, *, done: bool) -> Frames:
    """Return the drawing up to a timestamp, with a cursor line there; the complete drawing if ``done``."""
    x = round(panel.start_x + time * panel.second_x)
    drawing = panel.before.copy()
    end = drawing.shape[1] if done else x + 1
    drawing[:, :end] = panel.after[:, :end]
    top, bottom = panel.rows
    drawing[top:bottom, max(0, x - 1) : x + 1] = (60, 60, 60)
    return drawing


def value_at(times: FloatArray, values: FloatArray, time: float) -> float:
    """Return the value of the curve at a time, interpolated linearly.

    NaN before the first point and next to an unknown point; constant after the last point.
    """
    if not len(times) or time < times[0] - TIME_TOLERANCE_S:
        return float("nan")
    place = int(np.searchsorted(times, time + TIME_TOLERANCE_S, side="right")) - 1
    if abs(times[place] - time) <= TIME_TOLERANCE_S:  # at a point, neighbours do not matter
        return float(values[place])
    return float(np.interp(time, times, values))


def readout(episode: EpisodeData, time: float) -> str:
    """Return the time and the progress of each curve at that time, as text."""
    with_curve = [judgement for judgement in episode.judgements if len(judgement.times)]
    many = len(with_curve) > 1
    parts = []
    for judgement in with_curve:
        value = value_at(judgement.times, judgement.progress, time)
        name = plain(judgement.judge) if many else "progress"
        parts.append(f"{name} {'unknown' if np.isnan(value) else f'{100 * value:.0f} %'}")
    return f"{time:.2f} s   " + "   ".join(parts)


def render(canvas: Any) -> Frames:
    """Draw a canvas into an image, shape (h, w, 3)."""
    canvas.draw()
    return np.asarray(canvas.buffer_rgba())[:, :, :3].copy()


def text_font(pixels: float) -> FreeTypeFont:
    """Load the font of the figures from the files that come with matplotlib."""
    from matplotlib import get_data_path
    from PIL import ImageFont

    return ImageFont.truetype(str(Path(get_data_path(), "fonts", "ttf", "DejaVuSans.ttf")), round(pixels))


def write_text(image: Frames, at: tuple[int, int], text: str, font: FreeTypeFont) -> None:
    """Write black text into an image, in place."""
    from PIL import Image, ImageDraw

    height = font.size + 4
    row, column = at
    strip = Image.fromarray(image[row : row + height])
    ImageDraw.Draw(strip).text((column, 0), text, fill="black", font=font)
    image[row : row + height] = np.asarray(strip)
