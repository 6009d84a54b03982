"""The digest of weights is of every byte, also where it is remembered."""

from __future__ import annotations

import hashlib
import json
import os
import struct
from pathlib import Path

import pytest

from stepscore.errors import ModelError
from stepscore.models.checkpoints import digests
from stepscore.models.checkpoints.digests import EDGE, file_digest, files_digest, sampled_digest

SIZE = 1 << 20


@pytest.fixture
def weights(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A large file of one tensor, whose digest is remembered."""
    monkeypatch.setattr(digests, "_notes", lambda: tmp_path / "notes")
    monkeypatch.setattr(digests, "REMEMBERED_BYTES", 1000)
    monkeypatch.setattr(digests, "SETTLED_S", -1.0)
    header = json.dumps({"w": {"dtype": "U8", "shape": [SIZE], "data_offsets": [0, SIZE]}}).encode()
    path = tmp_path / "model.safetensors"
    path.write_bytes(struct.pack("<Q", len(header)) + header + bytes(SIZE))
    return path


def change_middle(path: Path) -> None:
    """Change one byte in the middle, and set the time of change back, as a restored backup has it."""
    status = path.stat()
    with path.open("r+b") as file:
        file.seek(status.st_size // 2)
        file.write(b"\x01")
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))
    assert path.stat().st_mtime_ns == status.st_mtime_ns
    assert path.stat().st_size == status.st_size


def test_it_is_the_sha256_of_the_content(weights: Path) -> None:
    expected = hashlib.sha256(weights.read_bytes()).hexdigest()
    assert [file_digest(weights) for _ in range(2)] == [expected] * 2
    assert len(list((weights.parent / "notes").iterdir())) == 1


@pytest.mark.skipif(os.name != "posix", reason="elsewhere ctime is the time of making")
def test_a_byte_changed_in_the_middle_is_noticed_although_size_and_time_are_the_same(weights: Path) -> None:
    before, sampled = files_digest([weights]), sampled_digest([weights])
    change_middle(weights)
    assert file_digest(weights) == hashlib.sha256(weights.read_bytes()).hexdigest()
    assert files_digest([weights]) != before
    # What it replaced, kept for the names in checkpoints of version 0.1, does not see it.
    assert SIZE > 2 * EDGE
    assert sampled_digest([weights]) == sampled


def test_a_file_that_has_just_changed_is_not_remembered(
    weights: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(digests, "SETTLED_S", 3600.0)
    file_digest(weights)
    assert not (weights.parent / "notes").exists()


@pytest.mark.parametrize("note", ["", "[]", "{}", '{"file": 3, "sha256": "x"}', "\x00"])
def test_a_damaged_note_is_read_over(note: str, weights: Path) -> None:
    expected = file_digest(weights)
    (file,) = (weights.parent / "notes").iterdir()
    file.write_text(note)
    assert file_digest(weights) == expected


def test_where_notes_cannot_be_kept_the_file_is_read_again(weights: Path) -> None:
    (weights.parent / "notes").write_text("a file where the folder should be")
    assert file_digest(weights) == hashlib.sha256(weights.read_bytes()).hexdigest()


def test_a_pipe_is_refused_at_once(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "model.safetensors")
    with pytest.raises(ModelError, match="named pipe"):
        file_digest(tmp_path / "model.safetensors")
