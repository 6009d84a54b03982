"""Small videos for tests, whose frames carry their own number.

The number is burnt into each frame as eight blocks of black or white, so that a test can read from the
pixels which frame it was given, whatever codec, size or rotation the frame went through.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from fractions import Fraction
from pathlib import Path

import av
import numpy as np
from numpy.typing import NDArray

from stepscore.episodes.lerobot.writing.video_encoding import encode_frame

os.environ.setdefault("SVT_LOG", "1")  # the AV1 encoder prints its settings otherwise

Image = NDArray[np.uint8]
BITS = 10
CODECS = {
    "h264": ("libx264", "yuv420p", {"preset": "ultrafast", "crf": "18"}),
    "av1": ("libsvtav1", "yuv420p", {"preset": "12", "crf": "25"}),
    "vp9": ("libvpx-vp9", "yuv420p", {"deadline": "realtime", "cpu-used": "8", "crf": "20", "b": "0"}),
    "vp8": ("libvpx", "yuv420p", {"deadline": "realtime", "cpu-used": "8", "crf": "4", "b": "1M"}),
    "mpeg4": ("mpeg4", "yuv420p", {"q": "2", "qmin": "2", "qmax": "4"}),
    "gif": ("gif", "rgb8", {}),
}


def numbered(number: int, width: int = 96, height: int = 64) -> Image:
    """An image that shows ``number``: bits from left to right in the top half, a moving bar below."""
    image = np.full((height, width, 3), 90, dtype=np.uint8)
    edges = np.linspace(0, width, BITS + 1).round().astype(int)
    for bit in range(BITS):
        image[: height // 2, edges[bit] : edges[bit + 1]] = 235 if number >> bit & 1 else 20
    left = number * 3 % width
    image[height // 2 :, left : left + max(2, width // 12)] = (230, 60, 40)
    return image


def number_of(image: Image) -> int:
    """The number burnt into an image, read from the middle of each block."""
    height, width = image.shape[:2]
    row = image[height // 8 : height // 8 * 3].mean(axis=(0, 2))
    centres = ((np.arange(BITS) + 0.5) * width / BITS).astype(int)
    return int(sum(1 << bit for bit, x in enumerate(centres) if row[x] > 128))


def numbers_of(frames: Iterable[Image]) -> list[int]:
    """The numbers burnt into several images."""
    return [number_of(frame) for frame in frames]


def write_video(
    path: Path,
    n: int = 30,
    *,
    codec: str = "h264",
    size: tuple[int, int] = (96, 64),
    fps: int = 30,
    gop: int = 12,
    b_frames: int = 0,
    ticks: Sequence[int] | None = None,
    time_base: Fraction | None = None,
    rotation: int = 0,
    mirror: bool = False,
    pix_fmt: str | None = None,
    audio: bool = False,
    frames: Iterable[Image] | None = None,
    options: dict[str, str] | None = None,
    container_options: dict[str, str] | None = None,
) -> Path:
    """A video of numbered frames.

    Args:
        path: Where to write it; the suffix decides the container.
        n: Number of frames.
        codec: One of CODECS.
        size: Width and height.
        fps: Frame rate; also the clock, unless ``time_base`` is given.
        gop: Frames from keyframe to keyframe.
        b_frames: Greatest number of B-frames in a row.
        ticks: Presentation time of each frame in ``time_base``; evenly spaced by default.
        time_base: The clock of ``ticks``.
        rotation: Degrees anticlockwise by which a player must rotate the frame.
        mirror: A player must mirror it left to right, too.
        pix_fmt: Another pixel format than the codec's usual one.
        audio: Add a sound track, before the video.
        frames: These instead of numbered ones.
        options: Further encoder options.
        container_options: Options of the container, such as ``movflags``.
    """
    encoder, usual_pix_fmt, usual_options = CODECS[codec]
    path.parent.mkdir(parents=True, exist_ok=True)
    given = usual_options | {"g": str(gop), "bf": str(b_frames)} | (options or {})
    if codec in ("gif", "vp8", "vp9", "av1"):
        given.pop("bf")
    with av.open(str(path), "w", options=container_options or {}) as container:
        sound = container.add_stream("aac", rate=16000) if audio else None
        stream = container.add_stream(encoder, rate=fps, options=given)
        assert isinstance(stream, av.VideoStream)
        stream.width, stream.height = size
        stream.pix_fmt = pix_fmt or usual_pix_fmt
        if time_base:
            stream.codec_context.time_base = time_base
        if rotation or mirror:
            stream.set_display_rotation(rotation, hflip=mirror)
        for i, image in enumerate(frames or (numbered(i, *size) for i in range(n))):
            frame = av.VideoFrame.from_ndarray(image, format="rgb24")
            frame.pts = ticks[i] if ticks else i
            frame.time_base = time_base or Fraction(1, fps)
            container.mux(encode_frame(stream, frame))
        container.mux(encode_frame(stream, None))
        if sound is not None:
            silence = np.zeros((1, 16000 * n // fps), dtype=np.float32)
            samples = av.AudioFrame.from_ndarray(silence, format="fltp", layout="mono")
            samples.sample_rate = 16000
            container.mux(sound.encode(samples))
            container.mux(sound.encode(None))
    return path


def copy_packets(source: Path, target: Path, first: int = 0, last: int | None = None) -> Path:
    """The packets first..last-1 of a video, in decoding order, without decoding: may begin without a keyframe."""
    with av.open(str(source)) as given, av.open(str(target), "w") as taken:
        stream = given.streams.video[0]
        copy = taken.add_stream_from_template(stream, opaque=True)
        for number, packet in enumerate(p for p in given.demux(stream) if p.size):
            if first <= number and (last is None or number < last):
                packet.stream = copy
                taken.mux(packet)
    return target


def repeat(source: Path, target: Path, times: int) -> Path:
    """A video over and over in one file, without encoding: a long video for little work."""
    with av.open(str(target), "w") as taken:
        copy = None
        offset = 0
        for _ in range(times):
            with av.open(str(source)) as given:
                stream = given.streams.video[0]
                copy = copy or taken.add_stream_from_template(stream, opaque=True)
                for packet in given.demux(stream):
                    if packet.size:
                        assert packet.pts is not None
                        assert packet.dts is not None
                        packet.pts, packet.dts = packet.pts + offset, packet.dts + offset
                        packet.stream = copy
                        taken.mux(packet)
                offset += stream.duration or 0
    return target


def cut(source: Path, target: Path, share: float) -> Path:
    """The first ``share`` of a file's bytes, as a broken download leaves them."""
    content = source.read_bytes()
    target.write_bytes(content[: int(len(content) * share)])
    return target


def decode_all(path: Path) -> list[Image]:
    """Every frame as a plain sequential decode gives it: the oracle for keyframe seeks."""
    with av.open(str(path)) as container:
        return [np.asarray(frame.to_ndarray(format="rgb24"), np.uint8) for frame in container.decode(video=0)]
