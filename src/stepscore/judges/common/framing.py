"""Which frames a judge shows, and how several cameras stand in one prompt.

The main camera (the first) sets the moments; every other camera shows its own frame of the same second.

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

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np

from stepscore.episodes import Episode, sample_indices
from stepscore.errors import EpisodeError, OptionError, UnknownNameError
from stepscore.models import FrameRef, Part, TiledFrames
from stepscore.types import FloatArray, IntArray

Layout = Literal["separate", "interleaved", "tiled"]

MAX_LAG_S = 0.5
"""A camera that ended this long before a moment cannot stand for it."""


@dataclass(frozen=True, eq=False)
class SampledFrames:
    """SampledFrames of an episode and each camera's frame there.

    Attributes:
        times: Seconds of the main camera's frames, strictly increasing, shape (n,).
        indices: View name to frame numbers, shape (n,) each; the main camera first.
    """

    times: FloatArray
    indices: Mapping[str, IntArray]

    def __len__(self) -> int:
        return len(self.times)

    @property
    def views(self) -> tuple[str, ...]:
        """Names of the cameras."""
        return tuple(self.indices)

    def stills(self, moment: int, size: int | None) -> tuple[FrameRef, ...]:
        """A frame of every camera at one moment."""
        return tuple(FrameRef(view, int(at[moment]), size) for view, at in self.indices.items())


def sample_frames(
    episode: Episode,
    *,
    count: int | None = None,
    fps: float | None = None,
    times: Sequence[float] | None = None,
    most: int | None = None,
) -> SampledFrames:
    """SampledFrames spread over an episode, the first and the last frame among them.

    Args:
        episode: Whose frames.
        count: So many, evenly from the first frame to the last; a single one is the last.
        fps: Or one every 1/fps seconds, and the last frame.
        times: Or the frames shown at these seconds, and no others.
        most: With ``fps``: where there would be more, this many evenly spread ones instead.
    """
    where = f"episode {episode.id}"
    if not episode.views:
        raise EpisodeError(f"Episode {episode.id} has no video to look at.")
    main = next(iter(episode.views.values())).timestamps()
    picked = sample_indices(main, where, count=count, fps=fps, times=times)
    last = len(main) - 1
    picked = np.array([last]) if count == 1 else np.unique(np.append(picked, last) if fps else picked)
    if fps is not None and most is not None and len(picked) > most:
        picked = np.unique(sample_indices(main, where, count=most))
    at = main[picked]
    indices = {
        view: picked if number == 0 else _same_seconds(episode, view, at)
        for number, view in enumerate(episode.views)
    }
    return SampledFrames(at, indices)


def _same_seconds(episode: Episode, view: str, times: FloatArray) -> IntArray:
    """The frames another camera shows at these seconds."""
    own = episode.views[view].timestamps()
    if not len(own) or times[-1] - own[-1] > MAX_LAG_S:
        end = f"ends at {own[-1]:.2f} s" if len(own) else "has no frames"
        main = next(iter(episode.views))
        raise EpisodeError(
            f"Episode {episode.id}: the view {view!r} {end}, and {main!r} goes on to {times[-1]:.2f} s. "
            f"Leave it out: --views {main}"
        )
    shown = np.searchsorted(own, times + 5e-7, side="right") - 1
    return np.clip(shown, 0, len(own) - 1).astype(np.int64)


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
            yield label, TiledFrames(moments.stills(moment, size), tile_columns(len(views)))
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
