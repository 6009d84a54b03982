"""Pairs of frames as small lossless videos, each of which a server reads as one block of a longer video.

Qwen3-VL reads a video in blocks of two frames, each after its timestamp. A server computes that timestamp from the
frame rate of the video it is sent, and caches a video as a whole. So every block is sent as a separate video: its
frame rate makes the server write the right timestamp, its frames already have the size that the model reads, and a
longer prefix begins with the very videos of a shorter one.
"""

from __future__ import annotations

import asyncio
import base64
import hashlib
import io
import secrets
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from stepscore.episodes import Clip, fit_size, resize_frames
from stepscore.errors import RefusedError, StatusError, TransientModelError
from stepscore.models.qwen3vl.inputs import (
    PREPROCESSING,
    Geometry,
    block_frames,
    block_time,
    fitted_size,
    time_text,
)
from stepscore.types import Frames

CODEC, CONTAINER, PIXELS = "ffv1", "avi", "bgr0"
"""FFmpeg's own lossless codec, in a container that is the same byte by byte each time."""
ENCODING = f"{CODEC} pairs, {PREPROCESSING}"
"""Encoding and preprocessing of the frames, for the protocol."""
FIRST_RATE = 20
"""Frame rate of a pair at 0.0 s; the middle of its two frames is at 0.025 s, which is written as 0.0."""

GEOMETRY = Geometry()
"""Of Qwen3-VL, whichever its size: 32 pixels a token, two frames a block."""


@dataclass(frozen=True, eq=False)
class FramePair:
    """One block of a video.

    Attributes:
        frames: Two frames at the size the model reads, (2, height, width, 3).
        time: The text before the block, its timestamp (``<0.2 seconds>``).
    """

    frames: Frames
    time: str

    @property
    def tokens(self) -> int:
        """Number of tokens that the frames are read as."""
        rows, columns = GEOMETRY.grid((self.frames.shape[1], self.frames.shape[2]))
        return rows * columns

    def uuid(self, salt: str) -> str:
        """Return the name of the pair on a server: a hash of its pixels, its size and its timestamp.

        A server trusts a known name without looking at the pixels. The name holds a salt, so nobody else can have
        given it to other pixels.
        """
        text = f"{salt}\0{ENCODING}\0{self.frames.shape}\0{self.time}\0"
        return hashlib.sha256(text.encode() + self.frames.tobytes()).hexdigest()

    def data_url(self) -> str:
        """Return the pair as a video in a data URL; no pixel changes."""
        return (
            f"data:video/x-msvideo;base64,{base64.b64encode(encode_video(self.frames, self.rate)).decode()}"
        )

    @property
    def rate(self) -> Fraction:
        """The frame rate at which the middle of the two frames is printed as the pair's timestamp.

        It is taken from the text, so that no rounding can change a digit: 1 / (2 rate) is the text's own tenths.
        """
        tenths = round(10 * float(self.time.removeprefix("<").partition(" ")[0]))
        return Fraction(5, tenths) if tenths else Fraction(FIRST_RATE)


def frame_pairs(clip: Clip, max_side: int | None = None) -> tuple[FramePair, ...]:
    """Return a video as pairs of frames; an odd last frame is doubled, with its own timestamp.

    Args:
        clip: The video.
        max_side: Longer side in pixels above which frames are scaled down; ``None``: no limit.
    """
    frames = clip.frames
    height, width = frames.shape[1:3]
    if max_side is not None and max(height, width) > max_side:
        width, height = fit_size(width, height, max_side)
        frames = resize_frames(frames, (height, width))
    frames = resize_frames(frames, fitted_size(height, width, GEOMETRY.unit, GEOMETRY.video_pixels))
    return tuple(
        FramePair(frames[list(block)], time_text(block_time(clip.timestamps, block)))
        for block in block_frames(len(clip), GEOMETRY.temporal)
    )


def encode_video(frames: Frames, rate: Fraction) -> bytes:
    """Return frames as a lossless video with a frame rate."""
    import av

    packed = io.BytesIO()
    with av.open(packed, "w", format=CONTAINER) as container:
        stream = container.add_stream(CODEC, rate=rate)
        assert isinstance(stream, av.VideoStream)
        stream.height, stream.width = frames.shape[1:3]
        stream.pix_fmt = PIXELS
        for pixels in frames:
            container.mux(stream.encode(av.VideoFrame.from_ndarray(pixels, format="rgb24")))
        container.mux(stream.encode())
    return packed.getvalue()


LOST = "Cache miss"
"""Part of vLLM's message for a name whose frames it does not have."""
MOST_LOST = 3
"""Refusals in a row after which frames are always sent: the server keeps nothing (``--mm-processor-cache-gb 0``)."""
MOST_NAMES = 100_000
"""Names that are remembered; with more, all are forgotten, and the frames sent once again."""


class SentPairs:
    """The pairs of frames that one server has, by name. The salt of their names is drawn once, for one run."""

    def __init__(self) -> None:
        self._salt = secrets.token_hex(16)
        self._names: set[str] = set()
        self._lost = 0

    @asynccontextmanager
    async def sending(self, pairs: Sequence[FramePair]) -> AsyncIterator[list[dict[str, Any]]]:
        """Yield the parts of a request that show these pairs; remember them when it was answered.

        Raises:
            RefusedError: The server lost some of them. The next attempt sends all.
        """
        names, parts = await asyncio.to_thread(self._parts, pairs)
        try:
            yield parts
        except (StatusError, TransientModelError) as error:
            self._names.difference_update(names)
            if isinstance(error, StatusError) and LOST in str(error):
                self._lost += 1
                raise RefusedError(f"{error} Sending the frames again.", 0.0) from error
            raise
        if any(part["video_url"] is None for part in parts):
            self._lost = 0
        if self._lost < MOST_LOST:
            self._names.update(names)
        if len(self._names) > MOST_NAMES:
            self._names.clear()

    def _parts(self, pairs: Sequence[FramePair]) -> tuple[list[str], list[dict[str, Any]]]:
        names = [pair.uuid(self._salt) for pair in pairs]
        known = [name in self._names for name in names]
        parts = zip(pairs, names, known, strict=True)
        return names, [video_part(pair, name, known=seen) for pair, name, seen in parts]


def video_part(pair: FramePair, uuid: str, *, known: bool) -> dict[str, Any]:
    """Return a pair of frames as a part of a message; one that the server knows by its uuid is not sent again."""
    return {"type": "video_url", "video_url": None if known else {"url": pair.data_url()}, "uuid": uuid}
