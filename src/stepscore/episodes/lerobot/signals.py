"""State, action and other numbers of an episode, from the columns of a LeRobot dataset's data files."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from stepscore._untrusted import check_regular, shown
from stepscore._untrusted.parquet_files import check_size, open_parquet, read_parquet
from stepscore.episodes import Episode
from stepscore.episodes.lerobot.data_files import RowGroup, flat_column, row_groups
from stepscore.episodes.lerobot.meta import INDEXES, Meta
from stepscore.episodes.signals import Signal, dimension_names
from stepscore.errors import EpisodeError, UnknownNameError
from stepscore.types import FloatArray

FIRST = ("observation.state", "action")


class SignalColumn(NamedTuple):
    """A column of the data files, and the names of its dimensions."""

    name: str
    dimensions: tuple[str, ...]


@dataclass(frozen=True)
class DataFileSignals:
    """The signals of one episode in a data file, which may hold other episodes, too.

    Attributes:
        path: The data file.
        episode: The episode's ``episode_index``.
        n: Number of frames.
        fps: Frames per second: row i belongs to frame i, at i / fps seconds.
        columns: The columns to read.
    """

    path: Path
    episode: int
    n: int
    fps: float
    columns: tuple[SignalColumn, ...]

    def at(self, path: Path) -> DataFileSignals:
        """Return the same signals in a file at another path."""
        return replace(self, path=path)

    def column_names(self) -> list[str]:
        """Return the names of the columns that are read."""
        return [column.name for column in self.columns]

    def groups(self) -> list[int]:
        """Return the numbers of the row groups that hold the episode."""
        return [group.number for group in self._groups()]

    def _groups(self) -> tuple[RowGroup, ...]:
        mtime_ns = check_regular(self.path, EpisodeError).st_mtime_ns
        return row_groups(self.path, mtime_ns, self.episode)

    def read(self) -> tuple[Signal, ...]:
        """Read the columns, and only the row groups that hold the episode."""
        groups = self._groups()
        if (rows := sum(group.rows for group in groups)) != self.n:
            raise EpisodeError(
                f"{shown(self.path)}: episode {self.episode} has {rows} rows instead of {self.n}."
            )
        with open_parquet(self.path, EpisodeError) as file:
            present = [column for column in self.columns if column.name in file.schema_arrow.names]
            names = [column.name for column in present]
            check_size(file, names, self.path, EpisodeError)
            tables = [
                file.read_row_group(group.number, columns=names, use_threads=False).slice(
                    group.row, group.rows
                )
                for group in groups
            ]
            table = pa.concat_tables(tables)
            times = np.arange(self.n) / self.fps
            return tuple(
                Signal(
                    name, dimensions, times, _matrix(table.column(name), len(dimensions), self._where(name))
                )
                for name, dimensions in present
            )

    def _where(self, column: str) -> str:
        return f"{shown(self.path)}, episode {self.episode}: {column}"


def signal_columns(meta: Meta) -> tuple[SignalColumn, ...]:
    """Return the numeric columns of a dataset, state and action first; without those that index its frames."""
    features = meta.info.features
    names = [name for name, feature in features.items() if feature.is_signal and name not in INDEXES]
    ordered = [name for name in FIRST if name in names] + [name for name in names if name not in FIRST]
    return tuple(
        SignalColumn(name, dimension_names(features[name].width, features[name].names)) for name in ordered
    )


def _matrix(column: Any, width: int, where: str) -> FloatArray:
    """Return a column as (rows, width); a null row, and a null in a row, is NaN."""
    array = column.combine_chunks()
    if isinstance(array, pa.ChunkedArray):
        array = pa.concat_arrays(array.chunks)
    known = array.is_valid().to_numpy(zero_copy_only=False)
    values: FloatArray = np.full((len(array), width), np.nan)
    # Lists that are null have no values.
    nested = pa.types.is_nested(array.type)
    try:
        flat = flat_column(array if nested else array.drop_null())
        lengths = pc.unique(pc.list_value_length(array.drop_null())).to_pylist() if nested else [1]
        wrong = [n for n in lengths if n != width]
        if wrong:
            raise ValueError(f"a row has {wrong[0]}")
        values[known] = flat.reshape(-1, width)
    except (pa.ArrowException, ValueError) as error:
        raise EpisodeError(f"{where} is not {width} numbers in every row ({error}).") from error
    return values


def read_state(episode: Episode, columns: Sequence[str]) -> FloatArray:
    """Read columns of the data files side by side, one row per frame of the main view, (n, dimensions).

    Args:
        episode: An episode of a LeRobot dataset on disk.
        columns: Names of numeric features, such as ``observation.state``.

    Raises:
        EpisodeError: The source records no state, or another number of rows than frames.
        UnknownNameError: It records no such column.
    """
    data = Path(episode.source).expanduser() / "data"
    if episode.source_index is None or not data.is_dir():
        raise EpisodeError(
            f"Episode {episode.id}: the state ({', '.join(columns)}) is needed, but {episode.source or 'its source'} "
            "is not a LeRobot dataset on disk. Train without -T state to score such sources."
        )
    rows = _episodes(data, tuple(columns)).get(episode.source_index)
    frames = len(episode.views[episode.main_view].timestamps())
    if rows is None or len(rows) != frames:
        has = "none" if rows is None else str(len(rows))
        raise EpisodeError(
            f"Episode {episode.id} has {frames} frames and {has} rows of {', '.join(columns)}."
        )
    return rows


@lru_cache(maxsize=4)
def _episodes(data: Path, columns: tuple[str, ...]) -> Mapping[int, FloatArray]:
    by_episode: dict[int, list[FloatArray]] = {}
    for path in sorted(data.glob("**/*.parquet")):
        with open_parquet(path, EpisodeError) as file:
            names = file.schema_arrow.names
        unknown = next((name for name in columns if name not in names), None)
        if unknown is not None:
            raise UnknownNameError("column", unknown, names, where=str(path))
        table = read_parquet(path, EpisodeError, ["episode_index", *columns])
        try:
            parts = [np.stack(table[name].to_numpy()).reshape(table.num_rows, -1) for name in columns]
            rows = np.concatenate(parts, axis=1).astype(np.float64)
        except (TypeError, ValueError) as error:
            raise EpisodeError(
                f"{path}: {', '.join(columns)} are not numbers in every row ({error})."
            ) from error
        indices = table["episode_index"].to_numpy()
        for episode in np.unique(indices):
            by_episode.setdefault(int(episode), []).append(rows[indices == episode])
    return {episode: np.concatenate(parts) for episode, parts in by_episode.items()}
