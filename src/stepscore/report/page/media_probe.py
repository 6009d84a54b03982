"""Which video files browsers play without re-encoding."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from stepscore.episodes.video import open_video, packet_index, video_stream

PLAYED = {"h264": ("yuv420p", "yuvj420p"), "av1": (), "vp8": (), "vp9": ()}
"""Codecs that browsers play, with the pixel formats they play them in (empty: any)."""

_TYPES = {"mp4": "video/mp4", "mov": "video/mp4", "webm": "video/webm", "m4v": "video/mp4"}


class Probe(NamedTuple):
    """The properties of a video file that decide how a browser plays it; ``plays`` without re-encoding."""

    codec: str
    type: str
    first_s: float
    plays: bool


def probe(path: Path) -> Probe:
    """Read a video file's codec, type and first time without decoding frames; VideoError if it is unreadable."""
    with open_video(path) as container:
        context = video_stream(container, path).codec_context
        codec, pixels = context.codec.canonical_name, context.pix_fmt
    kind = _TYPES.get(path.suffix.lower().removeprefix("."), "")
    allowed = PLAYED.get(codec)
    plays = bool(kind) and allowed is not None and (not allowed or pixels in allowed)
    return Probe(codec, kind or "application/octet-stream", float(packet_index(path).times[0]), plays)
