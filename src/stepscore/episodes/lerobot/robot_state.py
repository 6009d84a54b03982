"""The robot's recorded state at each frame of an episode, from a LeRobot dataset's data files."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from pathlib import Path

import numpy as np

from stepscore.episodes import Episode
from stepscore.episodes.parquet_files import open_parquet, read_parquet
from stepscore.errors import EpisodeError, UnknownNameError
from stepscore.types import FloatArray


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
            f"Episode {episode.id}: the state ({', '.join(columns)}) is needed, and {episode.source or 'its source'} "
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
