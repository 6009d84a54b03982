"""One episode as a video with its curve growing underneath, in step with time.

The drawing under the frames is made twice, once without and once with all that happens; each frame shows the
second up to its own moment and the first beyond. So a frame costs a copy, not a plot, and memory does not
grow with the length of the video.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from stepscore.episodes import TIME_TOLERANCE_S, Episode, View
from stepscore.report.plots.episode_lanes import draw_lanes, lanes_inches
from stepscore.report.plots.style import BASE, GREY, SMALL, fit_lines, inch_text, paper_style, plain
from stepscore.report.video.episode_data import OneEpisode
from stepscore.report.video.h264 import stream_frames, write_h264
from stepscore.types import FloatArray, Frames

if TYPE_CHECKING:
    from PIL.ImageFont import FreeTypeFont

WIDTH, DPI = 640, 160


class Panel(NamedTuple):
    """The drawing under the frames.

    Attributes:
        before: Without anything that is of a moment, shape (h, w, 3).
        after: With all of it.
        start_x: Pixel column of second 0.
        second_x: Columns a second.
        top: Row in which the curve begins.
        readout: Row and column for the moment and value in words.
    """

    before: Frames
    after: Frames
    start_x: float
    second_x: float
    top: int
    readout: tuple[int, int]


def write_overlay(path: Path, episode: OneEpisode, pictures: Episode, view: str | None = None) -> Path:
    """Write the video as H.264 in mp4: a frame for each of the view's, at the same times.

    Args:
        path: The file; replaced once the new one is whole.
        episode: What is said of it.
        pictures: The episode in its source.
        view: The camera; the main one if not given.
    """
    chosen = pictures.view(view or pictures.main_view)
    info = chosen.info()
    frames = overlay_frames(episode, chosen)
    return write_h264(path, frames, chosen.timestamps(), duration_s=info.duration_s, fps=info.fps)


def overlay_frames(episode: OneEpisode, view: View) -> Iterator[Frames]:
    """Every frame of the view over the drawing as far as it has come; shape (h, w, 3), sides even."""
    panel = draw_panel(episode)
    info = view.info()
    scale = min(WIDTH / info.width, WIDTH / info.height)
    high = round(info.height * scale)
    left = (WIDTH - round(info.width * scale)) // 2
    total = high + len(panel.before)
    page = np.full((total + total % 2, WIDTH, 3), 255, np.uint8)
    font = _font()
    times = view.timestamps()
    for number, picture in enumerate(stream_frames(view, round(max(info.width, info.height) * scale))):
        page[: picture.shape[0], left : left + picture.shape[1]] = picture
        under = panel_at(panel, float(times[number]), done=number == len(times) - 1)
        _write(under, panel.readout, _readout(episode, float(times[number])), font)
        page[high:total] = under
        yield page.copy()


def draw_panel(episode: OneEpisode) -> Panel:
    """The drawing under the frames, without and with all that happens."""
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
        axes, moving = draw_lanes(figure, episode, top)
        after = _render(canvas)
        for artist in moving:
            artist.set_visible(False)
        before = _render(canvas)
        start, end = (float(axes.transData.transform((x, 0))[0]) for x in (0.0, episode.duration_s))
    where = (round(head * DPI), round(0.06 * DPI))
    return Panel(before, after, start, (end - start) / episode.duration_s, round((top - 0.02) * DPI), where)


def panel_at(panel: Panel, time: float, *, done: bool) -> Frames:
    """The drawing as far as it has come at a moment, with a line there; all of it where the video is done."""
    x = round(panel.start_x + time * panel.second_x)
    shown = panel.before.copy()
    upto = shown.shape[1] if done else x + 1
    shown[:, :upto] = panel.after[:, :upto]
    shown[panel.top :, max(0, x - 1) : x + 1] = (60, 60, 60)
    return shown


def value_at(times: FloatArray, values: FloatArray, time: float) -> float:
    """The curve's value at its latest point so far; NaN before the first."""
    place = int(np.searchsorted(times, time + TIME_TOLERANCE_S, side="right")) - 1
    return float(values[place]) if place >= 0 else float("nan")


def _readout(episode: OneEpisode, time: float) -> str:
    many = len(episode.judged) > 1
    parts = []
    for one in episode.judged:
        value = value_at(one.times, one.progress, time)
        name = plain(one.judge) if many else "progress"
        parts.append(f"{name} {'unknown' if np.isnan(value) else f'{100 * value:.0f} %'}")
    return f"{time:.2f} s   " + "   ".join(parts)


def _render(canvas: Any) -> Frames:
    canvas.draw()
    return np.asarray(canvas.buffer_rgba())[:, :, :3].copy()


def _font() -> FreeTypeFont:
    """The figures' own font, from the files that come with matplotlib."""
    from matplotlib import get_data_path
    from PIL import ImageFont

    return ImageFont.truetype(
        str(Path(get_data_path(), "fonts", "ttf", "DejaVuSans.ttf")), round(SMALL / 72 * DPI)
    )


def _write(picture: Frames, at: tuple[int, int], text: str, font: FreeTypeFont) -> None:
    """Write black words into a picture, in place."""
    from PIL import Image, ImageDraw

    height = font.size + 4
    row, column = at
    strip = Image.fromarray(picture[row : row + height])
    ImageDraw.Draw(strip).text((column, 0), text, fill="black", font=font)
    picture[row : row + height] = np.asarray(strip)
