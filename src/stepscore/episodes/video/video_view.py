"""Frames of a video file: decoded from the nearest keyframe, and only as far as the requested frames.

The packet index states where each frame's GOP starts. Wanted frames are gathered into ranges of packets; each range
is one seek, and the packets between two ranges are never decoded. Frames are matched by their presentation time, so
the result is exactly that of decoding the whole file.
"""

from __future__ import annotations

import hashlib
from collections import defaultdict
from collections.abc import Generator, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, islice
from pathlib import Path
from typing import NamedTuple

import av
import numpy as np
from av.video.frame import PictureType, VideoFrame
from av.video.reformatter import VideoReformatter

from stepscore._untrusted.limits import check_fps, check_frame_count, check_read
from stepscore.episodes.episode import file_digest
from stepscore.episodes.image_ops import fit_size
from stepscore.episodes.sampling import check_indices
from stepscore.episodes.video.opening import VideoPacket, open_video, packets, video_stream
from stepscore.episodes.video.packets import PacketIndex, packet_index
from stepscore.episodes.view import ViewInfo
from stepscore.errors import EpisodeError, VideoError
from stepscore.types import FloatArray, Frames, IntArray

ONE_THREAD: dict[str, int] = {"threads": 1} if int(av.__version__.partition(".")[0]) >= 17 else {}
"""Scale on one thread, as PyAV before 17 does: more threads cost more than they save while models compute."""


class FileSpan(NamedTuple):
    """The frames of an episode in a file that holds several episodes.

    Attributes:
        start_s: Time of its first frame on the file's clock, in seconds; ``None`` for the file's first frame.
        n_frames: Number of frames.
        fps: Frame rate of the episode: frame i is the one at ``start_s + i / fps``.
    """

    start_s: float | None
    n_frames: int
    fps: float


@dataclass(frozen=True)
class VideoView:
    """One camera of one episode, in a video file.

    Frames are read upright, in their stored size (pixels are taken as square). Times are counted from the
    episode's first frame. A frame that cannot be decoded is a VideoError, never another frame.

    Attributes:
        path: The file: mp4, mov, webm, mkv, avi or gif, in any codec PyAV decodes (H.264, AV1, VP9 ...).
        span: The episode's frames in it; ``None`` for the whole file.
        sparse: Whether parts of the file may be missing (it is on another machine): the container's own table
            then says which frames there are, and nothing is looked up in the packets.
    """

    path: Path
    span: FileSpan | None = None
    sparse: bool = False

    def info(self) -> ViewInfo:
        """Return count, rate, size and duration, from the packet index."""
        index, frames = self.frames_in_file()
        fps = self.span.fps if self.span else index.fps
        return ViewInfo(
            n_frames=len(frames),
            fps=fps,
            width=index.width,
            height=index.height,
            duration_s=len(frames) / fps if self.span else float(self.timestamps()[-1]) + 1.0 / fps,
            first_frame=int(frames[0]),
        )

    def timestamps(self) -> FloatArray:
        """Return the seconds of every frame from the episode's first: i / fps in a span, else the file's times."""
        index, frames = self.frames_in_file()
        if self.span:
            return np.arange(len(frames)) / self.span.fps
        times: FloatArray = index.times - index.times[0]
        return times

    def read(self, indices: Sequence[int], size: int | None = None) -> Frames:
        """Read the frames at ``indices``, RGB; see :class:`stepscore.episodes.view.View`."""
        index, frames = self.frames_in_file()
        width, height = fit_size(index.width, index.height, size)
        numbers = frames[check_indices(indices, len(frames), self.location())]
        check_read(len(numbers), width, height, self.location())
        images = np.empty((len(numbers), height, width, 3), dtype=np.uint8)
        places: dict[int, list[int]] = defaultdict(list)
        for place, number in enumerate(numbers.tolist()):
            places[number].append(place)
        scaler = VideoReformatter()
        for number, frame in decode_frames(self.path, index, sorted(places)):
            images[places[number]] = _image(frame, index, (width, height), self.path, scaler)
        return images

    def digest(self) -> bytes:
        """Return the sha256 of the file's size, its first and last 64 KiB, and the span."""
        try:
            return hashlib.sha256(file_digest(self.path) + _span_tag(self.span).encode()).digest()
        except EpisodeError as error:
            raise VideoError(str(error)) from error

    def location(self) -> str:
        """Return the path, with the seconds of the span where it does not begin with the file."""
        if self.span is None or self.span.start_s is None:
            return str(self.path)
        end_s = self.span.start_s + self.span.n_frames / self.span.fps
        return f"{self.path} [{self.span.start_s:.2f}..{end_s:.2f} s]"

    def frames_in_file(self) -> tuple[PacketIndex, IntArray]:
        """Return the file's index, and the indices in it of the episode's frames."""
        index = packet_index(self.path, parse=not self.sparse)
        if self.span is None:
            return index, np.arange(len(index))
        return index, _locate(self.span, index, self.location())


