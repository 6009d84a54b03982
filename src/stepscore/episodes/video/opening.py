"""Open a video file: regular files alone, as one of the known formats, and never another file in its place."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import TypeAlias

import av
import av.container
import av.video.stream

from stepscore._untrusted import check_regular, shown
from stepscore._untrusted.limits import MAX_PIXELS
from stepscore.errors import VideoError

VideoPacket: TypeAlias = "av.Packet[av.video.stream.VideoStream]"
FORMATS = "mp4, mov, webm, mkv, avi, gif"
_DEMUXERS = (
    *(
        "mov",
        "mp4",
        "matroska",
        "webm",
        "avi",
        "gif",
        "mpegts",
        "mpeg",
        "mpegvideo",
        "flv",
        "asf",
        "ogg",
        "nut",
    ),
    *("h264", "hevc", "av1", "obu", "ivf", "m4v", "mjpeg", "apng", "mxf", "dv", "webp", "webp_anim"),
)
_OPEN_OPTIONS = {
    # libav finds the format by content: without these, a playlist called x.mp4 opens other files and addresses.
    "format_whitelist": ",".join(_DEMUXERS),
    "protocol_whitelist": "file",
    # Opening decodes a frame where the header states no pixel format.
    "max_pixels": str(MAX_PIXELS),
}


def check_video_file(path: Path) -> None:
    """Raise VideoError where there is no regular file; a pipe or a device is never opened."""
    if not os.path.exists(path):
        raise VideoError(f"No video at {shown(path)}.")
    check_regular(path, VideoError)


def open_video(path: Path, *, parse: bool = True) -> av.container.InputContainer:
    """Open the file; a VideoError states why it is not a readable video.

    Args:
        path: The file.
        parse: Look into packets for what they hold. Without it, the container's own table is believed, as it must
            be where the packets of a remote file are not there yet.
    """
    check_video_file(path)
    options = _OPEN_OPTIONS if parse else {**_OPEN_OPTIONS, "fflags": "noparse"}
    try:
        # With the protocol in front, no name is taken for an address (http:, concat:, data:).
        return av.open(f"file:{os.path.abspath(path)}", options=options)
    except (av.FFmpegError, OSError, ValueError) as error:
        raise unreadable(path, error) from error


def unreadable(path: Path, error: Exception) -> VideoError:
    """Return the error of a file that the system or libav does not open."""
    return VideoError(f"{path} is not a video that can be read ({reason(error)}). Readable: {FORMATS}.")


def video_stream(container: av.container.InputContainer, path: Path) -> av.video.stream.VideoStream:
    """Return the first video stream in the file; audio and cover images are skipped."""
    for stream in container.streams.video:
        if stream.disposition & av.stream.Disposition.attached_pic:
            continue
        if stream.codec_context is None:
            raise VideoError(f"{path}: there is no decoder for its video codec in this build of PyAV.")
        # A stream may grow in the middle, past what its header states.
        stream.codec_context.options = {"max_pixels": str(MAX_PIXELS)}
        return stream
    raise VideoError(f"{path} has no video stream. Readable: {FORMATS}.")


def packets(
    container: av.container.InputContainer, stream: av.video.stream.VideoStream
) -> Iterator[VideoPacket]:
    """Iterate over the stream's packets from the current position, without the empty ones that mark its end."""
    return (packet for packet in container.demux(stream) if packet.size)


def reason(error: BaseException) -> str:
    """Return what went wrong, in libav's words and without its error number."""
    return str(getattr(error, "strerror", None) or error)
