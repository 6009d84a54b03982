"""Damage to Parquet tables, and media files that claim more than they hold."""

from __future__ import annotations

import struct
import zlib
from pathlib import Path
from random import Random

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from tests.hostile.mutations import ODD_TEXTS


def damage_parquet(path: Path, rng: Random) -> str:
    """Change a column's values, type or name, or the rows of a Parquet file; keep it a valid one."""
    table = pq.read_table(path, use_threads=False)
    column = rng.randrange(table.num_columns)
    name = table.column_names[column]
    how = rng.choice(
        ("value", "value", "value", "type", "type", "drop", "rename", "rows", "nulls", "twice", "none")
    )
    if how in ("drop", "rename", "twice"):
        names = [f"{name}_" if n == name else n for n in table.column_names]
        changed = {
            "drop": lambda: table.drop_columns([name]),
            "rename": lambda: table.rename_columns(names),
            "twice": lambda: table.append_column(name, table.column(column)),
        }[how]()
    elif how == "rows":
        changed = pa.concat_tables([table, table.slice(0, rng.choice((0, 1, len(table))))])
    elif how == "none":
        changed = table.slice(0, 0)
    else:
        values = _values(table.column(column), how, rng)
        changed = table.set_column(column, name, values)
    pq.write_table(changed, path)
    return f"column {name}: {how}"


def _values(values: pa.ChunkedArray, how: str, rng: Random) -> pa.Array:
    n = len(values)
    if how == "nulls":
        return pa.nulls(n, rng.choice((values.type, pa.null())))
    if how == "value" and n:
        found, at = values.to_pylist(), rng.randrange(n)
        kind = values.type
        odd: tuple[object, ...] = (None,)
        if pa.types.is_floating(kind):
            odd = (None, float("nan"), float("inf"), -1.0, 1e308, 1e18)
        elif pa.types.is_integer(kind):
            odd = (None, -1, 2**31 - 1, 10**6) + ((2**62, -(2**63)) if kind.bit_width == 64 else ())
        elif pa.types.is_string(kind) or pa.types.is_large_string(kind):
            odd = (None, *ODD_TEXTS)
        elif pa.types.is_list(kind):
            odd = (None, [], [None])
        found[at] = rng.choice(odd)
        return pa.array(found, kind)
    others = (
        pa.array([rng.choice(ODD_TEXTS) for _ in range(n)]),
        pa.array([2**62] * n),
        pa.array([float("nan")] * n),
        pa.array([True] * n),
        pa.array([[1, 2]] * n),
        pa.array([{"a": 1}] * n),
        pa.array([b"\xff\x00"] * n),
        pa.array([10**12] * n, pa.timestamp("s")),
        pa.array(["x"] * n).dictionary_encode(),
    )
    return rng.choice(others)


def png(width: int, height: int, *, filled: bool = False) -> bytes:
    """Return a black image of 1 bit a pixel; one that is not ``filled`` holds a single row of what it claims."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    row = bytes(1 + (width + 7) // 8)
    pixels = zlib.compress(row * (height if filled else 1), 1)
    head = struct.pack(">IIBBBBB", width, height, 1, 0, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", pixels) + chunk(b"IEND", b"")


def gif(width: int, height: int, frames: int = 2) -> bytes:
    """Return an animation of a few bytes that claims a screen of this size."""
    image = b"\x2c" + struct.pack("<HHHHB", 0, 0, width, height, 0) + b"\x02\x02\x4c\x01\x00"
    screen = b"GIF89a" + struct.pack("<HHBBB", width, height, 0x80, 0, 0) + b"\0\0\0\xff\xff\xff"
    return screen + image * frames + b";"


def damage_boxes(content: bytes, rng: Random) -> bytes:
    """Return an mp4 with a field of one of its header boxes replaced: sizes, counts, rates, lengths."""
    data = bytearray(content)
    names = (
        b"mvhd",
        b"tkhd",
        b"mdhd",
        b"stts",
        b"stsz",
        b"stsc",
        b"stco",
        b"avc1",
        b"elst",
        b"moov",
        b"trak",
        b"stsd",
    )
    found = [at for name in names if (at := content.find(name)) >= 4]
    if not found:
        return content
    at = rng.choice(found) + rng.choice((-4, 4, 8, 12, 16, 20, 24, 28))
    odd = rng.choice((0, 1, 0xFFFFFFFF, 0x7FFFFFFF, 0x80000000, 0x00FFFFFF, rng.getrandbits(32)))
    data[at : at + 4] = struct.pack(">I", odd)
    return bytes(data)


def noise(rng: Random, *shape: int) -> np.ndarray:
    """Return random pixels of a seed."""
    return np.random.default_rng(rng.getrandbits(32)).integers(0, 256, shape, np.uint8)
