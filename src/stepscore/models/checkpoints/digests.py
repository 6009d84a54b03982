"""Digests of a checkpoint's files: the sha256 of the whole content, cached for large files.

Hashing a gigabyte takes about a second. The digest of a large file is cached in the user's cache folder
together with the file's path, size, inode and modification times in nanoseconds. If any of these differ, the
digest is computed again.
"""

from __future__ import annotations

import hashlib
import os
import time
from collections.abc import Iterable, Sequence
from contextlib import suppress
from pathlib import Path

from stepscore._files import write_json
from stepscore._untrusted import check_regular, read_json, shown
from stepscore._untrusted.safetensors_header import Header, read_header
from stepscore.errors import ModelError, StepScoreError
from stepscore.models.calls.answer_cache import default_path

REMEMBERED_BYTES = 1 << 26
"""Smallest file size for which the digest is cached; hashing less takes under a tenth of a second."""
SETTLED_S = 2.0
"""Seconds since the last change before a digest is cached, so that changes within a clock tick are noticed."""
EDGE = 64 * 1024


def file_digest(path: Path) -> str:
    """Return the sha256 of a file's content; ModelError if the path is unreadable or not a regular file."""
    status = check_regular(path, ModelError)
    if status.st_size < REMEMBERED_BYTES:
        return digest_of([path])
    real = os.path.realpath(path)
    state = [real, status.st_size, status.st_mtime_ns, status.st_ctime_ns, status.st_ino, status.st_dev]
    note = _notes() / f"{hashlib.sha256(os.fsencode(real)).hexdigest()[:32]}.json"
    if (known := _remembered(note, state)) is not None:
        return known
    digest = digest_of([path])
    if time.time_ns() - max(status.st_mtime_ns, status.st_ctime_ns) > SETTLED_S * 1e9:
        # If the cache cannot be written, the file is hashed again next time.
        with suppress(StepScoreError, UnicodeEncodeError):
            write_json(note, {"file": state, "sha256": digest}, make_folder=True)
    return digest


def _notes() -> Path:
    return default_path().parent / "digests"


def _remembered(note: Path, state: Sequence[object]) -> str | None:
    with suppress(StepScoreError):
        found = read_json(note, ModelError, max_bytes=1 << 16)
        if isinstance(found, dict) and found.get("file") == state:
            digest = found.get("sha256")
            return digest if isinstance(digest, str) and len(digest) == 64 else None
    return None


def digest_of(paths: Iterable[Path]) -> str:
    """Return the sha256 of the concatenated content of files."""
    digest = hashlib.sha256()
    block = bytearray(1 << 20)
    view = memoryview(block)
    for path in paths:
        check_regular(path, ModelError)
        try:
            with path.open("rb", buffering=0) as file:
                while count := file.readinto(block):
                    digest.update(view[:count])
        except OSError as error:
            raise ModelError(f"Cannot read {shown(path)}: {error.strerror or error}.") from error
    return digest.hexdigest()


def files_digest(paths: Iterable[Path]) -> str:
    """Return a digest of the names and contents of files."""
    lines = "".join(f"{path.name} {file_digest(path)}\n" for path in paths)
    return hashlib.sha256(lines.encode("utf-8", "surrogateescape")).hexdigest()


def sampled_digest(paths: Iterable[Path]) -> str:
    """Return the digest that checkpoints of version 0.1 use to identify their encoder's weights.

    The sha256 covers every file's size and header and the first and last 64 KiB of every tensor, so changes
    in the middle of a large tensor go unnoticed.
    """
    digest = hashlib.sha256()
    for path in paths:
        header = read_header(path)
        with path.open("rb") as file:
            digest.update(f"{path.name} {path.stat().st_size} ".encode() + header.text)
            for start, stop in _places(header):
                for at in sorted({start, max(start, stop - EDGE)}):
                    file.seek(at)
                    digest.update(file.read(min(EDGE, stop - at)))
    return digest.hexdigest()


def _places(header: Header) -> list[tuple[int, int]]:
    first = 8 + len(header.text)
    return [(first + tensor.start, first + tensor.stop) for tensor in header.tensors.values()]
