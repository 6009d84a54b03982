"""The parquet files under data/: images kept in them, and the columns that become labels."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from stepscore._untrusted import check_regular
from stepscore._untrusted.limits import MAX_IMAGE_BYTES, MAX_READ_BYTES
from stepscore._untrusted.parquet_files import check_size, open_parquet
from stepscore.episodes.episode import file_digest
from stepscore.errors import EpisodeError, VideoError

SUCCESS, LANGUAGE = "next.success", "language_persistent"
_BATCH_ROWS = 256
"""Number of rows read at a time, so that a long language column is never loaded as a whole."""


class LabelColumns(NamedTuple):
    """The label columns of one episode.

    Attributes:
        success: Whether ``next.success`` was true in any frame; NaN if the column is always null.
        success_at_end: Whether ``next.success`` was true in the last frame that has a value.
        subtasks: Rows of ``language_persistent`` with style ``subtask``: (start second, text), with NaN or an
            empty text for a missing value.
    """

    success: float = math.nan
    subtasks: tuple[tuple[float, str], ...] = ()
    success_at_end: float = math.nan


def read_label_columns(path: Path, columns: Sequence[str]) -> Mapping[int, LabelColumns]:
    """Read the label columns of all episodes in a data file; the result is cached for the next episode."""
    return _label_columns(path, check_regular(path, EpisodeError).st_mtime_ns, tuple(columns))


@lru_cache(maxsize=8)
def _label_columns(path: Path, _mtime_ns: int, columns: tuple[str, ...]) -> Mapping[int, LabelColumns]:
    success: dict[int, float] = {}
    at_end: dict[int, float] = {}
    subtasks: dict[int, tuple[tuple[float, str], ...]] = {}
    with open_parquet(path, EpisodeError) as file:
        for batch in file.iter_batches(_BATCH_ROWS, columns=["episode_index", *columns]):
            episodes = flat_column(batch.column("episode_index")).astype(np.int64)
            firsts = np.unique(episodes, return_index=True)
            for episode, first in zip(*(array.tolist() for array in firsts), strict=True):
                if SUCCESS in columns:
                    stated = flat_column(batch.column(SUCCESS))[episodes == episode]
                    stated = stated[~np.isnan(stated)]
                    best = float(stated.max() > 0) if len(stated) else math.nan
                    success[episode] = np.fmax(success.get(episode, math.nan), best)
                    if len(stated):  # rows are in the order of the frames
                        at_end[episode] = float(stated[-1] > 0)
                if LANGUAGE in columns and episode not in subtasks:
                    # The column is the same in every frame of an episode.
                    subtasks[episode] = tuple(_subtasks(batch.column(LANGUAGE)[first].as_py() or ()))
    return {
        episode: LabelColumns(
            float(success.get(episode, math.nan)), subtasks.get(episode, ()), at_end.get(episode, math.nan)
        )
        for episode in {**success, **subtasks}
    }


def flat_column(column: Any) -> np.ndarray[Any, np.dtype[np.float64]]:
    """Return a column of scalars, or of lists of one, as numbers; NaN for null."""
    if pa.types.is_list(column.type) or pa.types.is_fixed_size_list(column.type):
        column = column.flatten()
    if pa.types.is_boolean(column.type):
        column = column.cast(pa.int8())
    return np.asarray(column.cast(pa.float64()).to_numpy(zero_copy_only=False), dtype=np.float64)


def _subtasks(rows: Sequence[Mapping[str, Any]]) -> Iterator[tuple[float, str]]:
    for row in rows:
        if row.get("style") == "subtask":
            start_s = row.get("timestamp")
            yield math.nan if start_s is None else float(start_s), str(row.get("content") or "")


@dataclass(frozen=True)
class ParquetImages:
    """Encoded images of one episode in an image column: struct<bytes, path>, one row per frame."""

    path: Path
    column: str
    episode: int
    n: int

    def __len__(self) -> int:
        return self.n

    def at(self, path: Path) -> ParquetImages:
        """Return the same images in a file at another path."""
        return replace(self, path=path)

    def load(self, indices: Sequence[int]) -> list[bytes]:
        """Read the images at ``indices``, and only the row groups that hold them."""
        if self.n < 1:
            raise VideoError(f"{self.location()} has no frames.")
        wanted = {index % self.n for index in indices}
        found = dict(self._load(wanted))
        missing = next((index for index in sorted(wanted) if not found.get(index)), None)
        if missing is not None:
            raise VideoError(f"{self.location()}: frame {missing} has no image in the file.")
        return [found[index % self.n] for index in indices]

    def groups_of(self, indices: Sequence[int]) -> list[int]:
        """Return the numbers of the row groups that hold the images at ``indices``."""
        mtime_ns = check_regular(self.path, VideoError).st_mtime_ns
        wanted = {index % self.n for index in indices} if self.n else set()
        return [
            group.number
            for group in row_groups(self.path, mtime_ns, self.episode)
            if not wanted.isdisjoint(group.frames)
        ]

    def _load(self, wanted: set[int]) -> Iterator[tuple[int, bytes]]:
        mtime_ns = check_regular(self.path, VideoError).st_mtime_ns
        left = MAX_READ_BYTES
        with open_parquet(self.path, VideoError) as file:
            groups = row_groups(self.path, mtime_ns, self.episode)
            if (rows := sum(group.rows for group in groups)) != self.n:
                raise VideoError(f"{self.location()}: {rows} rows in the file instead of {self.n}.")
            for group in groups:
                here = {group.row + index - group.frame: index for index in wanted if index in group.frames}
                row = 0
                batches = file.iter_batches(16, row_groups=[group.number], columns=[self.column])
                while here:
                    images = next(batches).column(0)
                    for at in [at for at in here if at < row + len(images)]:
                        content = _image_bytes(images[at - row].as_py())
                        left -= len(content)
                        if left < 0 or len(content) > MAX_IMAGE_BYTES:
                            raise VideoError(f"{self.location()}: frame {here[at]} has too many bytes.")
                        yield here.pop(at), content
                    row += len(images)

    def digest(self) -> bytes:
        """Return the sha256 of the file's size, its first and last 64 KiB, the column and the episode."""
        try:
            place = f"\0{self.column}\0{self.episode}\0{self.n}".encode()
            return hashlib.sha256(file_digest(self.path) + place).digest()
        except EpisodeError as error:
            raise VideoError(str(error)) from error

    def location(self) -> str:
        """Return the file, the column and the episode."""
        return f"{self.path}:{self.column}, episode {self.episode}"


