"""Parquet files on another machine: the footer, and the columns and row groups that are read."""

from __future__ import annotations

import struct
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol, Self

from stepscore._untrusted.parquet_files import open_parquet
from stepscore.episodes.remote.ranges import Range, RemoteFile
from stepscore.episodes.signals import Signal
from stepscore.errors import VideoError

WHOLE_BYTES = 1 << 18
"""Files up to this size are fetched at once."""

_TAIL_BYTES = 1 << 16
"""Bytes of the end that are fetched first: they hold most footers, and the fingerprint needs them."""


def fetch_columns(file: RemoteFile, columns: Collection[str], groups: Collection[int] | None = None) -> Path:
    """Fetch columns of a Parquet file; return its place on this machine.

    Args:
        file: The file.
        columns: Names of top-level columns; those that the file does not have are passed over.
        groups: Numbers of the row groups; ``None`` for all.
    """
    if file.size <= WHOLE_BYTES:
        return file.fetch_all()
    path = file.fetch([(0, _TAIL_BYTES), (file.size - _TAIL_BYTES, file.size)])
    with path.open("rb") as content:
        content.seek(file.size - 8)
        (length,) = struct.unpack("<I4x", content.read(8))
    file.fetch([(file.size - 8 - length, file.size)])
    wanted: list[Range] = []
    with open_parquet(path, VideoError) as opened:
        metadata = opened.metadata
        for number in range(metadata.num_row_groups) if groups is None else groups:
            group = metadata.row_group(number)
            for place in range(group.num_columns):
                chunk = group.column(place)
                if chunk.path_in_schema.partition(".")[0] in columns or chunk.path_in_schema in columns:
                    starts = (chunk.dictionary_page_offset, chunk.data_page_offset)
                    start = min(at for at in starts if at is not None)
                    wanted.append((start, start + chunk.total_compressed_size))
    return file.fetch(wanted)


class _Images(Protocol):
    """Encoded images in an image column of one file."""

    def __len__(self) -> int: ...
    def load(self, indices: Sequence[int]) -> list[bytes]: ...
    def digest(self) -> bytes: ...
    def groups_of(self, indices: Sequence[int]) -> Collection[int]: ...
    def at(self, path: Path) -> Self: ...
    @property
    def column(self) -> str: ...


@dataclass(frozen=True)
class RemoteImages:
    """Encoded images of one episode in an image column of a remote file; see ``EncodedImages``."""

    file: RemoteFile
    images: _Images

    def __len__(self) -> int:
        return len(self.images)

    def load(self, indices: Sequence[int]) -> list[bytes]:
        """Read the images at ``indices``; fetches the row groups that hold them."""
        # Where the file is on this machine is asked here: the handle may come from another one.
        images = self.images.at(fetch_columns(self.file, ["episode_index"]))
        fetch_columns(self.file, [images.column], images.groups_of(indices))
        return images.load(indices)

    def digest(self) -> bytes:
        """Return the digest of the images, as of a local file."""
        path = self.file.fetch([(0, _TAIL_BYTES), (self.file.size - _TAIL_BYTES, self.file.size)])
        return self.images.at(path).digest()

    def location(self) -> str:
        """Return the URL of the file, and the column."""
        return f"{self.file.url}:{self.images.column}"


class _Signals(Protocol):
    """Reads signals from the columns of a file."""

    def read(self) -> tuple[Signal, ...]: ...
    def groups(self) -> Collection[int]: ...
    def column_names(self) -> Sequence[str]: ...
    def at(self, path: Path) -> Self: ...


@dataclass(frozen=True)
class RemoteSignals:
    """Signals of one episode in a remote data file; see ``SignalReader``."""

    file: RemoteFile
    signals: _Signals

    @property
    def path(self) -> Path:
        """The file's place on this machine."""
        return self.file.path

    def read(self) -> tuple[Signal, ...]:
        """Read the columns; fetches them in the row groups that hold the episode."""
        signals = self.signals.at(fetch_columns(self.file, ["episode_index"]))
        fetch_columns(self.file, signals.column_names(), signals.groups())
        return signals.read()
