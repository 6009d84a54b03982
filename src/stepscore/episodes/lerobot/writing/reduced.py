"""Write some of the episodes of a LeRobot v3.0 dataset as a new dataset; the source is left unchanged.

Episodes are renumbered from 0, in their order. Rows of the data files are copied with the new numbers, packets of
the videos as they are, tasks with their numbers. ``meta/reduced.json`` has the source and the old number of every
episode. Statistics over all episodes are merged from those of the kept ones. ``meta/info.json`` is written last: a
folder without it is an unfinished dataset.
"""

from __future__ import annotations

import json
import shutil
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from stepscore._untrusted import read_json
from stepscore.episodes.lerobot.meta import read_meta
from stepscore.episodes.lerobot.writing.features import Stats
from stepscore.episodes.lerobot.writing.layout import CHUNK
from stepscore.episodes.lerobot.writing.video_copy import copy_spans
from stepscore.episodes.video.video_view import FileSpan
from stepscore.errors import OptionError, SourceError

_NUMBERED = ("episode_index", "index")
"""Features whose values change with the numbers."""
Row = dict[str, Any]


def write_reduced(source: Path, kept: Sequence[int], root: Path) -> Path:
    """Write the dataset and return its folder.

    Args:
        source: The folder of a LeRobot v3.0 dataset.
        kept: The ``episode_index`` of each episode to keep.
        root: The new dataset's folder; new or empty, and not inside the source.
    """
    if root.exists() and (not root.is_dir() or any(root.iterdir())):
        raise OptionError(f"{root} already exists and is not empty. Choose another folder or remove it.")
    if root.resolve().is_relative_to(source.resolve()):
        raise OptionError(f"{root} is inside the dataset {source}. Choose a folder elsewhere.")
    meta = read_meta(source)
    content = read_json(source / "meta" / "info.json", SourceError)
    version = str(content.get("codebase_version"))
    if not version.startswith("v3"):
        raise SourceError(
            f"{source} is LeRobot {version}; only v3.0 can be reduced. "
            "Convert it with lerobot's convert_dataset scripts."
        )
    wanted = sorted(set(kept))
    table = _episodes(source)
    table = table.filter(pc.is_in(table["episode_index"], pa.array(wanted, pa.int64()))).sort_by(
        "episode_index"
    )
    rows: list[Row] = table.to_pylist()
    missing = sorted(set(wanted) - {row["episode_index"] for row in rows})
    if missing or not rows:
        raise OptionError(f"{source} has no episode {missing[0] if missing else ''}; nothing was written.")
    old = [dict(row) for row in rows]
    _number(rows)
    _copy_data(source, root, content, old, rows)
    videos = [name for name, feature in content["features"].items() if feature["dtype"] == "video"]
    for camera in videos:
        _copy_videos(source, root, content, camera, float(meta.info.fps), old, rows)
    _write_meta(source, root, content, table.schema, old, rows)
    return root


def _episodes(source: Path) -> pa.Table:
    files = sorted((source / "meta" / "episodes").glob("*/*.parquet"))
    return pa.concat_tables([pq.read_table(path) for path in files], promote_options="permissive")


def _number(rows: Sequence[Row]) -> None:
    """Give the episodes their new numbers and frame indices, in place, with the statistics of these."""
    first = 0
    for number, row in enumerate(rows):
        moved = {
            "episode_index": number - row["episode_index"],
            "index": first - row["dataset_from_index"],
        }
        for name, by in moved.items():
            for key in row:
                statistic = key.removeprefix(f"stats/{name}/")
                if statistic != key and statistic not in ("std", "count"):
                    row[key] = [value + by for value in row[key]]
        row["episode_index"] = number
        row["dataset_from_index"], row["dataset_to_index"] = first, first + row["length"]
        first += row["length"]


