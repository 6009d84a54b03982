"""The packet index of a video file: which frames it holds, and from which keyframe each is decoded.

The file is demuxed once and no frame is decoded, except for the first one of a file whose header says that it may
be rotated. What counts as a frame:

* A packet with a frame that is displayed. Packets that an edit list discards, that were cut short, or that
  only update references are not frames.
* Nothing before the first keyframe: a stream that begins in the middle of a GOP starts at its first keyframe,
  since the frames before it cannot be decoded.
* Packets that share one presentation time are one frame, the one decoded first.

Frames are numbered by presentation time, which with B-frames differs from the decoding order. Where the container
keeps no usable presentation times (AVI with B-frames, raw streams) frames are counted in the decoder's output,
always from the start of the file.
"""

from __future__ import annotations

import os
import threading
from array import array
from collections import OrderedDict
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple, TypeAlias

import av
import av.container
import av.video.stream
import numpy as np
from numpy.typing import NDArray

from stepscore._untrusted import shown
from stepscore._untrusted.limits import (
    MAX_FRAMES,
    MIN_FPS,
    check_fps,
    check_frame_count,
    check_pixels,
)
from stepscore._untrusted.mp4_boxes import read_mp4_header
from stepscore.episodes.video.opening import (
    Rotation,
    VideoPacket,
    check_video_file,
    may_be_rotated,
    open_video,
    packets,
    read_rotation,
    reason,
    unreadable,
    video_stream,
)
from stepscore.errors import VideoError
from stepscore.types import FloatArray, IntArray

