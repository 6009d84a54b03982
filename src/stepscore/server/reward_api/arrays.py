"""Arrays in requests: ``.npy`` without pickle, whose header is checked before anything is read, and nested lists."""

from __future__ import annotations

import io
import math
from typing import Any

import numpy as np

from stepscore.server.reward_api.limits import Limits, RefusedError
from stepscore.types import Frames

_MAGIC = b"\x93NUMPY"
_HEADER_BYTES = 4096


def read_frames(content: bytes | memoryview, limits: Limits, what: str) -> Frames:
    """Return the frames (n, h, w, 3) of a ``.npy`` file, without a copy.

    Args:
        content: The file.
        limits: What is taken.
        what: The name of the part, for messages.
    """
    shape, offset = _header(bytes(content[:_HEADER_BYTES]), what)
    layout = checked_shape(shape, limits, what)
    size = math.prod(shape)
    if len(content) - offset != size:
        raise RefusedError(
            400, f"{what}: the header states {size} bytes of frames, and {len(content) - offset} follow it."
        )
    return _as_frames(np.frombuffer(content, np.uint8, size, offset).reshape(shape), layout)


def listed_frames(value: object, limits: Limits, what: str) -> Frames:
    """Return the frames of nested lists of integers from 0 to 255."""
    shape = _listed_shape(value)
    layout = checked_shape(shape, limits, what)
    try:
        array = np.asarray(value)
    except (ValueError, TypeError, OverflowError):
        raise RefusedError(400, f"{what}: the lists are not of equal length.") from None
    if array.shape != shape or array.dtype.kind not in "iu" or array.min() < 0 or array.max() > 255:
        raise RefusedError(400, f"{what}: frames must be integers from 0 to 255 in lists of equal length.")
    return _as_frames(array.astype(np.uint8), layout)


def checked_shape(shape: tuple[int, ...], limits: Limits, what: str) -> str:
    """Return whether colours are the last axis (``"last"``) or the second, of frames that may be read."""
    if len(shape) == 4 and all(shape) and (shape[-1] == 3 or shape[1] == 3):
        layout = "last" if shape[-1] == 3 else "second"
        height, width = shape[1:3] if layout == "last" else shape[2:]
    else:
        raise RefusedError(400, f"{what}: frames must have the shape (n, h, w, 3), got {_short(shape)}.")
    if shape[0] > limits.frames:
        raise RefusedError(413, f"{what}: {shape[0]} frames; at most {limits.frames} are taken.")
    if height * width > limits.pixels:
        raise RefusedError(
            413, f"{what}: {width}x{height} pixels; at most {limits.pixels} a frame are taken."
        )
    return layout


def _header(start: bytes, what: str) -> tuple[tuple[int, ...], int]:
    """Return the shape in a header, and where the data begins."""
    if not start.startswith(_MAGIC):
        raise RefusedError(400, f"{what} is not a .npy file.")
    stream = io.BytesIO(start)
    try:
        version = np.lib.format.read_magic(stream)
        if version not in ((1, 0), (2, 0)):
            raise ValueError(f"version {version} is not read")
        read = (
            np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
        )
        shape, fortran, dtype = read(stream, max_header_size=_HEADER_BYTES)
    except Exception as error:  # the header is parsed text of a stranger
        raise RefusedError(400, f"{what}: invalid .npy header ({str(error)[:200]}).") from None
    if dtype != np.dtype(np.uint8) or fortran:
        order = ", in Fortran order" if fortran else ""
        raise RefusedError(400, f"{what}: frames must be uint8 in C order, got {str(dtype)[:50]}{order}.")
    if any(isinstance(side, bool) or not 0 <= side < 1 << 40 for side in shape):
        raise RefusedError(400, f"{what}: invalid shape {_short(shape)}.")
    return tuple(shape), stream.tell()


def _listed_shape(value: object) -> tuple[int, ...]:
    shape: list[int] = []
    while isinstance(value, list) and len(shape) < 5:
        shape.append(len(value))
        value = value[0] if value else None
    return tuple(shape)


def _as_frames(array: Frames, layout: str) -> Frames:
    return np.ascontiguousarray(array.transpose(0, 2, 3, 1)) if layout == "second" else array


def _short(shape: Any) -> str:
    return str(tuple(shape))[:80]
