"""Writing pictures as H.264 in mp4, each at its own time, a few of them in memory."""

from __future__ import annotations

import os
from collections.abc import Iterable
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from stepscore.errors import RunError
from stepscore.types import FloatArray, Frames

if TYPE_CHECKING:
    import av

CLOCK = 90_000
"""Ticks a second: every usual frame rate is a whole number of them."""


def write_h264(
    path: Path, frames: Iterable[Frames], times: FloatArray, *, duration_s: float, fps: float
) -> Path:
    """Write a video that any browser plays; the same pictures give the same bytes.

    Args:
        path: The file; replaced once the new one is whole.
        frames: RGB pictures of one size with even sides, shape (h, w, 3); taken one at a time.
        times: Seconds of each.
        duration_s: When the last one ends.
        fps: Usual frames a second, which the file states; also the frames from keyframe to keyframe.
    """
    temporary = path.with_name(f".{path.name}.tmp")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        _encode(temporary, frames, times, duration_s, Fraction(fps).limit_denominator(1001))
        os.replace(temporary, path)
    except OSError as error:
        raise RunError(f"Cannot write {path}: {error.strerror or error}.") from error
    finally:
        temporary.unlink(missing_ok=True)
    return path


def _encode(
    path: Path, frames: Iterable[Frames], times: FloatArray, duration_s: float, rate: Fraction
) -> None:
    import av

    ticks = [round(float(t) * CLOCK) for t in (*times, duration_s)]
    lasts = dict(zip(ticks[:-1], np.diff(ticks).tolist(), strict=True))
    # Without B-frames packet i is frame i. With one thread the bytes do not depend on the machine's cores.
    options = {"crf": "20", "preset": "veryfast", "bf": "0", "g": str(max(1, round(rate))), "threads": "1"}
    with av.open(str(path), "w", format="mp4", options={"movflags": "+faststart"}) as container:
        stream = container.add_stream("libx264", rate=rate, options=options)
        stream.codec_context.time_base = Fraction(1, CLOCK)
        stream.pix_fmt = "yuv420p"

        def mux(frame: av.VideoFrame | None) -> None:
            for packet in stream.encode(frame):
                if packet.pts is not None:
                    packet.duration = lasts[packet.pts]
                container.mux(packet)

        for tick, picture in zip(ticks[:-1], frames, strict=True):
            if tick == ticks[0]:
                stream.height, stream.width = picture.shape[:2]
            frame = av.VideoFrame.from_ndarray(picture, format="rgb24")
            frame.pts, frame.time_base = tick, Fraction(1, CLOCK)
            mux(frame)
        mux(None)
