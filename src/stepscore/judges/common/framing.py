"""How the frames of several cameras are laid out in one prompt.

=============  =================================================================================
layout         several cameras
=============  =================================================================================
separate       one after another: all frames of the first, then all of the second ...
interleaved    by time: a frame of every camera, then the next of every camera
tiled          by time, the cameras side by side in one image
=============  =================================================================================

With one camera all three are the same.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Literal, get_args

import numpy as np

from stepscore.episodes import Episode, SampledFrames, sample_frames
from stepscore.errors import EpisodeError, UnknownNameError
from stepscore.models import FrameRef, Part, TiledFrames

ViewLayout = Literal["separate", "interleaved", "tiled"]
STATED_TIME = re.compile(r", (\d+\.\d\d) s(?=[:,])")
"""The timestamp of a frame in the text before an image, as ``_label`` writes it."""


def sample_after_first(
    episode: Episode, points: int, fps: float | None, max_points: int, what: str
) -> SampledFrames:
    """Return the first frame and the points to judge after it.

    Args:
        episode: The episode.
        points: Number of points, evenly up to the last frame.
        fps: Or one every 1/fps seconds, and the last.
        max_points: With ``fps``: at most this many, evenly spread.
        what: What needs two frames, for the message.
    """
    count = None if fps is not None else points + 1
    sampled = sample_frames(episode, count=count, fps=fps, most=max_points + 1)
    if len(sampled) < 2:
        raise EpisodeError(f"Episode {episode.id} has one frame; a {what} needs two.")
    return sampled


def frame_refs(sampled: SampledFrames, point: int, size: int | None) -> tuple[FrameRef, ...]:
    """Return the frames of all views at one of the sampled timestamps, by its number."""
    return tuple(FrameRef(view, int(at[point]), size) for view, at in sampled.indices.items())


def image_parts(
    sampled: SampledFrames,
    layout: ViewLayout,
    size: int | None,
    *,
    chosen: Iterable[int] | None = None,
    labelled: bool = True,
) -> tuple[Part, ...]:
    """Return sampled frames as parts of a prompt.

    Args:
        sampled: From :func:`sample_frames`.
        layout: How several cameras are arranged; see the table above.
        size: Longer side of each camera's image in pixels; ``None`` for the recorded size.
        chosen: Which of the sampled timestamps, by number, repeats allowed; all by default.
        labelled: Put the frame's number and time, and the camera's name, before each image.
    """
    if layout not in get_args(ViewLayout):
        raise UnknownNameError("layout", layout, get_args(ViewLayout))
    points = list(range(len(sampled)) if chosen is None else chosen)
    images = list(_labelled_images(sampled, layout, size, points))
    if not labelled:
        return tuple(image for _, image in images)
    return tuple(part for label, image in images for part in (label, image, "\n"))


def _labelled_images(
    sampled: SampledFrames, layout: ViewLayout, size: int | None, points: Sequence[int]
) -> Iterator[tuple[str, FrameRef | TiledFrames]]:
    """Yield each image with the text before it, in order."""
    views = sampled.views
    numbered = list(enumerate(points, start=1))
    if layout == "tiled" and len(views) > 1:
        for number, point in numbered:
            label = f"{_label(number, sampled.times[point])}, cameras {', '.join(views)} side by side: "
            yield label, TiledFrames(frame_refs(sampled, point, size), tile_columns(len(views)))
        return
    by_view = [(number, point, view) for view in views for number, point in numbered]
    by_time = [(number, point, view) for number, point in numbered for view in views]
    for number, point, view in by_view if layout == "separate" else by_time:
        camera = f", camera {view}" if len(views) > 1 else ""
        frame = FrameRef(view, int(sampled.indices[view][point]), size)
        yield f"{_label(number, sampled.times[point])}{camera}: ", frame


def tile_columns(n: int) -> int:
    """Return the columns in which n images are tiled: one row up to three, else nearly square."""
    return n if n <= 3 else int(np.ceil(np.sqrt(n)))


def _label(number: int, time: float) -> str:
    return f"Frame {number}, {time:.2f} s"
