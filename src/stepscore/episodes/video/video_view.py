"""Frames of a video file: decoded from the nearest keyframe, and only as far as the frames asked for.

The packet index says where each frame's group of pictures starts. Wanted frames are gathered into runs of
packets; each run is one seek, and the packets between two runs are never decoded. Frames are matched by
their presentation time, so what comes back is exactly what decoding the whole file would have given.
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

from stepscore.episodes.episode import file_digest
from stepscore.episodes.image_ops import fit_size
from stepscore.episodes.sampling import check_indices
from stepscore.episodes.video.packets import (
    PacketIndex,
    VideoPacket,
    open_video,
    packet_index,
    packets,
    video_stream,
)
from stepscore.episodes.view import ViewInfo
from stepscore.errors import EpisodeError, VideoError
from stepscore.types import FloatArray, Frames, IntArray


class Span(NamedTuple):
    """Where in a file an episode lies, for files that hold several or state their own frame rate.

    Attributes:
        start_s: Time of its first frame on the file's clock; ``None`` for the file's first frame.
        n_frames: How many frames it has.
        fps: Its frame rate: frame i is the one at ``start_s + i / fps``.
    """

    start_s: float | None
    n_frames: int
    fps: float


@dataclass(frozen=True)
class VideoView:
    """One camera of one episode, in a video file.

    Frames come out upright, in their stored size (pixels are taken as square). Times are counted from the
    episode's first frame. A frame that cannot be decoded is a VideoError, never another frame.

    Attributes:
        path: The file: mp4, mov, webm, mkv, avi or gif, in any codec PyAV decodes (H.264, AV1, VP9 ...).
        span: Where the episode lies in it; ``None`` for the whole file.
    """

    path: Path
    span: Span | None = None

    def info(self) -> ViewInfo:
        """Count, rate, size and duration, from the packet index."""
        index, frames = self._frames()
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
        """Seconds of every frame from the episode's first: i / fps in a span, else the file's own times."""
        index, frames = self._frames()
        if self.span:
            return np.arange(len(frames)) / self.span.fps
        times: FloatArray = index.times - index.times[0]
        return times

    def read(self, indices: Sequence[int], size: int | None = None) -> Frames:
        """The frames at ``indices``, RGB; see :class:`stepscore.episodes.view.View`."""
        index, frames = self._frames()
        width, height = fit_size(index.width, index.height, size)
        numbers = frames[check_indices(indices, len(frames), self.location())]
        pictures = np.empty((len(numbers), height, width, 3), dtype=np.uint8)
        places: dict[int, list[int]] = defaultdict(list)
        for place, number in enumerate(numbers.tolist()):
            places[number].append(place)
        for number, frame in decode_frames(self.path, index, sorted(places)):
            pictures[places[number]] = _picture(frame, index, (width, height), self.path)
        return pictures

    def digest(self) -> bytes:
        """sha256 of the file's size, its first and last 64 KiB, and the span."""
        try:
            return hashlib.sha256(file_digest(self.path) + repr(self.span).encode()).digest()
        except EpisodeError as error:
            raise VideoError(str(error)) from error

    def location(self) -> str:
        """The path, with the seconds of the span where it does not start the file."""
        if self.span is None or self.span.start_s is None:
            return str(self.path)
        end_s = self.span.start_s + self.span.n_frames / self.span.fps
        return f"{self.path} [{self.span.start_s:.2f}..{end_s:.2f} s]"

    def _frames(self) -> tuple[PacketIndex, IntArray]:
        """The file's index, and the numbers in it of the episode's frames."""
        index = packet_index(self.path)
        if self.span is None:
            return index, np.arange(len(index))
        return index, _locate(self.span, index, self.location())


def _locate(span: Span, index: PacketIndex, where: str) -> IntArray:
    """The frame nearest each of the span's times; VideoError where one is over half a frame away."""
    if span.n_frames < 1:
        raise VideoError(f"{where}: the episode has no frames.")
    start_s = float(index.times[0]) if span.start_s is None else span.start_s
    due = start_s + np.arange(span.n_frames) / span.fps
    half = 0.5 / span.fps
    frames = np.searchsorted(index.times, due - half, side="left")
    near = frames < len(index)
    near[near] = index.times[frames[near]] < due[near] + half
    # Each moment needs a frame of its own.
    met = len(np.unique(frames[near]))
    if met != span.n_frames:
        raise VideoError(
            f"{where}: the episode has {span.n_frames} frames at {span.fps:g} fps, but only {met} "
            f"are in the file, which ends at {index.times[-1]:.3f} s"
            f"{f' ({index.damage})' if index.damage else ''}."
        )
    return frames


class Run(NamedTuple):
    """Packets decoded in one go, from a keyframe to the last one needed, and the frames wanted of them."""

    key: int
    first: int
    last: int
    frames: list[int]


