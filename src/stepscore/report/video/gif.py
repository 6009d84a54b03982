"""Frames written as a GIF below a size: slides and issues take GIFs of a few megabytes."""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from stepscore._files import atomic_path
from stepscore.errors import VideoError
from stepscore.types import FloatArray, Frames, IntArray

if TYPE_CHECKING:
    from PIL.Image import Image

MAX_BYTES = 5_000_000
FPS, MOST_FRAMES, COLOURS = 10.0, 240, 256
WIDTHS = (800, 640, 480, 360)
"""Widths that are tried in turn until the file is small enough."""


def write_gif(
    path: Path,
    frames_at: Callable[[Sequence[int]], Iterator[Frames]],
    places: IntArray,
    times: FloatArray,
    *,
    most: int = MAX_BYTES,
) -> Path:
    """Write a GIF that loops and has less than ``most`` bytes.

    Args:
        path: Output file; an existing one is replaced once the new one is complete.
        frames_at: Returns the frames at some places of the video.
        places: The places of the clip in order.
        times: Timestamp of every frame of the video.
        most: Largest size in bytes.

    Raises:
        VideoError: Even the smallest width has more bytes.
    """
    from PIL import Image

    seconds = float(times[places[-1]] - times[places[0]])
    fps = min(FPS, MOST_FRAMES / max(seconds, 1e-9))
    wanted = times[places[0]] + np.arange(int(seconds * fps + 1e-6) + 1) / fps
    chosen = np.unique(np.searchsorted(times, wanted + 1e-6, side="right") - 1)
    images = [_resized(Image.fromarray(frame), WIDTHS[0]) for frame in frames_at(chosen.tolist())]
    for width in WIDTHS:
        data = _encoded([_resized(image, width) for image in images], 1000 / fps)
        if len(data) < most:
            with atomic_path(path, make_folder=True) as temporary:
                temporary.write_bytes(data)
            return path
    raise VideoError(
        f"{path.name} has {len(data) / 1e6:.1f} MB at the smallest size, at most {most / 1e6:g} MB are allowed. "
        "Choose fewer seconds with --around START-END, or --format mp4."
    )


def _encoded(images: Sequence[Image], milliseconds: float) -> bytes:
    from PIL.Image import Dither, Quantize

    # The palette covers every colour of the frames: that of a small object is not left out for those of the floor.
    # One palette for all frames and no dithering: what rests is then equal in consecutive frames and costs nothing.
    palette = _contact(images).quantize(COLOURS, method=Quantize.MAXCOVERAGE)
    drawn = [image.quantize(palette=palette, dither=Dither.NONE) for image in images]
    data = io.BytesIO()
    drawn[0].save(
        data,
        format="GIF",
        save_all=True,
        append_images=drawn[1:],
        duration=10 * round(milliseconds / 10),
        loop=0,
        comment=b"StepScore",
    )
    return data.getvalue()


def _contact(images: Sequence[Image]) -> Image:
    """Return a few of the images below one another, for a palette."""
    from PIL import Image

    some = [images[i] for i in np.linspace(0, len(images) - 1, min(len(images), 5)).astype(int)]
    width, height = some[0].size
    sheet = Image.new("RGB", (width, height * len(some)))
    for row, image in enumerate(some):
        sheet.paste(image, (0, row * height))
    return sheet


def _resized(image: Image, width: int) -> Image:
    return image if image.width == width else image.resize((width, round(image.height * width / image.width)))
