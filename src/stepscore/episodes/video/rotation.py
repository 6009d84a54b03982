"""Rotation and mirroring of stored frames, by the display matrix of a video.

A phone or a wrist camera often stores its sensor's image as it is and notes in the file how a player must rotate
it (the display matrix). Frames are returned as a player displays them.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple, SupportsBytes, cast

import av
import av.container
import av.video.stream
import numpy as np

from stepscore._untrusted.mp4_boxes import Mp4Header
from stepscore.errors import VideoError
from stepscore.types import Frames

_UPRIGHT = (0x10000, 0, 0, 0x10000)


class Rotation(NamedTuple):
    """Swap rows and columns, then mirror: the eight orientations of an image."""

    transpose: bool = False
    mirror_x: bool = False
    mirror_y: bool = False

    def size(self, width: int, height: int) -> tuple[int, int]:
        """Return width and height after rotation, or of the stored frame given those of the upright one."""
        return (height, width) if self.transpose else (width, height)

    def apply(self, image: Frames) -> Frames:
        """Return the upright image, from and to shape (h, w, 3)."""
        if self.transpose:
            image = image.swapaxes(0, 1)
        return image[:: -1 if self.mirror_y else 1, :: -1 if self.mirror_x else 1]


def may_be_rotated(header: Mp4Header, container: str) -> bool:
    """Return whether the file may state a rotation, without decoding; only mp4 and Matroska families can.

    Args:
        header: Its mp4 header.
        container: libav's name of the file's format.
    """
    return "matroska" in container or (
        "mp4" in container and any(matrix != _UPRIGHT for matrix in header.matrices)
    )


def read_rotation(
    path: Path, container: av.container.InputContainer, stream: av.video.stream.VideoStream
) -> Rotation:
    """Read the rotation from the display matrix of the stream's first frame.

    Reads from the start of the file and leaves it somewhere after the first frame.
    """
    try:
        container.seek(0, backward=True, stream=stream)
        frame = next(container.decode(stream), None)
    except av.FFmpegError:
        return Rotation()  # reading a frame reports what is wrong with it
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
        f"{path} is to be rotated by {np.degrees(np.arctan2(b, a)):.0f} degrees; "
        "only multiples of 90 degrees are supported. Re-encode it upright."
    )
