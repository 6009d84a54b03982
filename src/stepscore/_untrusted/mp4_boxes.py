"""Boxes of an mp4 file (ISO 14496-12), as far as they decide how it is opened.

libav builds its table of frames from the counts in these boxes before anyone can ask for them: a file of a kilobyte
that claims a hundred million frames would take gigabytes. A frame has at least a byte, so counts that exceed the
file's size, or what is read of any video, are refused first.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

from stepscore._untrusted.limits import MAX_FRAMES, check_frame_count
from stepscore.errors import VideoError

MAX_ENTRIES = 2 * MAX_FRAMES
"""Most frames of all tracks together, sound included; libav keeps 24 bytes and more for each."""

_PARENTS = frozenset(
    (b"moov", b"trak", b"mdia", b"minf", b"stbl", b"moof", b"traf", b"edts", b"dinf", b"udta", b"mvex")
)
_MAX_BOXES = 200_000
"""Boxes looked at; a fragmented recording has about three for each fragment."""


class Mp4Header(NamedTuple):
    """The header of an mp4 file.

    Attributes:
        frames: Frames that its tables claim, of all tracks.
        matrices: a, b, c, d of every display matrix, in 16.16 fixed point.
    """

    frames: int
    matrices: tuple[tuple[int, int, int, int], ...]


@dataclass
class _Track:
    """The boxes of a track that decide how many entries libav's table of it has."""

    handler: bytes = b""
    sample_size: int = 0
    samples: int = 0
    durations: tuple[int, int] = (0, 0)

    @property
    def frames(self) -> int:
        """Entries of the table; 0 for sound that is not compressed, whose many samples share an entry."""
        is_plain_sound = self.handler == b"soun" and self.sample_size > 0 and self.durations == (1, 1)
        return 0 if is_plain_sound else self.samples


def read_mp4_header(path: Path) -> Mp4Header:
    """Read the header; empty for a file of another format.

    Raises:
        VideoError: It claims more frames than the file can hold, or more than are read of any file.
    """
    fragments = 0
    tracks: list[_Track] = []
    matrices: list[tuple[int, int, int, int]] = []
    with path.open("rb") as file:

        def read(layout: str, start: int) -> tuple[Any, ...]:
            file.seek(start)
            return struct.unpack(layout, file.read(struct.calcsize(layout)))

        end = file.seek(0, 2)
        for kind, body, stop in _boxes(file, end):
            if kind == b"trak" or not tracks:
                tracks.append(_Track())
            try:
                if kind == b"hdlr":
                    (tracks[-1].handler,) = read(">4s", body + 8)
                elif kind == b"stts":
                    count, _, duration = read(">III", body + 4)
                    tracks[-1].durations = (count, duration)
                elif kind in (b"stsz", b"stz2"):
                    size, samples = read(">II", body + 4)
                    tracks[-1].sample_size = size if kind == b"stsz" else 0
                    tracks[-1].samples = max(tracks[-1].samples, samples)
                elif kind == b"trun":
                    fragments += read(">I", body + 4)[0]
                elif kind in (b"mvhd", b"tkhd"):
                    # Both headers end in the matrix: mvhd has 28 bytes after it, tkhd 8.
                    a, b, _, c, d = read(">5i16x", max(body, stop - 36 - (28 if kind == b"mvhd" else 8)))
                    matrices.append((a, b, c, d))
            except struct.error:
                continue  # cut off; libav says so
            if kind == b"cmov":
                raise VideoError(f"{path} has a compressed header. Rewrite it: ffmpeg -i IN -c copy OUT")
    frames = fragments + sum(track.frames for track in tracks)
    if frames > end:
        raise VideoError(f"{path} claims {frames} frames, and has only {end} bytes.")
    check_frame_count(frames, str(path), MAX_ENTRIES)
    return Mp4Header(frames, tuple(matrices))


def _boxes(file: BinaryIO, end: int) -> Iterator[tuple[bytes, int, int]]:
    """Yield kind, start of content and end of every box, without recursion."""
    spans = [(0, end)]
    for _ in range(_MAX_BOXES):
        while spans and spans[-1][0] + 8 > spans[-1][1]:
            spans.pop()
        if not spans:
            return
        start, stop = spans.pop()
        file.seek(start)
        size, kind = struct.unpack(">I4s", file.read(8).ljust(8, b"\0"))
        body = start + 8
        if size == 1:
            size, body = struct.unpack(">Q", file.read(8).ljust(8, b"\0"))[0], start + 16
        size = size or stop - start
        if size < 8:
            continue
        spans.append((start + size, stop))
        inside = min(start + size, stop)
        yield kind, body, inside
        if kind in _PARENTS:
            spans.append((body, inside))
