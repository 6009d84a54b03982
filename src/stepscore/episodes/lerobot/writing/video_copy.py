"""Copy episodes of a dataset's video files into new files, packet by packet: nothing is decoded or encoded."""

from __future__ import annotations

from fractions import Fraction
from itertools import islice
from pathlib import Path

import av
import av.video.stream
import numpy as np

from stepscore.episodes.video.opening import reason
from stepscore.episodes.video.video_view import Decoder, FileSpan, VideoView
from stepscore.errors import VideoError


def copy_spans(source: Path, spans: list[FileSpan], target: Path) -> list[float]:
    """Copy the packets of some episodes into a new file; return the second at which each episode starts in it.

    Args:
        source: The video file.
        spans: The episodes in it, in the order of the new file.
        target: The new file.

    Raises:
        VideoError: The packets cannot be copied.
    """
    target.parent.mkdir(parents=True, exist_ok=True)
    starts: list[float] = []
    try:
        with av.open(str(source)) as like, av.open(str(target), "w", format="mp4") as output:
            template = like.streams.video[0]
            # The ticks of the source, so that no time is rounded.
            options = {"video_track_timescale": str(_ticks_per_second(template, source))}
            stream = output.add_stream_from_template(template, opaque=True)
            output.options.update(options)
            stream.time_base = template.time_base
            offset = 0
            for span in spans:
                offset, start_s = _copy_span(VideoView(source, span), output, stream, offset)
                starts.append(start_s)
    except (av.FFmpegError, ValueError) as error:
        raise VideoError(f"{source}: its packets cannot be copied ({reason(error)}).") from error
    return starts


def _ticks_per_second(stream: av.video.stream.VideoStream, path: Path) -> int:
    base = stream.time_base or Fraction(0)
    if base.numerator != 1:
        raise VideoError(f"{path}: its packets cannot be copied (their time base is {base}).")
    return base.denominator


def _copy_span(
    view: VideoView,
    output: av.container.OutputContainer,
    stream: av.video.stream.VideoStream,
    offset: int,
) -> tuple[int, float]:
    """Append an episode from ``offset`` ticks on; return the next free tick and the second of its first frame."""
    index, frames = view.frames_in_file()
    if index.counted:
        raise VideoError(f"{view.path}: its packets cannot be copied (they have no usable times).")
    first = int(index.key_packet[int(index.key[frames].min())])
    count = int(index.packet[frames].max()) - first + 1
    inside = (index.packet >= first) & (index.packet < first + count)
    shift = offset - int(index.pts[inside].min())
    base = stream.time_base or Fraction(0)
    with Decoder(view.path, index) as source:
        for packet in islice(source.packets_from(int(index.key[frames].min())), count):
            if packet.pts is None or packet.dts is None:
                raise ValueError("a packet has no time")
            packet.pts, packet.dts = packet.pts + shift, packet.dts + shift
            packet.stream = stream
            output.mux(packet)
    ticks = np.sort(index.pts[inside])
    gap = int(np.median(np.diff(ticks))) if len(ticks) > 1 else round(1 / (view.info().fps * base))
    return int(ticks[-1]) + shift + gap, float((int(index.pts[frames[0]]) + shift) * base)