def _span_tag(span: FileSpan | None) -> str:
    """Return a span as it enters digests: fixed, so that fingerprints outlive a renamed class or field."""
    return (
        "None"
        if span is None
        else f"Span(start_s={span.start_s!r}, n_frames={span.n_frames!r}, fps={span.fps!r})"
    )


def _locate(span: FileSpan, index: PacketIndex, where: str) -> IntArray:
    """Return the frame nearest each of the span's times; VideoError where one is over half a frame away."""
    if span.n_frames < 1:
        raise VideoError(f"{where}: the episode has no frames.")
    check_frame_count(span.n_frames, where)
    check_fps(span.fps, where)
    start_s = float(index.times[0]) if span.start_s is None else span.start_s
    due = start_s + np.arange(span.n_frames) / span.fps
    half = 0.5 / span.fps
    frames = np.searchsorted(index.times, due - half, side="left")
    near = frames < len(index)
    near[near] = index.times[frames[near]] < due[near] + half
    # Each timestamp needs its own frame.
    found = len(np.unique(frames[near]))
    if found != span.n_frames:
        raise VideoError(
            f"{where}: the episode has {span.n_frames} frames at {span.fps:g} fps, but only {found} "
            f"are in the file, which ends at {index.times[-1]:.3f} s"
            f"{f' ({index.damage})' if index.damage else ''}."
        )
    return frames


class PacketRange(NamedTuple):
    """Packets decoded after one seek, from a keyframe to the last one needed, and the frames wanted of them."""

    key: int
    first: int
    last: int
    frames: list[int]


def plan_ranges(index: PacketIndex, wanted: Sequence[int]) -> list[PacketRange]:
    """Plan the decoding of ``wanted`` (sorted frame indices): a new range where there are packets to skip."""
    ranges: list[PacketRange] = []
    for number in wanted:
        key, packet = int(index.key[number]), int(index.packet[number])
        first = int(index.key_packet[key])
        if ranges and first <= ranges[-1].last + 1:
            ranges[-1].frames.append(number)
            ranges[-1] = ranges[-1]._replace(last=max(ranges[-1].last, packet))
        else:
            ranges.append(PacketRange(key, first, packet, [number]))
    if index.counted and ranges:
        # The decoder's delay is not known beforehand; decoding stops at the last wanted frame.
        return [ranges[0]._replace(last=int(index.packet.max()))]
    return ranges


def decode_frames(path: Path, index: PacketIndex, wanted: Sequence[int]) -> Iterator[tuple[int, VideoFrame]]:
    """Yield index and frame for each of ``wanted`` (sorted, unique); VideoError when one cannot be decoded."""
    with Decoder(path, index) as decoder:
        for part in plan_ranges(index, wanted):
            missing = yield from _decode_range(decoder, index, part)
            if missing and part.key:
                whole = PacketRange(0, int(index.key_packet[0]), part.last, missing)
                missing = yield from _decode_range(decoder, index, whole)
            if missing:
                raise VideoError(
                    f"{path}: frame {missing[0]} of {len(index)} ({index.times[missing[0]]:.3f} s) cannot be "
                    f"decoded{f' ({index.damage})' if index.damage else ''}. "
                    "The file is damaged; re-encode it or leave the episode out."
                )