def plan_runs(index: PacketIndex, wanted: Sequence[int]) -> list[Run]:
    """How to decode ``wanted`` (sorted frame numbers): a new run where there are packets to jump over."""
    runs: list[Run] = []
    for number in wanted:
        key, packet = int(index.key[number]), int(index.packet[number])
        first = int(index.key_packet[key])
        if runs and first <= runs[-1].last + 1:
            runs[-1].frames.append(number)
            runs[-1] = runs[-1]._replace(last=max(runs[-1].last, packet))
        else:
            runs.append(Run(key, first, packet, [number]))
    if index.counted and runs:
        # How late the decoder puts a frame out is not known beforehand; decoding stops when it has.
        return [runs[0]._replace(last=int(index.packet.max()))]
    return runs


def decode_frames(path: Path, index: PacketIndex, wanted: Sequence[int]) -> Iterator[tuple[int, VideoFrame]]:
    """Numbers and decoded frames of ``wanted`` (sorted, each once); VideoError when one cannot be decoded."""
    with _Source(path, index) as source:
        for run in plan_runs(index, wanted):
            missing = yield from _decode_run(source, index, run)
            if missing and run.key:
                whole = Run(0, int(index.key_packet[0]), run.last, missing)
                missing = yield from _decode_run(source, index, whole)
            if missing:
                raise VideoError(
                    f"{path}: frame {missing[0]} of {len(index)} ({index.times[missing[0]]:.3f} s) cannot be "
                    f"decoded{f' ({index.damage})' if index.damage else ''}. "
                    "The file is damaged; re-encode it or leave the episode out."
                )


def _decode_run(
    source: _Source, index: PacketIndex, run: Run
) -> Generator[tuple[int, VideoFrame], None, list[int]]:
    """Yields the run's frames as they come; returns the numbers of those that did not."""
    missing: dict[int | None, int] = {int(index.pts[number]): number for number in run.frames}
    key_pts = int(index.key_pts[run.key])
    started = run.key == 0
    try:
        for count, frame in enumerate(source.decode(run)):
            if not started and frame.pts is not None and frame.pts >= key_pts:
                # Gradual refresh marks keyframes that are not whole pictures; what follows such a one is not
                # what it would be in a decode of the whole file.
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
        pass  # what is missing is reported by frame, with what the index knows of the damage
    return sorted(missing.values())


class _Source:
    """An open file that is decoded run by run."""

    def __init__(self, path: Path, index: PacketIndex) -> None:
        self._path, self._index = path, index
        self._open()

    def _open(self) -> None:
        self._container = open_video(self._path)
        self._stream = video_stream(self._container, self._path)
        # Workers decode side by side; more threads inside each would only add memory and start-up.
        self._stream.codec_context.thread_count = 1

    def __enter__(self) -> _Source:
        return self

    def __exit__(self, *_: object) -> None:
        self._container.close()

    def decode(self, run: Run) -> Iterator[VideoFrame]:
        """What the decoder puts out for the packets of a run, flushed at its end.

        Of H.264, pictures that nothing refers to and nobody wants (most B-frames) are passed over, which
        saves a third of the work on usual videos. Other decoders do not do this, or only for a whole file.
        """
        may_skip = self._stream.codec_context.name == "h264" and not self._index.counted
        wanted = {int(self._index.packet[number]) for number in run.frames}
        for at, packet in zip(range(run.first, run.last + 1), self._packets_from(run.key), strict=False):
            context = self._stream.codec_context
            context.skip_frame = "NONREF" if may_skip and at not in wanted else "DEFAULT"
            yield from context.decode(packet)
        yield from self._stream.codec_context.decode(None)

    def _packets_from(self, key: int) -> Iterator[VideoPacket]:
        index = self._index
        # Containers seek by decoding time (mp4) or by presentation time (Matroska), and some not at all.
        for tick in () if index.counted else (int(index.key_pts[key]), int(index.key_dts[key])):
            try:
                self._container.seek(tick, backward=True, any_frame=False, stream=self._stream)
                found = self._skip_to(int(index.key_pts[key]))
            except av.FFmpegError:
                break
            if found is not None:
                return chain([found], packets(self._container, self._stream))
        self._container.close()
        self._open()
        return islice(packets(self._container, self._stream), int(index.key_packet[key]), None)

    def _skip_to(self, pts: int) -> VideoPacket | None:
        """The keyframe packet at ``pts``, or ``None`` when the seek landed behind it."""
        for packet in packets(self._container, self._stream):
            if packet.is_keyframe and packet.pts is not None and packet.pts >= pts:
                return packet if packet.pts == pts else None
        return None


def _picture(frame: VideoFrame, index: PacketIndex, size: tuple[int, int], path: Path) -> Frames:
    """The frame as an upright RGB picture of ``size`` (width, height)."""
    stored = index.turn.size(index.width, index.height)
    if (frame.width, frame.height) != stored:
        raise VideoError(
            f"{path} changes its picture size from {stored[0]}x{stored[1]} to {frame.width}x{frame.height} "
            f"at {frame.time} s. Re-encode it in one size."
        )
    wanted = index.turn.size(*size)
    if wanted == stored:
        return index.turn.apply(np.asarray(frame.to_ndarray(format="rgb24"), dtype=np.uint8))
    shrink = wanted[0] <= stored[0]
    scaled = frame.reformat(*wanted, format="rgb24", interpolation="AREA" if shrink else "BICUBIC")
    return index.turn.apply(np.asarray(scaled.to_ndarray(), dtype=np.uint8))
