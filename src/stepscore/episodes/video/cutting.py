"""Cut the part of a video file that holds an episode into a separate mp4, without re-encoding."""

from __future__ import annotations

import io
from collections.abc import Iterator
from itertools import islice
from typing import NamedTuple

import av
import av.video.stream
import numpy as np

from stepscore.episodes.video.opening import Rotation, VideoPacket, reason
from stepscore.episodes.video.video_view import Decoder, VideoView
from stepscore.types import IntArray


class VideoPart(NamedTuple):
    """An episode's part of a video file.

    Attributes:
        data: The bytes of an mp4 with one stream.
        codec: libav's name of the codec.
        n_frames: Number of frames in the mp4, including those between the preceding keyframe and the episode.
        places: Position of each of the episode's frames in the mp4, in presentation order, (n,).
    """

    data: bytes
    codec: str
    n_frames: int
    places: IntArray


def cut_video(view: VideoView, codecs: tuple[str, ...]) -> VideoPart | str:
    """Copy the packets of an episode, from the keyframe that its first frame needs, into an mp4.

    Returns:
        The part, or the reason it cannot be copied. In that case its frames must be decoded.
    """
    index, frames = view.frames_in_file()
    if index.counted:
        return "its file keeps no times of frames"
    if index.rotation != Rotation():
        return "its frames are stored rotated"
    key, last = int(index.key[frames].min()), int(index.packet[frames].max())
    with Decoder(view.path, index) as source:
        codec = source.stream.codec_context.codec.canonical_name
        if codec not in codecs:
            return f"its codec is {codec}"
        count = last - int(index.key_packet[key]) + 1
        try:
            data, ticks = _copy(islice(source.packets_from(key), count), source.stream)
        except (av.FFmpegError, ValueError) as error:
            return f"its packets cannot be copied ({reason(error)})"
    order = np.unique(ticks)
    if not len(order) == len(ticks) == count:
        return "packets of it are missing or share their times"
    return VideoPart(data, codec, count, np.searchsorted(order, index.pts[frames]))


def _copy(copied: Iterator[VideoPacket], stream: av.video.stream.VideoStream) -> tuple[bytes, IntArray]:
    """Return an mp4 of these packets that starts at time 0, and their original presentation ticks."""
    buffer, ticks, start = io.BytesIO(), list[int](), 0
    with av.open(buffer, "w", format="mp4") as output:
        target = output.add_stream_from_template(stream, opaque=True)
        for packet in copied:
            if packet.pts is None or packet.dts is None:
                raise ValueError("a packet has no time")
            start = start if ticks else packet.dts
            ticks.append(packet.pts)
            packet.pts, packet.dts = packet.pts - start, packet.dts - start
            packet.stream = target
            output.mux(packet)
    return buffer.getvalue(), np.array(ticks, dtype=np.int64)
