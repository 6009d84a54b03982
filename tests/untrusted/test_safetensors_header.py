"""A header is believed only where the file has the bytes it states."""

from __future__ import annotations

import json
import os
import struct
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import save_file

from stepscore._untrusted import safetensors_header
from stepscore._untrusted.safetensors_header import read_header
from stepscore.errors import ModelError

F32 = {"dtype": "F32", "shape": [2, 3], "data_offsets": [0, 24]}


def made(folder: Path, header: object, data: bytes = b"\0" * 24, length: int | None = None) -> Path:
    """A file of any header; ``length`` is what its first eight bytes state."""
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    path = folder / "x.safetensors"
    path.write_bytes(struct.pack("<Q", len(text) if length is None else length) + text + data)
    return path


def test_a_header_states_types_shapes_and_places(tmp_path: Path) -> None:
    arrays: dict[str, Any] = {
        "a": np.zeros((2, 3), np.float32),
        "b": np.zeros(5, np.int8),
        "empty": np.zeros((0, 4)),
    }
    save_file(arrays, tmp_path / "x.safetensors", metadata={"format": "pt"})
    header = read_header(tmp_path / "x.safetensors")
    assert {name: tensor.shape for name, tensor in header.tensors.items()} == {
        "a": (2, 3), "b": (5,), "empty": (0, 4),
    }  # fmt: skip
    assert header.elements == 11
    assert header.metadata == {"format": "pt"}


@pytest.mark.parametrize(
    ("header", "says"),
    [
        ({"a": {**F32, "data_offsets": [0, 20]}}, "20 bytes do not hold F32"),
        ({"a": {**F32, "shape": [10**12, 10**12]}}, "do not hold F32 of shape"),
        ({"a": {**F32, "shape": [-2, -3]}}, r"shape is \[-2, -3\]"),
        ({"a": {**F32, "shape": [2.0, 3]}}, "shape is"),
        ({"a": {**F32, "shape": [True, 6]}}, "shape is"),
        ({"a": {**F32, "shape": [1] * 40}}, "shape is"),
        ({"a": {**F32, "dtype": "PICKLE"}}, "dtype is 'PICKLE'"),
        ({"a": {**F32, "dtype": ["F32"]}}, "dtype is"),
        ({"a": {**F32, "data_offsets": [24, 0]}}, "bytes do not hold"),
        ({"a": {**F32, "data_offsets": [-24, 0]}}, "data_offsets is"),
        ({"a": {**F32, "data_offsets": [0, 24, 48]}}, "data_offsets is"),
        ({"a": {**F32, "data_offsets": [8, 32]}}, "begins at byte 8 of the data, not at 0"),
        ({"a": F32, "b": F32}, "begins at byte 0 of the data, not at 24"),
        ({"a": F32, "b": {**F32, "data_offsets": [24, 48]}}, "take 48 bytes, and it has 24"),
        ({}, "take 0 bytes, and it has 24"),
        ({"a": 3}, "tensor a is 3"),
        ([], "not a JSON object"),
        ({"a": F32, "__metadata__": {"x": 1}}, "__metadata__ is not texts"),
        (b"{" * 9000, "not JSON|nested"),
        (b"\xff\xfe", "not JSON|UTF"),
        (b'{"a": {"dtype": "F32", "shape": [' + b"9" * 5000 + b'], "data_offsets": [0, 24]}}', "64 bits"),
    ],
    ids=str,
)
def test_a_header_that_lies_is_refused_by_file_and_tensor(tmp_path: Path, header: Any, says: str) -> None:
    with pytest.raises(ModelError, match=says) as refused:
        read_header(made(tmp_path, header))
    assert "x.safetensors" in str(refused.value)
    assert len(str(refused.value)) < 700


@pytest.mark.parametrize("length", [25, 10**9, 2**63, 2**64 - 1])
def test_a_length_beyond_the_file_is_refused(tmp_path: Path, length: int) -> None:
    with pytest.raises(ModelError, match="less than its header"):
        read_header(made(tmp_path, b"", length=length))


@pytest.mark.parametrize("content", [b"", b"\0" * 7])
def test_a_file_without_a_header_is_refused(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "x.safetensors").write_bytes(content)
    with pytest.raises(ModelError, match="less than its header"):
        read_header(tmp_path / "x.safetensors")


def test_a_header_of_any_length_is_not_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(safetensors_header, "MAX_HEADER_BYTES", 100)
    with pytest.raises(ModelError, match="the most that is read is 100"):
        read_header(made(tmp_path, {"a" * 200: F32}))


def test_a_pipe_is_not_opened(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "x.safetensors")
    with pytest.raises(ModelError, match="a named pipe"):
        read_header(tmp_path / "x.safetensors")


def test_thirty_gigabytes_are_checked_without_being_read(tmp_path: Path) -> None:
    """A sparse file: its size is real, and reading it would take half a minute."""
    rows = 15 * 10**9 // 4096
    size = rows * 4096 * 2
    path = made(tmp_path, {"a": {"dtype": "BF16", "shape": [rows, 4096], "data_offsets": [0, size]}}, b"")
    head = path.stat().st_size
    os.truncate(path, head + size)
    assert read_header(path).elements == rows * 4096
    os.truncate(path, head + size - 1)
    with pytest.raises(ModelError, match="damaged"):
        read_header(path)