def _copy_data(
    source: Path, root: Path, content: Mapping[str, Any], old: Sequence[Row], rows: Sequence[Row]
) -> None:
    for number, ((chunk, file), places) in enumerate(_by_file(old, "data")):
        path = source / content["data_path"].format(chunk_index=chunk, file_index=file)
        table = pq.read_table(path)
        numbers = table["episode_index"].to_numpy()
        new = root / content["data_path"].format(chunk_index=number // CHUNK, file_index=number % CHUNK)
        new.parent.mkdir(parents=True, exist_ok=True)
        with pq.ParquetWriter(new, table.schema, compression="snappy") as writer:
            for place in places:
                row = rows[place]
                own = table.filter(pa.array(numbers == old[place]["episode_index"]))
                if len(own) != row["length"]:
                    raise SourceError(
                        f"{path}: episode {old[place]['episode_index']} has {len(own)} rows, not {row['length']}."
                    )
                writer.write_table(_renumbered(own, row["episode_index"], row["dataset_from_index"]))
                row["data/chunk_index"], row["data/file_index"] = number // CHUNK, number % CHUNK


def _renumbered(table: pa.Table, episode: int, first: int) -> pa.Table:
    values = {"episode_index": np.full(len(table), episode), "index": first + np.arange(len(table))}
    for name, numbers in values.items():
        place = table.schema.get_field_index(name)
        field = table.schema.field(place)
        table = table.set_column(place, field, pa.array(numbers).cast(field.type))
    return table


def _copy_videos(
    source: Path,
    root: Path,
    content: Mapping[str, Any],
    camera: str,
    fps: float,
    old: Sequence[Row],
    rows: Sequence[Row],
) -> None:
    column = f"videos/{camera}"
    for number, ((chunk, file), places) in enumerate(_by_file(old, column)):
        template = content["video_path"]
        path = source / template.format(video_key=camera, chunk_index=chunk, file_index=file)
        chunk, file = divmod(number, CHUNK)
        new = root / template.format(video_key=camera, chunk_index=chunk, file_index=file)
        spans = [FileSpan(old[i][f"{column}/from_timestamp"], old[i]["length"], fps) for i in places]
        for i, start_s in zip(places, copy_spans(path, spans, new), strict=True):
            rows[i][f"{column}/chunk_index"], rows[i][f"{column}/file_index"] = chunk, file
            rows[i][f"{column}/from_timestamp"] = start_s
            rows[i][f"{column}/to_timestamp"] = start_s + rows[i]["length"] / fps


def _by_file(rows: Sequence[Row], column: str) -> Iterator[tuple[tuple[int, int], list[int]]]:
    """Iterate over the files that hold the episodes: chunk and file, and the episodes' places."""
    files: dict[tuple[int, int], list[int]] = defaultdict(list)
    for place, row in enumerate(rows):
        files[row[f"{column}/chunk_index"], row[f"{column}/file_index"]].append(place)
    yield from files.items()


def _write_meta(
    source: Path,
    root: Path,
    content: dict[str, Any],
    schema: pa.Schema,
    old: Sequence[Row],
    rows: Sequence[Row],
) -> None:
    folder = root / "meta"
    episodes = folder / "episodes" / "chunk-000" / "file-000.parquet"
    episodes.parent.mkdir(parents=True)
    for path in (source / "meta").iterdir():
        if path.is_file() and path.name not in ("info.json", "stats.json"):
            shutil.copyfile(path, folder / path.name)
    for row in rows:
        row |= {"meta/episodes/chunk_index": 0, "meta/episodes/file_index": 0}
    pq.write_table(pa.Table.from_pylist(list(rows), schema=schema), episodes)
    stats = {name: _merged(name, rows) for name in _with_stats(schema)}
    (folder / "stats.json").write_text(json.dumps(stats, indent=4), encoding="utf-8")
    kept = {
        "source": source.resolve().name,
        "episodes": {
            str(new["episode_index"]): was["episode_index"] for was, new in zip(old, rows, strict=True)
        },
    }
    (folder / "reduced.json").write_text(json.dumps(kept, indent=4), encoding="utf-8")
    content |= {
        "total_episodes": len(rows),
        "total_frames": sum(row["length"] for row in rows),
        "splits": {"train": f"0:{len(rows)}"},
    }
    (folder / "info.json").write_text(json.dumps(content, indent=4), encoding="utf-8")


def _with_stats(schema: pa.Schema) -> list[str]:
    """Return the features that every episode has statistics of."""
    return [name[len("stats/") : -len("/mean")] for name in schema.names if name.endswith("/mean")]


def _merged(name: str, rows: Sequence[Row]) -> dict[str, Any]:
    """Merge a feature's statistics over all episodes, keeping their shape; merge quantiles as LeRobot does."""
    prefix = f"stats/{name}/"
    shape = np.shape(rows[0][f"{prefix}mean"])

    def of_row(row: Row) -> Stats:
        low, high, mean, std = (
            np.ravel(np.asarray(row[f"{prefix}{of}"], dtype=np.float64))
            for of in ("min", "max", "mean", "std")
        )
        return Stats(low, high, mean, std, int(np.ravel(row[f"{prefix}count"])[0]))

    parts = [of_row(row) for row in rows]
    whole = Stats.merged(parts)
    merged: dict[str, Any] = {
        of: getattr(whole, of).reshape(shape).tolist() for of in ("min", "max", "mean", "std")
    }
    merged["count"] = [whole.count]
    weights = np.array([part.count for part in parts]) / whole.count
    for key in rows[0]:
        quantile = key.removeprefix(prefix)
        if quantile != key and quantile not in merged:
            values = np.array([np.asarray(row[key], dtype=np.float64) for row in rows])
            merged[quantile] = np.tensordot(weights, values, axes=1).tolist()
    return merged
