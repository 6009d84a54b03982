"""Video files for a browser: which of them it plays as they are."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from stepscore.episodes.video import open_video, packet_index, video_stream

PLAYED = {"h264": ("yuv420p", "yuvj420p"), "av1": (), "vp8": (), "vp9": ()}
"""Codecs that browsers play, with the pixel formats they play them in (empty: any)."""

_TYPES = {"mp4": "video/mp4", "mov": "video/mp4", "webm": "video/webm", "m4v": "video/mp4"}


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
