"""The packet index of a video file: which frames it holds, and from which keyframe each is decoded.

The file is demuxed once and no frame is decoded (a file whose header says that it may be turned gives up
its first frame). What counts as a frame:

* A packet that carries a shown picture. Packets that an edit list discards, that were cut short, or that
  only update references are not frames.
* Nothing before the first keyframe: a stream that begins in the middle of a group of pictures starts, for
  us, at its first keyframe, since the pictures before it cannot be decoded.
* Packets that share one presentation time are one frame, the one that is decoded first.

Frames are numbered by presentation time, which B-frames make differ from the order of decoding. Where the
container keeps no usable presentation times (AVI with B-frames, raw streams) frames are counted as the
decoder puts them out, always from the start of the file.
"""

from __future__ import annotations

import os
import threading
from collections import OrderedDict
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple, TypeAlias

import av
import av.container
import av.video.stream
import numpy as np
from numpy.typing import NDArray

from stepscore.episodes.video.rotation import Turn, may_be_turned, turn_of
from stepscore.errors import VideoError
from stepscore.types import FloatArray, IntArray

VideoPacket: TypeAlias = "av.Packet[av.video.stream.VideoStream]"
BoolArray: TypeAlias = NDArray[np.bool_]
FORMATS = "mp4, mov, webm, mkv, avi, gif"
_CACHED_PACKETS = 1_000_000


@dataclass(frozen=True)
class PacketIndex:
    """Frames of one file and how to reach them. Frames are numbered by presentation time from 0.

    Attributes:
        times: Presentation time of each frame in the file's own clock, seconds, strictly increasing, (n,).
        pts: The same in the stream's ticks, (n,); frame numbers where ``counted``.
        packet: Position of each frame's packet in decoding order, (n,).
        key: For each frame, which keyframe decoding starts from, (n,).
        key_packet: Position of each keyframe in decoding order, (k,).
        key_pts: Presentation tick of each keyframe, (k,).
        key_dts: Decoding tick of each keyframe, (k,).
        counted: Whether frames are told apart by counting decoder output instead of by ``pts``.
        fps: Frames a second: the stated rate where the times agree with it, else the mean; NaN if unknown.
        width: Width of the upright picture.
        height: Height of the upright picture.
        turn: What brings a stored picture upright.
        damage: Why the file ends early; empty where it does not.
    """

    times: FloatArray
    pts: IntArray
    packet: IntArray
    key: IntArray
    key_packet: IntArray
    key_pts: IntArray
    key_dts: IntArray
    counted: bool
    fps: float
    width: int
    height: int
    turn: Turn
    damage: str = ""

    def __len__(self) -> int:
        return len(self.times)


class _Packets(NamedTuple):
    """What demuxing told, one entry a packet in decoding order."""

    pts: IntArray
    dts: IntArray
    is_key: BoolArray
    is_shown: BoolArray
    has_pts: bool
    damage: str


def open_video(path: Path) -> av.container.InputContainer:
    """The opened file; a VideoError says why it is not a video that can be read."""
    if not path.is_file():
        raise VideoError(f"No video at {path}.")
    try:
        return av.open(str(path))
    except (av.FFmpegError, OSError, ValueError) as error:
        raise VideoError(
            f"{path} is not a video that can be read ({reason(error)}). Readable: {FORMATS}."
        ) from error


def video_stream(container: av.container.InputContainer, path: Path) -> av.video.stream.VideoStream:
    """The first moving picture in the file; sound and cover pictures are passed over."""
    for stream in container.streams.video:
        if stream.disposition & av.stream.Disposition.attached_pic:
            continue
        if stream.codec_context is None:
            raise VideoError(f"{path}: there is no decoder for its video codec in this build of PyAV.")
        return stream
    raise VideoError(f"{path} has no video stream. Readable: {FORMATS}.")


def packets(
    container: av.container.InputContainer, stream: av.video.stream.VideoStream
) -> Iterator[VideoPacket]:
    """Packets of the stream from where the file is, without the empty ones that mark its end."""
    return (packet for packet in container.demux(stream) if packet.size)


def reason(error: BaseException) -> str:
    """What went wrong, in libav's words and without its error number."""
    return str(getattr(error, "strerror", None) or error)


def index_video(path: Path) -> PacketIndex:
    """The index of a file, read anew; see the module for what counts as a frame."""
    with open_video(path) as container:
        stream = video_stream(container, path)
        found = _demux(container, stream)
        shown = _decodable(found)
        if not shown.any():
            raise VideoError(f"{path} has no frames that can be decoded{_because(found.damage)}.")
        counted = _must_count(container, stream, found)
        times, pts, packet = _frames(path, stream, found, shown, counted=counted)
        key_packet = np.flatnonzero(found.is_key)
        key = _start_keys(found.pts[key_packet], key_packet, pts, packet)
        context = stream.codec_context
        turn = turn_of(path, container, stream) if may_be_turned(path, container.format.name) else Turn()
        width, height = turn.size(context.width, context.height)
        return PacketIndex(
            times=times,
            pts=pts,
            packet=packet,
            key=np.zeros_like(key) if counted else key,
            key_packet=key_packet,
            key_pts=found.pts[key_packet],
            key_dts=found.dts[key_packet],
            counted=counted,
            fps=_rate(times, stream),
            width=width,
            height=height,
            turn=turn,
            damage=found.damage,
        )