def _decode_range(
    decoder: Decoder, index: PacketIndex, part: PacketRange
) -> Generator[tuple[int, VideoFrame], None, list[int]]:
    """Yield the frames of a range as they are decoded; return the indices of those that were not."""
    missing: dict[int | None, int] = {int(index.pts[number]): number for number in part.frames}
    key_pts = int(index.key_pts[part.key])
    started = part.key == 0
    try:
        for count, frame in enumerate(decoder.decode(part)):
            if not started and frame.pts is not None and frame.pts >= key_pts:
                # Gradual refresh marks keyframes that are not complete frames; what follows such a one differs
                # from a decode of the whole file.
                if frame.pts != key_pts or frame.pict_type != PictureType.I:
                    break
                started = True
            number = missing.get(count if index.counted else frame.pts)
            if number is not None and not frame.is_corrupt:
                del missing[int(index.pts[number])]
                yield number, frame
                if not missing:
                    break
    except av.FFmpegError:
        pass  # missing frames are reported one by one, with the damage noted in the index
    return sorted(missing.values())


class Decoder:
    """An open file that is decoded range by range."""

    def __init__(self, path: Path, index: PacketIndex) -> None:
        self._path, self._index = path, index
        self._open()

    def _open(self) -> None:
        self._container = open_video(self._path)
        self.stream = video_stream(self._container, self._path)
        # Workers decode side by side; more threads inside each would only add memory and start-up.
        self.stream.codec_context.thread_count = 1

    def __enter__(self) -> Decoder:
        return self

    def __exit__(self, *_: object) -> None:
        self._container.close()

    def decode(self, part: PacketRange) -> Iterator[VideoFrame]:
        """Yield the decoder's output for the packets of a range, flushed at its end.

        Of H.264, unwanted frames that no other frame refers to (most B-frames) are skipped, which saves a third of
        the work on usual videos. Other decoders do not support this, or only for a whole file.
        """
        may_skip = self.stream.codec_context.name == "h264" and not self._index.counted
        wanted = {int(self._index.packet[number]) for number in part.frames}
        for at, packet in zip(range(part.first, part.last + 1), self.packets_from(part.key), strict=False):
            context = self.stream.codec_context
            context.skip_frame = "NONREF" if may_skip and at not in wanted else "DEFAULT"
            yield from context.decode(packet)
        yield from self.stream.codec_context.decode(None)

    def packets_from(self, key: int) -> Iterator[VideoPacket]:
        """Yield the packets from a keyframe on, in decoding order."""
        index = self._index
        # Containers seek by decoding time (mp4) or by presentation time (Matroska); some cannot seek.
        for tick in () if index.counted else (int(index.key_pts[key]), int(index.key_dts[key])):
            try:
                self._container.seek(tick, backward=True, any_frame=False, stream=self.stream)
                keyframe = self._skip_to(int(index.key_pts[key]))
            except av.FFmpegError:
                break
            if keyframe is not None:
                return chain([keyframe], packets(self._container, self.stream))
        self._container.close()
        self._open()
        return islice(packets(self._container, self.stream), int(index.key_packet[key]), None)

    def _skip_to(self, pts: int) -> VideoPacket | None:
        """Return the keyframe packet at ``pts``, or ``None`` when the seek landed behind it."""
        for packet in packets(self._container, self.stream):
            if packet.is_keyframe and packet.pts is not None and packet.pts >= pts:
                return packet if packet.pts == pts else None
        return None


def _image(
    frame: VideoFrame, index: PacketIndex, size: tuple[int, int], path: Path, scaler: VideoReformatter
) -> Frames:
    """Return the frame as an upright RGB image of ``size`` (width, height)."""
    stored = index.rotation.size(index.width, index.height)
    if (frame.width, frame.height) != stored:
        raise VideoError(
            f"{path} changes its frame size from {stored[0]}x{stored[1]} to {frame.width}x{frame.height} "
            f"at {frame.time} s. Re-encode it in one size."
        )
    wanted = index.rotation.size(*size)
    if wanted == stored:
        return index.rotation.apply(np.asarray(frame.to_ndarray(format="rgb24"), dtype=np.uint8))
    shrink = wanted[0] <= stored[0]
    scaled = scaler.reformat(
        frame, *wanted, format="rgb24", interpolation="AREA" if shrink else "BICUBIC", **ONE_THREAD
    )
    return index.rotation.apply(np.asarray(scaled.to_ndarray(), dtype=np.uint8))
