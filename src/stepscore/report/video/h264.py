"""Write frames as H.264 in mp4, each at its exact timestamp, with few frames in memory."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from stepscore._files import atomic_path
from stepscore.episodes import View
from stepscore.errors import VideoError
from stepscore.types import FloatArray, Frames

if TYPE_CHECKING:
    import av

TIME_BASE = 90_000
"""Ticks per second. A frame of any common frame rate lasts an integral number of ticks."""

COARSE_TIME_BASE = 1_000
"""Ticks per second if frames are hours apart."""

MAX_TICKS = 2**31 - 1
"""Largest number of ticks that mp4 can store between two frames."""

MAX_DECODED_BYTES = 48 * 2**20
"""Largest size of the decoded frames kept in memory, in bytes."""

# Without B-frames, packet i is frame i. The number of threads is fixed, so that the output does not depend on
# the machine's cores, and above one, so that encoding overlaps with drawing.
_OPTIONS = {"crf": "20", "preset": "veryfast", "bf": "0", "threads": "4"}


def stream_frames(
    view: View, size: int | None = None, indices: Sequence[int] | None = None
) -> Iterator[Frames]:
    """Yield frames of a view in order, with a bounded number of them in memory.

    Args:
        view: The camera to read.
        size: Longer side in pixels; ``None`` keeps the recorded size.
        indices: Indices of the frames to yield; all by default.
    """
    info = view.info()
    scale = 1.0 if size is None else size / max(info.width, info.height)
    count = max(1, int(MAX_DECODED_BYTES / (info.width * info.height * scale**2 * 3)))
    chosen = range(info.n_frames) if indices is None else indices
    for start in range(0, len(chosen), count):
        yield from view.read(chosen[start : start + count], size)


def write_h264(
    path: Path,
    frames: Iterable[Frames],
    times: FloatArray,
    *,
    duration_s: float,
    fps: float,
    keyframe_s: float = 1.0,
) -> Path:
    """Write a video that any browser plays; the same frames give the same bytes.

    Args:
        path: Output file; an existing one is replaced once the new one is complete.
        frames: RGB frames of equal size, shape (h, w, 3), consumed one at a time. If a side is odd, the last
            column or row is repeated, because 4:2:0 needs even sides.
        times: Timestamp of each frame in seconds.
        duration_s: End of the last frame in seconds.
        fps: Nominal frame rate, stored in the file.
        keyframe_s: Seconds between keyframes, the most that a seek has to decode.

    Raises:
        VideoError: The frames cannot be encoded.
    """
    import av

    rate = max(Fraction(fps).limit_denominator(1001), Fraction(1, 1001))
    options = {**_OPTIONS, "g": str(max(1, round(fps * keyframe_s)))}
    with atomic_path(path, make_folder=True) as temporary:
        try:
            _encode(temporary, frames, times, duration_s, rate, options)
        except av.FFmpegError as error:
            if isinstance(error, OSError):  # a disk error, not a video error
                raise
            raise VideoError(f"{path.name} cannot be encoded as H.264: {error.strerror}.") from error
    return path


def _encode(
    path: Path,
    frames: Iterable[Frames],
    times: FloatArray,
    duration_s: float,
    rate: Fraction,
    options: dict[str, str],
) -> None:
    import av

    time_base = _time_base(np.diff((*times, duration_s)))
    ticks = [round(float(t) * time_base) for t in (*times, duration_s)]
    durations = dict(zip(ticks[:-1], np.diff(ticks).tolist(), strict=True))
    # By default, mp4 uses finer ticks, which limit the gap between two frames to fewer hours.
    container_options = {"movflags": "+faststart", "video_track_timescale": str(time_base)}
    with av.open(str(path), "w", format="mp4", options=container_options) as container:
        container.metadata["comment"] = "StepScore"  # lets `plot` recognise its own videos
        stream = container.add_stream("libx264", rate=rate, options=options)
        stream.codec_context.time_base = Fraction(1, time_base)
        stream.pix_fmt = "yuv420p"

        def mux(frame: av.VideoFrame | None) -> None:
            for packet in stream.encode(frame):
                if packet.pts is not None:
                    packet.duration = durations[packet.pts]
                container.mux(packet)

        for tick, image in zip(ticks[:-1], map(_even, frames), strict=True):
            if tick == ticks[0]:
                stream.height, stream.width = image.shape[:2]
            frame = av.VideoFrame.from_ndarray(image, format="rgb24")
            frame.pts, frame.time_base = tick, Fraction(1, time_base)
            mux(frame)
        mux(None)


def _time_base(gaps: FloatArray) -> int:
    longest = float(np.max(gaps))
    for ticks in (TIME_BASE, COARSE_TIME_BASE):
        if longest * ticks <= MAX_TICKS:
            return ticks
    raise VideoError(
        f"Two frames are {longest / 3600:.0f} hours apart; H.264 in mp4 holds at most "
        f"{MAX_TICKS // COARSE_TIME_BASE // 3600}."
    )


def _even(image: Frames) -> Frames:
    height, width = image.shape[:2]
    if height % 2 or width % 2:
        image = np.pad(image, ((0, height % 2), (0, width % 2), (0, 0)), mode="edge")
    return np.ascontiguousarray(image)
