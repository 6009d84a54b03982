"""How the frames of several cameras are laid out in one prompt.

=============  =================================================================================
layout         several cameras
=============  =================================================================================
separate       one after another: all frames of the first, then all of the second ...
interleaved    moment by moment: a frame of every camera, then the next moment
tiled          moment by moment, the cameras side by side in one picture: one picture a moment
=============  =================================================================================

With one camera all three are the same.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Literal, get_args

import numpy as np

from stepscore.episodes import SampledFrames
from stepscore.errors import OptionError, UnknownNameError
from stepscore.models import FrameRef, Part, TiledFrames

Layout = Literal["separate", "interleaved", "tiled"]


def frame_refs(moments: SampledFrames, moment: int, size: int | None) -> tuple[FrameRef, ...]:
    """The frames of all views at one of the sampled times."""
    return tuple(FrameRef(view, int(at[moment]), size) for view, at in moments.indices.items())


def image_parts(
    moments: SampledFrames,
    layout: Layout,
    size: int | None,
    *,
    chosen: Iterable[int] | None = None,
    labelled: bool = True,
) -> tuple[Part, ...]:
    """The pictures of some moments as parts of a prompt.

    Args:
        moments: From :func:`sample_frames`.
        layout: How several cameras stand together; see the table above.
        size: Longer side of each camera's picture in pixels; ``None`` for the recorded size.
        chosen: Which moments, by number, repeats allowed; all by default.
        labelled: Put the frame's number and time, and the camera's name, before each picture.
    """
    check_layout(layout)
    picked = list(range(len(moments)) if chosen is None else chosen)
    shown = list(_labelled(moments, layout, size, picked))
    if not labelled:
        return tuple(picture for _, picture in shown)
    return tuple(part for label, picture in shown for part in (label, picture, "\n"))


def _labelled(
    moments: SampledFrames, layout: Layout, size: int | None, picked: Sequence[int]
) -> Iterator[tuple[str, FrameRef | TiledFrames]]:
    """Each picture with the text before it, in order."""
    views = moments.views
    numbered = list(enumerate(picked, start=1))
    if layout == "tiled" and len(views) > 1:
        for number, moment in numbered:
            label = f"{_label(number, moments.times[moment])}, cameras {', '.join(views)} side by side: "
            yield label, TiledFrames(frame_refs(moments, moment, size), tile_columns(len(views)))
        return
    by_view = [(number, moment, view) for view in views for number, moment in numbered]
    by_time = [(number, moment, view) for number, moment in numbered for view in views]
    for number, moment, view in by_view if layout == "separate" else by_time:
        camera = f", camera {view}" if len(views) > 1 else ""
        still = FrameRef(view, int(moments.indices[view][moment]), size)
        yield f"{_label(number, moments.times[moment])}{camera}: ", still


def tile_columns(n: int) -> int:
    """Columns of a tile of n pictures: one row up to three, else nearly square."""
    return n if n <= 3 else int(np.ceil(np.sqrt(n)))


def check_layout(layout: str) -> None:
    """UnknownNameError for a layout that does not exist."""
    if layout not in get_args(Layout):
        raise UnknownNameError("layout", layout, get_args(Layout))


def check_sampling(points: int, fps: float | None, most: int, *, name: str, least: int = 1) -> None:
    """OptionError for a number of frames, a rate or a cap that makes no sense."""
    if points < least:
        raise OptionError(f"{name} is {points}; it must be at least {least}.")
    if fps is not None and not 0 < fps < np.inf:
        raise OptionError(f"fps is {fps}; it must be above 0 and finite.")
    if most < least:
        raise OptionError(f"max_{name} is {most}; it must be at least {least}.")


def _label(number: int, time: float) -> str:
    return f"Frame {number}, {time:.2f} s"
