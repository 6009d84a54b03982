"""Encode frames into the mp4 files of a LeRobot dataset: one stream per file, many episodes in it."""

from __future__ import annotations

import os
import threading
from contextlib import suppress
from fractions import Fraction
from pathlib import Path
from typing import Literal, NamedTuple, cast

import av
import av.video.stream
from av.packet import Packet
from av.video.frame import PictureType

from stepscore.errors import OptionError
from stepscore.types import Frames

Codec = Literal["h264", "av1"]


class Encoding(NamedTuple):
    """Encoder settings.

    Attributes:
        codec: ``"h264"``, or ``"av1"`` as LeRobot itself writes.
        fps: Frames per second.
        gop: Frames from keyframe to keyframe at most.
        crf: Quality; lower is better and larger.
    """

    codec: Codec
    fps: Fraction
    gop: int
    crf: int

    @property
    def encoder(self) -> str:
        """Name of the encoder in libav."""
        return {"h264": "libx264", "av1": "libsvtav1"}[self.codec]

    def options(self) -> dict[str, str]:
        """Return encoder options. Without B-frames, frame i of the file is packet i at exactly i / fps seconds."""
        common = {"g": str(self.gop), "crf": str(self.crf)}
        if self.codec == "h264":
            return {**common, "preset": "veryfast", "bf": "0", "forced-idr": "1"}
        return {**common, "preset": "11"}


def encode_frame(
    stream: av.video.stream.VideoStream, frame: av.VideoFrame | None
) -> list[Packet[av.video.stream.VideoStream]]:
    """Encode a frame, or flush the encoder with None, and leave the scheduling of threads as it was.

    As root, opening SVT-AV1 (at the first frame) makes its threads and the calling thread real-time. Processes
    started later inherit that, and on a small machine they starve all others.
    """
    if stream.codec_context.is_open:
        return stream.encode(frame)
    with _opening:
        before = _scheduling()
        try:
            return stream.encode(frame)
        finally:
            _restore_scheduling(before)


_opening = threading.Lock()
"""Open one encoder at a time: real-time threads of a second one would be saved, and restored, as if they
had been there before."""

Scheduling = dict[int, tuple[int, int]]  # thread id: policy and real-time priority


def _scheduling() -> Scheduling:
    """Return the scheduling of every thread of this process; empty where the system is not Linux."""
    found: Scheduling = {}
    for thread in _thread_ids():
        with suppress(ProcessLookupError):  # the thread has ended
            found[thread] = (os.sched_getscheduler(thread), os.sched_getparam(thread).sched_priority)
    return found


def _restore_scheduling(before: Scheduling) -> None:
    """Set threads back to ``before``; threads that are new get what the calling thread had."""
    usual = before.get(threading.get_native_id())
    for thread, now in _scheduling().items():
        wanted = before.get(thread, usual)
        if wanted is not None and now != wanted:
            with suppress(ProcessLookupError):
                os.sched_setscheduler(thread, wanted[0], os.sched_param(wanted[1]))


def _thread_ids() -> list[int]:
    try:
        return [int(name) for name in os.listdir("/proc/self/task")]
    except FileNotFoundError:
        return []


class VideoFile:
    """An mp4 being written. Every episode begins with a keyframe, so that it can be decoded on its own."""

    def __init__(self, path: Path, encoding: Encoding, width: int, height: int) -> None:
        if width % 2 or height % 2:
            raise OptionError(
                f"{path.name}: frames are {width}x{height}; a 4:2:0 video needs even sides. "
                "Pad them, or write the camera as images."
            )
        path.parent.mkdir(parents=True, exist_ok=True)
        # SVT-AV1 prints its settings for every file unless its log level is set to errors.
        os.environ.setdefault("SVT_LOG", "1")
        self.path, self.frames = path, 0
        self._encoding, self._begins = encoding, True
        self._container = av.open(str(path), "w")
        stream = self._container.add_stream(encoding.encoder, rate=encoding.fps, options=encoding.options())
        self._stream = cast("av.video.stream.VideoStream", stream)
        self._stream.width, self._stream.height, self._stream.pix_fmt = width, height, "yuv420p"

    def begin_episode(self) -> float:
        """Begin an episode; return the second of its first frame in the file."""
        self._begins = True
        return float(self.frames / self._encoding.fps)

    def add(self, image: Frames) -> None:
        """Append one RGB frame, shape (h, w, 3)."""
        if image.shape != (self._stream.height, self._stream.width, 3):
            raise OptionError(
                f"{self.path.name}: a frame is {image.shape}; the first was "
                f"{(self._stream.height, self._stream.width, 3)} and all must agree."
            )
        frame = av.VideoFrame.from_ndarray(image, format="rgb24")
        frame.pts, frame.time_base = self.frames, 1 / self._encoding.fps
        if self._begins:
            frame.pict_type, self._begins = PictureType.I, False
        self._container.mux(encode_frame(self._stream, frame))
        self.frames += 1

    def size(self) -> int:
        """Return the bytes written so far, without those still in the encoder."""
        return self.path.stat().st_size if self.path.exists() else 0

    def close(self) -> None:
        """Flush the encoder and finish the file."""
        self._container.mux(encode_frame(self._stream, None))
        self._container.close()
