"""The header of a safetensors file, checked against the file's real size before anything is allocated.

The file starts with eight bytes of length and a JSON object with type, shape and offsets of each tensor; then
comes the data. Offsets must cover the data without gap or overlap, and shapes must match them. A reader then
never allocates more than the size of the file.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeGuard

from stepscore._untrusted.checkpoint_folder import brief
from stepscore._untrusted.files import check_regular, parse_json, shown
from stepscore.errors import ModelError

MAX_HEADER_BYTES = 1 << 25
MAX_DIMENSIONS = 16
BITS: Mapping[str, int] = {
    **dict.fromkeys(("BOOL", "U8", "I8", "F8_E5M2", "F8_E4M3", "F8_E8M0", "F8_E4M3FNUZ", "F8_E5M2FNUZ"), 8),
    **dict.fromkeys(("I16", "U16", "F16", "BF16"), 16),
    **dict.fromkeys(("I32", "U32", "F32"), 32),
    **dict.fromkeys(("I64", "U64", "F64", "C64"), 64),
    "F4": 4,
    "F6_E2M3": 6,
    "F6_E3M2": 6,
}
"""Bits per element of each type."""


@dataclass(frozen=True, slots=True)
class TensorEntry:
    """A tensor's entry in the header: type, shape, and first and last byte in the data."""

    dtype: str
    shape: tuple[int, ...]
    start: int
    stop: int

    @property
    def elements(self) -> int:
        """Number of elements of the tensor."""
        return math.prod(self.shape)


@dataclass(frozen=True)
class Header:
    """A safetensors header.

    Attributes:
        path: The file.
        text: The header's bytes.
        tensors: The tensors, by name, in the order of the header.
        metadata: Text values by key.
    """

    path: Path
    text: bytes
    tensors: Mapping[str, TensorEntry]
    metadata: Mapping[str, str]

    @property
    def elements(self) -> int:
        """Number of elements in all tensors."""
        return sum(tensor.elements for tensor in self.tensors.values())


def read_header(path: Path) -> Header:
    """Return the header of a safetensors file.

    Raises:
        ModelError: The file is damaged; the message names file and tensor.
    """
    size = check_regular(path, ModelError).st_size
    where = shown(path)
    try:
        with path.open("rb") as file:
            start = file.read(8)
            length = struct.unpack("<Q", start)[0] if len(start) == 8 else size
            if length > size - 8:
                raise _damaged(where, f"it has {size} bytes, less than its header")
            if length > MAX_HEADER_BYTES:
                raise _damaged(where, f"its header has {length} bytes; at most {MAX_HEADER_BYTES} are read")
            text = file.read(length)
    except OSError as error:
        raise ModelError(f"Cannot read {where}: {error.strerror or error}.") from error
    content = parse_json(text, f"The header of {where}", ModelError)
    if not isinstance(content, dict):
        raise _damaged(where, "its header is not a JSON object")
    metadata = content.pop("__metadata__", None) or {}
    if not isinstance(metadata, dict) or not all(isinstance(value, str) for value in metadata.values()):
        raise _damaged(where, "its __metadata__ does not map names to texts")
    tensors = {name: _entry(where, name, entry) for name, entry in content.items()}
    _check_places(where, tensors, size - 8 - length)
    return Header(path, text, tensors, metadata)


def _entry(where: str, name: str, entry: Any) -> TensorEntry:
    named = f"tensor {shown(name)}"
    if not isinstance(entry, dict):
        raise _damaged(where, f"{named} is {brief(entry)}")
    dtype, shape, places = (entry.get(field) for field in ("dtype", "shape", "data_offsets"))
    if not isinstance(dtype, str) or dtype not in BITS:
        raise _damaged(where, f"{named}: dtype is {brief(dtype)}")
    if not _sizes(shape) or len(shape) > MAX_DIMENSIONS:
        raise _damaged(where, f"{named}: shape is {brief(shape)}")
    if not _sizes(places) or len(places) != 2:
        raise _damaged(where, f"{named}: data_offsets is {brief(places)}")
    made = TensorEntry(dtype, tuple(shape), *places)
    if 8 * (made.stop - made.start) != BITS[dtype] * made.elements:
        raise _damaged(
            where, f"{named}: {made.stop - made.start} bytes do not hold {dtype} of shape {brief(shape)}"
        )
    return made


def _sizes(value: object) -> TypeGuard[list[int]]:
    return isinstance(value, list) and all(type(item) is int and item >= 0 for item in value)


def _check_places(where: str, tensors: Mapping[str, TensorEntry], size: int) -> None:
    end = 0
    for name, tensor in sorted(tensors.items(), key=lambda item: (item[1].start, item[1].stop)):
        if tensor.start != end:
            raise _damaged(
                where, f"tensor {shown(name)} begins at byte {tensor.start} of the data, not at {end}"
            )
        end = tensor.stop
    if end != size:
        raise _damaged(where, f"its tensors take {end} bytes, but it holds {size}")


def _damaged(where: str, why: str) -> ModelError:
    return ModelError(f"{where} is damaged: {why}. Copy or download it again.")