BoolArray: TypeAlias = NDArray[np.bool_]
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
        packet_bytes: Position in the file and length of every packet in decoding order, (packets, 2).
        counted: Whether frames are identified by counting decoder output instead of by ``pts``.
        fps: Frames per second: the stated rate where the times agree with it, else the mean; NaN if unknown.
        width: Width of the upright frame.
        height: Height of the upright frame.
        rotation: Makes a stored frame upright.
        damage: Why the file ends early; empty where it does not.
    """

    times: FloatArray
    pts: IntArray
    packet: IntArray
    key: IntArray
    key_packet: IntArray
    key_pts: IntArray
    key_dts: IntArray
    packet_bytes: IntArray
    counted: bool
    fps: float
    width: int
    height: int
    rotation: Rotation
    damage: str = ""

    def __len__(self) -> int:
        return len(self.times)


class _Packets(NamedTuple):
    """The demuxed packets, one entry each in decoding order."""

    pts: IntArray
    dts: IntArray
    is_key: BoolArray
    is_shown: BoolArray
    places: IntArray
    has_pts: bool
    damage: str


def index_video(path: Path, *, parse: bool = True) -> PacketIndex:
    """Read the index of a file; see the module for what counts as a frame."""
    check_video_file(path)
    try:
        header = read_mp4_header(path)
    except OSError as error:
        raise unreadable(path, error) from error
    with open_video(path, parse=parse) as container:
        stream = video_stream(container, path)
        check_pixels(stream.codec_context.width, stream.codec_context.height, str(path))
        demuxed = _demux(container, stream, path)
        decodable = _decodable(demuxed)
        if not decodable.any():
            raise VideoError(f"{path} has no frames that can be decoded{_because(demuxed.damage)}.")
        counted = _must_count(container, stream, demuxed)
        times, pts, packet = _frames(path, stream, demuxed, decodable, counted=counted)
        fps = _rate(times, stream)
        if not np.isnan(fps):
            check_fps(fps, str(path))
        key_packet = np.flatnonzero(demuxed.is_key)
        key = _start_keys(demuxed.pts[key_packet], key_packet, pts, packet)
        context = stream.codec_context
        rotated = may_be_rotated(header, container.format.name)
        rotation = read_rotation(path, container, stream) if rotated else Rotation()
        width, height = rotation.size(context.width, context.height)
        return PacketIndex(
            times=times,
            pts=pts,
            packet=packet,
            key=np.zeros_like(key) if counted else key,
            key_packet=key_packet,
            key_pts=demuxed.pts[key_packet],
            key_dts=demuxed.dts[key_packet],
            packet_bytes=demuxed.places,
            counted=counted,
            fps=fps,
            width=width,
            height=height,
            rotation=rotation,
            damage=demuxed.damage,
        )


def _demux(
    container: av.container.InputContainer, stream: av.video.stream.VideoStream, path: Path
) -> _Packets:
    rows = array("q")  # six numbers a packet
    number, damage, has_pts = 0, "", True
    codec = stream.codec_context.name
    try:
        for packet in packets(container, stream):
            pts, dts = packet.pts, packet.dts
            if pts is None:
                has_pts = False
                pts = dts if dts is not None else number
            is_cut = packet.is_corrupt or (codec == "gif" and not _is_complete_gif(packet))
            if is_cut:
                damage = "the file is cut off"
            is_shown = not (
                packet.is_discard or is_cut or (codec in ("vp8", "libvpx") and _is_hidden(packet))
            )
            place = -1 if packet.pos is None else packet.pos
            rows.extend(
                (pts, dts if dts is not None else pts, packet.is_keyframe, is_shown, place, packet.size)
            )
            number += 1
            if number > MAX_FRAMES:
                check_frame_count(number, str(path))
    except av.FFmpegError as error:
        damage = reason(error)
    table = np.array(rows, dtype=np.int64).reshape(-1, 6)
    pts_column, dts_column, keys, shown_ones = (np.ascontiguousarray(column) for column in table.T[:4])
    places = np.ascontiguousarray(table[:, 4:])
    if not damage and 0 < number < stream.frames:
        damage = f"the header states {stream.frames} frames"
    return _Packets(pts_column, dts_column, keys != 0, shown_ones != 0, places, has_pts, damage)


def _is_complete_gif(packet: VideoPacket) -> bool:
    """Return whether a GIF frame ends in its empty block; libav does not report one that is cut off."""
    return bytes(memoryview(packet)[-2:]).removesuffix(b";").endswith(b"\0")


def _is_hidden(packet: VideoPacket) -> bool:
    """Return whether a VP8 frame is a reference that is never displayed (RFC 6386, section 9.1)."""
    return not memoryview(packet)[0] & 0x10


def _decodable(demuxed: _Packets) -> BoolArray:
    keys = np.flatnonzero(demuxed.is_key)
    if not len(keys):
        return np.zeros(len(demuxed.pts), dtype=bool)
    # Frames before the first keyframe, and those that lead up to it, refer to frames that are not in the file.
    after = np.arange(len(demuxed.pts)) >= keys[0]
    decodable: BoolArray = demuxed.is_shown & after & (demuxed.pts >= demuxed.pts[keys[0]])
    return decodable


def _must_count(
    container: av.container.InputContainer, stream: av.video.stream.VideoStream, demuxed: _Packets
) -> bool:
    # AVI keeps no presentation times: what libav invents there is in decoding order, wrong under B-frames.
    return not demuxed.has_pts or (container.format.name == "avi" and stream.codec_context.has_b_frames)


def _frames(
    path: Path,
    stream: av.video.stream.VideoStream,
    demuxed: _Packets,
    decodable: BoolArray,
    *,
    counted: bool,
) -> tuple[FloatArray, IntArray, IntArray]:
    """Return times, ticks and packet positions of the frames, by presentation time."""
    packet = np.flatnonzero(decodable).astype(np.int64)
    if counted:
        rate = stream.average_rate or stream.guessed_rate
        if not rate:
            raise VideoError(f"{path} states neither frame times nor a frame rate.")
        number = np.arange(len(packet), dtype=np.int64)
        return number / float(rate), number, packet
    ticks, first = np.unique(demuxed.pts[packet], return_index=True)
    assert stream.time_base is not None  # the demuxer always sets it
    base = stream.time_base
    # Multiply integers where they fit, which is exact; ticks near the limit of 64 bits would wrap around.
    fits = max(abs(int(ticks[0])), abs(int(ticks[-1]))) * base.numerator < 1 << 63
    times: FloatArray = (ticks if fits else ticks.astype(np.float64)) * base.numerator / base.denominator
    if times[-1] - times[0] > MAX_FRAMES / MIN_FPS or np.any(np.diff(times) <= 0):
        raise VideoError(f"{path} has frame times that cannot be read: {times[0]:g} to {times[-1]:g} s.")
    return times, ticks, packet[first]


def _start_keys(key_pts: IntArray, key_packet: IntArray, pts: IntArray, packet: IntArray) -> IntArray:
    """Return the last keyframe that is both displayed and decoded no later than the frame.

    A frame displayed before a keyframe but decoded after it (open GOP) needs the keyframe before.
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

    def get(self, path: Path, *, parse: bool = True) -> PacketIndex:
        try:
            stat = os.stat(path)
        except (OSError, ValueError) as error:  # ValueError: a NUL in the name
            raise VideoError(f"No video at {shown(path)} ({reason(error)}).") from error
        name = (os.path.abspath(path), stat.st_size, stat.st_mtime_ns)
        with self._lock:
            if name in self._indexes:
                self._indexes.move_to_end(name)
                return self._indexes[name]
            building = self._building.setdefault(name, threading.Lock())
        # Other threads that need the same file wait here and then find it; other files are not held up.
        with building:
            try:
                return self._indexes.get(name) or self._add(name, index_video(path, parse=parse))
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
