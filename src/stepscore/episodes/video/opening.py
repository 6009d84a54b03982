"""Open video files safely: only regular files of known formats, without following references to other files."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NamedTuple, SupportsBytes, TypeAlias, cast

import av
import av.container
import av.video.stream
import numpy as np

from stepscore._untrusted import check_regular, shown
from stepscore._untrusted.limits import MAX_PIXELS
from stepscore._untrusted.mp4_boxes import Mp4Header
from stepscore.errors import VideoError
from stepscore.types import Frames

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
    # libav detects the format by content, so without this list a playlist called x.mp4 could open other files
    # and URLs.
    "format_whitelist": ",".join(_DEMUXERS),
    "protocol_whitelist": "file",
    # libav decodes a frame on opening if the header has no pixel format.
    "max_pixels": str(MAX_PIXELS),
}


def check_video_file(path: Path) -> None:
    """Raise VideoError unless the path is a regular file; pipes and devices are never opened."""
    if not os.path.exists(path):
        raise VideoError(f"No video at {shown(path)}.")
    check_regular(path, VideoError)


def open_video(path: Path, *, parse: bool = True) -> av.container.InputContainer:
    """Open the file; raise VideoError with the reason if it is not a readable video.

    Args:
        path: The file.
        parse: Probe packets for stream information. If false, only the container's header is used, which is
            required while the packets of a remote file are not downloaded yet.
    """
    check_video_file(path)
    options = _OPEN_OPTIONS if parse else {**_OPEN_OPTIONS, "fflags": "noparse"}
    try:
        # With an explicit protocol, no file name can be mistaken for a URL (http:, concat:, data:).
        return av.open(f"file:{os.path.abspath(path)}", options=options)
    except (av.FFmpegError, OSError, ValueError) as error:
        raise unreadable(path, error) from error


def unreadable(path: Path, error: Exception) -> VideoError:
    """Return the error for a file that the operating system or libav cannot open."""
    return VideoError(f"{path} is not a video that can be read ({reason(error)}). Readable: {FORMATS}.")


def video_stream(container: av.container.InputContainer, path: Path) -> av.video.stream.VideoStream:
    """Return the first video stream in the file; audio and cover images are skipped."""
    for stream in container.streams.video:
        if stream.disposition & av.stream.Disposition.attached_pic:
            continue
        if stream.codec_context is None:
            raise VideoError(f"{path}: there is no decoder for its video codec in this build of PyAV.")
        # The frame size may increase mid-stream, beyond the size in the header.
        stream.codec_context.options = {"max_pixels": str(MAX_PIXELS)}
        return stream
    raise VideoError(f"{path} has no video stream. Readable: {FORMATS}.")


def packets(
    container: av.container.InputContainer, stream: av.video.stream.VideoStream
) -> Iterator[VideoPacket]:
    """Iterate over the stream's packets from the current position, skipping the empty packets that mark its end."""
    return (packet for packet in container.demux(stream) if packet.size)


def reason(error: BaseException) -> str:
    """Return libav's error message without the error number."""
    return str(getattr(error, "strerror", None) or error)


_UPRIGHT = (0x10000, 0, 0, 0x10000)


class Rotation(NamedTuple):
    """One of the eight orientations of an image: an optional transpose, followed by mirroring."""

    transpose: bool = False
    mirror_x: bool = False
    mirror_y: bool = False

    def size(self, width: int, height: int) -> tuple[int, int]:
        """Return width and height after rotation; the mapping also works in reverse."""
        return (height, width) if self.transpose else (width, height)

    def apply(self, image: Frames) -> Frames:
        """Return the upright image; input and output have shape (h, w, 3)."""
        if self.transpose:
            image = image.swapaxes(0, 1)
        return image[:: -1 if self.mirror_y else 1, :: -1 if self.mirror_x else 1]


def may_be_rotated(header: Mp4Header, container: str) -> bool:
    """Return whether the file may contain a rotation, without decoding; only mp4 and Matroska can."""
    return "matroska" in container or (
        "mp4" in container and any(matrix != _UPRIGHT for matrix in header.matrices)
    )


def read_rotation(
    path: Path, container: av.container.InputContainer, stream: av.video.stream.VideoStream
) -> Rotation:
    """Read the rotation from the display matrix of the stream's first frame.

    Reading starts at the beginning of the file and leaves the position somewhere after the first frame.
    """
    try:
        container.seek(0, backward=True, stream=stream)
        frame = next(container.decode(stream), None)
    except av.FFmpegError:
        return Rotation()  # reading the frame later reports the error
    side_data = cast("Mapping[str, SupportsBytes]", frame.side_data if frame is not None else {})
    matrix = side_data.get("DISPLAYMATRIX")
    if matrix is None or len(bytes(matrix)) < 20:
        return Rotation()
    # Row-major 3x3 in 16.16 fixed point: x' = a x + c y, y' = b x + d y.
    a, b, _, c, d = np.frombuffer(bytes(matrix), dtype=np.int32)[:5] / 65536.0
    if max(abs(b), abs(c)) < 0.01:
        return Rotation(mirror_x=bool(a < 0), mirror_y=bool(d < 0))
    if max(abs(a), abs(d)) < 0.01:
        return Rotation(transpose=True, mirror_x=bool(c < 0), mirror_y=bool(b < 0))
    raise VideoError(
        f"{path} states a rotation of {np.degrees(np.arctan2(b, a)):.0f} degrees; "
        "only multiples of 90 degrees are supported. Re-encode it upright."
    )
