"""Video files for a browser: what plays as it is, and H.264 of what does not."""

from __future__ import annotations

import os
from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path
from typing import NamedTuple

import av
import numpy as np

from stepscore.episodes.packets import open_video, packet_index, video_stream
from stepscore.episodes.view import View
from stepscore.errors import RunError
from stepscore.types import Frames

PLAYED = {"h264": ("yuv420p", "yuvj420p"), "av1": (), "vp8": (), "vp9": ()}
"""Codecs that browsers play, with the pixel formats they play them in (empty: any)."""

_TYPES = {"mp4": "video/mp4", "mov": "video/mp4", "webm": "video/webm", "m4v": "video/mp4"}
_CLOCK = 90_000  # ticks a second
_KEYFRAME_S = 0.5  # between keyframes: a seek decodes no more than this
_CHUNK = 32  # frames in memory at a time


class Probe(NamedTuple):
    """What a browser needs to know of a file.

    Attributes:
        codec: libav's name of the codec.
        type: MIME type.
        first_s: Presentation time of the first frame.
        plays: Whether browsers play it as it is.
    """

    codec: str
    type: str
    first_s: float
    plays: bool


def probe(path: Path) -> Probe:
    """Look into a video file; decodes nothing. VideoError where it cannot be read."""
    with open_video(path) as container:
        context = video_stream(container, path).codec_context
        codec, pixels = context.codec.canonical_name, context.pix_fmt
    kind = _TYPES.get(path.suffix.lower().removeprefix("."), "")
    allowed = PLAYED.get(codec)
    plays = bool(kind) and allowed is not None and (not allowed or pixels in allowed)
    return Probe(codec, kind or "application/octet-stream", float(packet_index(path).times[0]), plays)


def encode_h264(view: View, path: Path) -> Probe:
    """Write a view as an H.264 file that any browser plays, each frame at its own time.

    Pictures of odd size get their last column or row twice, since 4:2:0 needs even sides.
    """
    info, times = view.info(), view.timestamps()
    rate = Fraction(info.fps).limit_denominator(1001)
    gop = max(1, round(info.fps * _KEYFRAME_S))
    options = {"crf": "20", "preset": "veryfast", "bf": "0", "g": str(gop)}
    temporary = path.with_name(f".{path.name}.tmp.mp4")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with av.open(str(temporary), "w", options={"movflags": "+faststart"}) as container:
            stream = container.add_stream("libx264", rate=rate, options=options)
            stream.width, stream.height = info.width + info.width % 2, info.height + info.height % 2
            stream.pix_fmt = "yuv420p"
            stream.codec_context.time_base = Fraction(1, _CLOCK)
            for second, picture in zip(times.tolist(), _pictures(view, info.n_frames), strict=True):
                frame = av.VideoFrame.from_ndarray(_even(picture), format="rgb24")
                frame.pts, frame.time_base = round(second * _CLOCK), Fraction(1, _CLOCK)
                container.mux(stream.encode(frame))
            container.mux(stream.encode(None))
        os.replace(temporary, path)
    except OSError as error:
        raise RunError(f"Cannot write {path}: {error.strerror or error}.") from error
    finally:
        temporary.unlink(missing_ok=True)
    return Probe("h264", "video/mp4", 0.0, plays=True)


def _pictures(view: View, n: int) -> Iterator[Frames]:
    for start in range(0, n, _CHUNK):
        yield from view.read(range(start, min(start + _CHUNK, n)))


def _even(picture: Frames) -> Frames:
    height, width = picture.shape[:2]
    if height % 2 or width % 2:
        picture = np.pad(picture, ((0, height % 2), (0, width % 2), (0, 0)), mode="edge")
    return np.ascontiguousarray(picture)
