"""Small files that claim to be large: images, videos and tables that a careless reader allocates by their headers."""

from __future__ import annotations

import struct
import zlib
from pathlib import Path

from tests.media import write_video


def _chunk(kind: bytes, content: bytes) -> bytes:
    return struct.pack(">I", len(content)) + kind + content + struct.pack(">I", zlib.crc32(kind + content))


def _zeros(n: int) -> bytes:
    """Zeros as zlib compresses them, made by repeating what it makes of a million of them."""
    whole, rest = divmod(n, 1_000_000)
    blocks = []
    for size in (1_000_000, rest):
        squeeze = zlib.compressobj(9, zlib.DEFLATED, -15)
        blocks.append(squeeze.compress(bytes(size)) + squeeze.flush(zlib.Z_FULL_FLUSH))
    # Adler's checksum of n zeros: the first sum stays 1, the second counts them.
    return b"\x78\xda" + blocks[0] * whole + blocks[1] + b"\x03\0" + struct.pack(">HH", n % 65521, 1)


def png(width: int, height: int, *, frames: int = 0) -> bytes:
    """A black PNG of any size in a few kilobytes, complete; with ``frames``, an animated one (APNG)."""
    header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    data = _zeros(height * (1 + 3 * width))
    parts = [_chunk(b"IHDR", header)]
    if frames:
        parts.append(_chunk(b"acTL", struct.pack(">II", frames, 0)))
        parts.append(_chunk(b"fcTL", struct.pack(">IIIIIHHBB", 0, width, height, 0, 0, 1, 10, 0, 0)))
    parts.append(_chunk(b"IDAT", data))
    for number in range(1, frames):
        frame = struct.pack(">IIIIIHHBB", 2 * number - 1, width, height, 0, 0, 1, 10, 0, 0)
        parts += [_chunk(b"fcTL", frame), _chunk(b"fdAT", struct.pack(">I", 2 * number) + data)]
    return b"\x89PNG\r\n\x1a\n" + b"".join(parts) + _chunk(b"IEND", b"")


def png_header(width: int, height: int) -> bytes:
    """The header of a PNG of any size, and nothing after it."""
    header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + _chunk(b"IHDR", header) + _chunk(b"IDAT", b"") + _chunk(b"IEND", b"")


def gif(width: int, height: int, frames: int = 2) -> bytes:
    """A GIF whose canvas has any size, with frames of one pixel."""
    screen = b"GIF89a" + struct.pack("<HHBBB", width, height, 0x80, 0, 0) + bytes((0, 0, 0, 255, 255, 255))
    frame = b"!\xf9\x04\0\x0a\0\0\0," + struct.pack("<HHHHB", 0, 0, 1, 1, 0) + b"\x02\x02D\x01\0"
    return screen + frame * frames + b";"


def mp4_claiming(path: Path, frames: int, size: int) -> Path:
    """A video whose tables claim ``frames`` frames of a byte each, in a sparse file of ``size`` bytes."""
    content = bytearray(write_video(path, 5).read_bytes())
    for box, fields in ((b"stsz", (1, frames)), (b"stsc", (1, 1, frames, 1)), (b"stts", (1, frames, 1))):
        struct.pack_into(f">{len(fields)}I", content, content.index(box) + 8, *fields)
    path.write_bytes(content)
    with path.open("r+b") as file:
        file.truncate(size)
    return path