def _demux(container: av.container.InputContainer, stream: av.video.stream.VideoStream) -> _Packets:
    rows: list[tuple[int, int, bool, bool]] = []
    damage, has_pts = "", True
    codec = stream.codec_context.name
    try:
        for packet in packets(container, stream):
            pts, dts = packet.pts, packet.dts
            if pts is None:
                has_pts = False
                pts = dts if dts is not None else len(rows)
            is_cut = packet.is_corrupt or (codec == "gif" and not _ends_well(packet))
            if is_cut:
                damage = "the file is cut off"
            shown = not (packet.is_discard or is_cut or (codec in ("vp8", "libvpx") and _is_hidden(packet)))
            rows.append((pts, dts if dts is not None else pts, packet.is_keyframe, shown))
    except av.FFmpegError as error:
        damage = reason(error)
    table = np.array(rows, dtype=np.int64).reshape(-1, 4)
    pts_column, dts_column, is_key, is_shown = (np.ascontiguousarray(column) for column in table.T)
    if not damage and 0 < len(rows) < stream.frames:
        damage = f"the header promises {stream.frames} frames"
    return _Packets(pts_column, dts_column, is_key != 0, is_shown != 0, has_pts, damage)


def _ends_well(packet: VideoPacket) -> bool:
    """Whether a GIF picture ends in the empty block it must; of one that is cut, libav does not say so."""
    return bytes(memoryview(packet)[-2:]).removesuffix(b";").endswith(b"\0")


def _is_hidden(packet: VideoPacket) -> bool:
    """Whether a VP8 picture is only referred to and never shown (RFC 6386, section 9.1)."""
    return not memoryview(packet)[0] & 0x10


def _decodable(found: _Packets) -> BoolArray:
    keys = np.flatnonzero(found.is_key)
    if not len(keys):
        return np.zeros(len(found.pts), dtype=bool)
    # Pictures before the first keyframe, and those that lead up to it, refer to frames that are not there.
    after = np.arange(len(found.pts)) >= keys[0]
    decodable: BoolArray = found.is_shown & after & (found.pts >= found.pts[keys[0]])
    return decodable


def _must_count(
    container: av.container.InputContainer, stream: av.video.stream.VideoStream, found: _Packets
) -> bool:
    # AVI keeps no presentation times: what libav invents there is in decoding order, wrong under B-frames.
    return not found.has_pts or (container.format.name == "avi" and stream.codec_context.has_b_frames)


def _frames(
    path: Path,
    stream: av.video.stream.VideoStream,
    found: _Packets,
    shown: BoolArray,
    *,
    counted: bool,
) -> tuple[FloatArray, IntArray, IntArray]:
    """Times, ticks and packet positions of the frames, by presentation time."""
    packet = np.flatnonzero(shown).astype(np.int64)
    if counted:
        rate = stream.average_rate or stream.guessed_rate
        if not rate:
            raise VideoError(f"{path} states neither frame times nor a frame rate.")
        number = np.arange(len(packet), dtype=np.int64)
        return number / float(rate), number, packet
    ticks, first = np.unique(found.pts[packet], return_index=True)
    assert stream.time_base is not None  # the demuxer always sets it
    base = stream.time_base
    times: FloatArray = ticks * base.numerator / base.denominator
    return times, ticks, packet[first]


def _start_keys(key_pts: IntArray, key_packet: IntArray, pts: IntArray, packet: IntArray) -> IntArray:
    """The last keyframe that is both shown and decoded no later than the frame.

    A picture shown before a keyframe but decoded after it (open group of pictures) needs the one before.
    """
    shown_before = np.searchsorted(np.maximum.accumulate(key_pts), pts, side="right") - 1
    decoded_before = np.searchsorted(key_packet, packet, side="right") - 1
    return np.maximum(np.minimum(shown_before, decoded_before), 0)


def _rate(times: FloatArray, stream: av.video.stream.VideoStream) -> float:
    stated = float(stream.average_rate or stream.guessed_rate or np.nan)
    if len(times) < 2:
        return stated
    mean = (len(times) - 1) / (times[-1] - times[0])
    return stated if abs(stated - mean) <= 0.01 * mean else float(mean)


def _because(damage: str) -> str:
    return f" ({damage})" if damage else ""


class _Indexes:
    """Indexes by path, size and change time; the least recently used go when there are too many packets."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._lock = threading.Lock()
        self._building: dict[tuple[str, int, int], threading.Lock] = {}
        self._indexes: OrderedDict[tuple[str, int, int], PacketIndex] = OrderedDict()
        self._packets = 0

    def get(self, path: Path) -> PacketIndex:
        try:
            stat = os.stat(path)
        except OSError as error:
            raise VideoError(f"No video at {path} ({reason(error)}).") from error
        name = (os.path.abspath(path), stat.st_size, stat.st_mtime_ns)
        with self._lock:
            if name in self._indexes:
                self._indexes.move_to_end(name)
                return self._indexes[name]
            building = self._building.setdefault(name, threading.Lock())
        # Others who ask for the same file wait here and then find it; other files are not held up.
        with building:
            try:
                return self._indexes.get(name) or self._add(name, index_video(path))
            finally:
                with self._lock:
                    self._building.pop(name, None)

    def _add(self, name: tuple[str, int, int], index: PacketIndex) -> PacketIndex:
        with self._lock:
            self._indexes[name] = index
            self._packets += len(index)
            while self._packets > self._limit and len(self._indexes) > 1:
                self._packets -= len(self._indexes.popitem(last=False)[1])
        return index


packet_index = _Indexes(_CACHED_PACKETS).get
"""The index of a file, kept while it is among those used last: many episodes of one mp4 index it once."""
