"""Boxes of an mp4 file (ISO 14496-12), as far as they decide how it is opened.

libav builds its table of frames from the counts in these boxes before anyone can ask for them: a file of a kilobyte
that claims a hundred million frames would take gigabytes. A frame has at least a byte, so counts that exceed the
file's size are refused first.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO, NamedTuple

from stepscore.errors import VideoError

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


def read_mp4_header(path: Path) -> Mp4Header:
    """Read the header; empty for a file of another format. VideoError where it claims more than the file can hold."""
    frames = 0
    matrices: list[tuple[int, int, int, int]] = []
    with path.open("rb") as file:
        end = file.seek(0, 2)
        for kind, body, stop in _boxes(file, end):
            try:
                if kind in (b"stsz", b"stz2"):
                    file.seek(body + 8)
                    frames += struct.unpack(">I", file.read(4))[0]
                elif kind == b"trun":
                    file.seek(body + 4)
                    frames += struct.unpack(">I", file.read(4))[0]
                elif kind in (b"mvhd", b"tkhd"):
                    # Both headers end in the matrix: mvhd has 28 bytes after it, tkhd 8.
                    file.seek(max(body, stop - 36 - (28 if kind == b"mvhd" else 8)))
                    a, b, _, c, d = struct.unpack(">5i16x", file.read(36))
                    matrices.append((a, b, c, d))
            except struct.error:
                continue  # cut off; libav says so
            if kind == b"cmov":
                raise VideoError(f"{path} has a compressed header. Rewrite it: ffmpeg -i IN -c copy OUT")
    if frames > end:
        raise VideoError(f"{path} claims {frames} frames, and has only {end} bytes.")
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
