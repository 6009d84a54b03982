"""Limits on what a file may claim, checked before anything of that size is allocated.

Headers are written by anyone: a file of a kilobyte can state 16,000 x 16,000 pixels or a million million frames.
Within these limits a frame of the size that a judge asks for takes less than a gigabyte, whatever the file is.
"""

from __future__ import annotations

import math

from stepscore.errors import OptionError, StepScoreError, VideoError

MAX_PIXELS = 40_000_000
"""Most pixels of a frame or an image; 8K video has 33 million."""

MAX_FRAMES = 4_000_000
"""Most frames of a view: 37 hours at 30 frames per second."""

MAX_READ_BYTES = 1 << 29
"""Most bytes that one read loads of a file at a time, before it decodes them."""

MAX_CLIP_BYTES = 1 << 32
"""Most bytes of decoded frames that one read returns: 4,600 frames of 640x480, or 172 of 4K."""

MAX_IMAGE_BYTES = 1 << 27
"""Longest encoded image, in bytes."""

MIN_FPS, MAX_FPS = 1e-6, 1e6
"""Frame rates: from about a frame in twelve days to a million a second."""

MAX_SAMPLES = 10_000_000
"""Most times that sampling by frames per second may ask for."""


def check_pixels(width: int, height: int, where: str) -> None:
    """Raise VideoError for a frame without pixels, or with more than ``MAX_PIXELS``."""
    if width < 1 or height < 1:
        # libav keeps no size that is over the limit it was given.
        raise VideoError(
            f"{where} states no frame size, or one of more than {MAX_PIXELS // 1_000_000} million pixels."
        )
    if width * height > MAX_PIXELS:
        raise too_many_pixels(f"{width}x{height}", where)


def too_many_pixels(n: str, where: str) -> VideoError:
    """Return the error for a frame of more than ``MAX_PIXELS``."""
    return VideoError(
        f"{where} has {n} pixels; at most {MAX_PIXELS // 1_000_000} million are read. "
        "Scale it down first: ffmpeg -i IN -vf scale=1280:-2 OUT"
    )


def check_frame_count(n: int, where: str, most: int = MAX_FRAMES) -> None:
    """Raise VideoError for more frames than ``most``."""
    if n > most:
        raise VideoError(f"{where} states {n} frames; at most {most} are read. Cut it into episodes.")


def check_fps(fps: float, where: str, error: type[StepScoreError] = VideoError) -> None:
    """Raise ``error`` for a frame rate that is not a number, or outside ``MIN_FPS`` to ``MAX_FPS``."""
    if not (math.isfinite(fps) and MIN_FPS <= fps <= MAX_FPS):
        raise error(f"{where}: fps is {fps:g}; it must be above 0, from {MIN_FPS:g} to {MAX_FPS:g}.")


def check_read(n: int, width: int, height: int, where: str) -> None:
    """Raise OptionError where ``n`` frames of this size are more than ``MAX_CLIP_BYTES``."""
    size = n * width * height * 3
    if size > MAX_CLIP_BYTES:
        raise OptionError(
            f"{where}: {n} frames of {width}x{height} pixels are {size >> 20} MiB, and one read returns at most "
            f"{MAX_CLIP_BYTES >> 20} MiB. Ask for fewer frames, or for smaller ones: size=..."
        )
