"""Columns of numbers and strings in few bytes of JSON; :class:`columns.Packed` says how they are decoded."""

from __future__ import annotations

import base64
from collections.abc import Hashable, Iterable, Sequence
from typing import Any, Generic, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from stepscore.report.page import columns
from stepscore.types import FloatArray

PROGRESS_SCALES: tuple[tuple[columns.Encoding, float], ...] = (("u16", 40_000.0), ("u32", 4e9))
"""Both represent 1, .25, .005 and .99 exactly: a threshold decides on the page as it does in the metrics."""

_TYPES: dict[columns.Encoding, np.dtype[Any]] = {
    "u8": np.dtype("<u1"),
    "u16": np.dtype("<u2"),
    "u32": np.dtype("<u4"),
    "f64": np.dtype("<f8"),
}
_MICROSECONDS = 1e6
MAX_CODE = 65_534
"""Largest integer that :func:`pack_codes` packs."""

Row = TypeVar("Row", bound=Hashable)


def pack_floats(values: ArrayLike) -> columns.Packed:
    """Pack values unchanged, 8 bytes each."""
    return _packed("f64", np.asarray(values, dtype=np.float64))


def pack_progress(values: FloatArray) -> columns.Packed:
    """Pack values in 0..1 as q / scale: exact up to 4 decimals in 2 bytes, else up to 9 in 4 (within 1.3e-10)."""
    for enc, scale in PROGRESS_SCALES:
        codes = _codes(values, enc, scale)
        if enc == "u32" or np.array_equal(unpack(_packed(enc, codes, scale)), values, equal_nan=True):
            break
    return _packed(enc, codes, scale)


def pack_range(values: FloatArray) -> columns.Packed:
    """Pack values over their own range in 2 bytes each, for drawing; the error is at most range / 131,068."""
    known = values[np.isfinite(values)]
    low, high = (float(known.min()), float(known.max())) if len(known) else (0.0, 0.0)
    # A range too small to divide by is drawn as a horizontal line.
    scale = 65_534 / (high - low) if high - low > 1e-300 else 1.0
    return {**_packed("u16", _codes(values - low, "u16", scale), scale), "offset": low}


def pack_codes(codes: FloatArray) -> columns.Packed:
    """Pack integers from 0 to 65,534, and NaN, in 2 bytes each."""
    return _packed("u16", _codes(codes, "u16", 1.0))


def pack_flags(flags: FloatArray) -> columns.Packed:
    """Pack 0, 1 and NaN in a byte each."""
    return _packed("u8", _codes(flags, "u8", 1.0))


def pack_rows(rows: Sequence[int]) -> columns.Packed:
    """Pack numbers of rows in 4 bytes each."""
    return _packed("u32", np.asarray(rows, dtype=np.float64))


def pack_times(
    times: FloatArray, rates: FloatArray, lengths: Sequence[int]
) -> tuple[columns.Packed, columns.Packed | None]:
    """Pack the times of many concatenated curves, and per curve the rate that they are divided by.

    Times of frames (k / rate to a microsecond) are packed as k in 2 or 4 bytes, others in microseconds without a
    rate, and unchanged beyond an hour.
    """
    per_point = np.repeat(rates, lengths)
    if not np.any(np.isnan(per_point)):
        frames = np.round(times * per_point)
        if np.all(np.abs(frames / per_point - times) <= 1e-6):
            enc: columns.Encoding = "u16" if frames.max(initial=0) < 65_535 else "u32"
            return _packed(enc, frames.astype(_TYPES[enc])), pack_floats(rates)
    if times.max(initial=0.0) * _MICROSECONDS >= 4e9 or times.min(initial=0.0) < 0:
        return pack_floats(times), None
    return _packed("u32", _codes(times, "u32", _MICROSECONDS), _MICROSECONDS), None


def unpack(packed: columns.Packed) -> FloatArray:
    """Return the numbers as the page decodes them."""
    raw = np.frombuffer(base64.b64decode(packed["b64"]), _TYPES[packed["enc"]])
    if packed["enc"] == "f64":
        return raw.astype(np.float64)
    values = packed.get("offset", 0) + raw.astype(np.float64) / packed.get("scale", 1)
    return np.where(raw == np.iinfo(raw.dtype).max, np.nan, values)


def dictionary(values: Iterable[str | None]) -> columns.Dict:
    """Encode strings as indices into the distinct ones, in order of appearance; -1 for ``None``."""
    table = Table[str]()
    codes = [-1 if value is None else table.number(value) for value in values]
    return {"values": table.rows, "codes": codes}


class Table(Generic[Row]):
    """A list in which each distinct row is kept once."""

    def __init__(self) -> None:
        self.rows: list[Row] = []
        self._numbers: dict[Row, int] = {}

    def number(self, row: Row) -> int:
        """Return the index of the row, adding it if it is new."""
        index = self._numbers.setdefault(row, len(self.rows))
        if index == len(self.rows):
            self.rows.append(row)
        return index


def _codes(values: FloatArray, enc: columns.Encoding, scale: float) -> NDArray[np.unsignedinteger[Any]]:
    kind = _TYPES[enc]
    unknown = ~np.isfinite(values)
    codes = np.round(np.where(unknown, 0.0, values) * scale)
    return np.where(unknown, np.iinfo(kind).max, codes).astype(kind)


def _packed(enc: columns.Encoding, values: NDArray[Any], scale: float = 1.0) -> columns.Packed:
    packed: columns.Packed = {
        "enc": enc,
        "b64": base64.b64encode(values.astype(_TYPES[enc]).tobytes()).decode(),
    }
    return packed if scale == 1.0 else {**packed, "scale": scale}