def _image_bytes(cell: object) -> bytes:
    """Return the encoded image of a cell, struct<bytes, path>; empty if there is none."""
    content = cell.get("bytes") if isinstance(cell, dict) else None
    return content if isinstance(content, bytes) else b""


class RowGroup(NamedTuple):
    """An episode's rows in one row group: ``rows`` rows starting at ``row``, the first of which is ``frame``."""

    number: int
    row: int
    frame: int
    rows: int

    @property
    def frames(self) -> range:
        """The frames of the episode in this row group."""
        return range(self.frame, self.frame + self.rows)


def row_groups(path: Path, mtime_ns: int, episode: int) -> tuple[RowGroup, ...]:
    """Return the row groups of a data file that hold an episode's frames."""
    groups: list[RowGroup] = []
    frame = 0
    for number, episodes in enumerate(_episodes_of_groups(path, mtime_ns)):
        mine = np.flatnonzero(episodes == episode)
        if len(mine):
            groups.append(RowGroup(number, int(mine[0]), frame, len(mine)))
            frame += len(mine)
    return tuple(groups)


@lru_cache(maxsize=8)
def _episodes_of_groups(path: Path, _mtime_ns: int) -> tuple[np.ndarray[Any, np.dtype[np.float64]], ...]:
    """Return the ``episode_index`` of every row, by row group; cached for the file's next episode."""
    with open_parquet(path, VideoError) as file:
        check_size(file, ["episode_index"], path, VideoError)
        columns = [
            file.read_row_group(number, columns=["episode_index"]).column(0)
            for number in range(file.metadata.num_row_groups)
        ]
        return tuple(flat_column(column.combine_chunks()) for column in columns)
