"""File paths of a LeRobot dataset being written, and its meta/ folder."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

import pyarrow as pa
import pyarrow.parquet as pq

from stepscore.episodes.lerobot.writing.features import Feature, Stats
from stepscore.episodes.lerobot.writing.video_encoding import Encoding

Version = Literal["v3.0", "v2.1"]
CHUNK, DATA_MB, VIDEO_MB = 1000, 100, 200
_PATHS = {
    "v3.0": (
        "data/chunk-{chunk_index:03d}/file-{file_index:03d}.parquet",
        "videos/{video_key}/chunk-{chunk_index:03d}/file-{file_index:03d}.mp4",
    ),
    "v2.1": (
        "data/chunk-{episode_chunk:03d}/episode_{episode_index:06d}.parquet",
        "videos/chunk-{episode_chunk:03d}/{video_key}/episode_{episode_index:06d}.mp4",
    ),
}


class FileLayout:
    """The file each episode goes to. Data and every camera are numbered separately.

    Args:
        root: The dataset's folder.
        version: LeRobot's version of the layout.
        episodes_per_file: Start a new file after this many; ``None``: only when it gets large.
    """

    def __init__(self, root: Path, version: Version, episodes_per_file: int | None) -> None:
        self.root, self.version = root, version
        self.episodes_per_file = 1 if version == "v2.1" else episodes_per_file
        self.data_path, self.video_path = _PATHS[version]
        self._files: dict[str, int] = defaultdict(int)
        self._episodes: dict[str, int] = defaultdict(int)

    def place(self, camera: str | None, episode: int, size: int) -> tuple[Path, bool]:
        """Return the file for an episode's data or one camera of it, and whether it is a new file.

        Args:
            camera: The camera, or ``None`` for the data file.
            episode: The ``episode_index``.
            size: Bytes of the file that is being written now.
        """
        kind = _column(camera)
        limit = (DATA_MB if camera is None else VIDEO_MB) * 2**20
        is_new = not self._episodes[kind] or size >= limit or self._episodes[kind] == self.episodes_per_file
        if is_new and self._episodes[kind]:
            self._files[kind] += 1
            self._episodes[kind] = 0
        self._episodes[kind] += 1
        chunk, file = divmod(self._files[kind], CHUNK)
        template = self.data_path if camera is None else self.video_path
        path = template.format(
            video_key=camera,
            chunk_index=chunk,
            file_index=file,
            episode_index=episode,
            episode_chunk=episode // CHUNK,
        )
        return self.root / path, is_new

    def numbers(self, camera: str | None) -> dict[str, int]:
        """Return the columns of meta/ that name the file last returned by :meth:`place`; v2.1 needs none."""
        if self.version == "v2.1":
            return {}
        chunk, file = divmod(self._files[_column(camera)], CHUNK)
        return {f"{_column(camera)}/chunk_index": chunk, f"{_column(camera)}/file_index": file}


def _column(camera: str | None) -> str:
    return "data" if camera is None else f"videos/{camera}"


def write_meta(
    layout: FileLayout,
    features: Mapping[str, Feature],
    rows: Sequence[Mapping[str, Any]],
    stats: Sequence[Mapping[str, Stats]],
    encoding: Encoding,
    robot: str | None,
) -> None:
    """Write meta/ for episodes ``rows`` with their ``stats``; info.json comes last."""
    folder = layout.root / "meta"
    folder.mkdir(parents=True)
    tasks = list(dict.fromkeys(row["tasks"][0] for row in rows))
    lists = [
        {key: values.as_lists(image=features[key].is_camera) for key, values in episode.items()}
        for episode in stats
    ]
    if layout.version == "v3.0":
        _write_tasks(folder / "tasks.parquet", tasks)
        _write_episodes(folder, rows, lists, layout.episodes_per_file or len(rows))
        merged = {key: Stats.merged([episode[key] for episode in stats]) for key in stats[0]}
        overall = {key: values.as_lists(image=features[key].is_camera) for key, values in merged.items()}
        (folder / "stats.json").write_text(json.dumps(overall, indent=4), encoding="utf-8")
    else:
        _write_lines(
            folder / "tasks.jsonl", [{"task_index": i, "task": task} for i, task in enumerate(tasks)]
        )
        dropped = ("dataset_from_index", "dataset_to_index")
        kept = [{k: v for k, v in row.items() if k not in dropped and "/" not in k} for row in rows]
        _write_lines(folder / "episodes.jsonl", kept)
        _write_lines(
            folder / "episodes_stats.jsonl",
            [{"episode_index": i, "stats": episode} for i, episode in enumerate(lists)],
        )
    info = _info(layout, features, rows, len(tasks), encoding, robot)
    (folder / "info.json").write_text(json.dumps(info, indent=4), encoding="utf-8")


def _info(
    layout: FileLayout,
    features: Mapping[str, Feature],
    rows: Sequence[Mapping[str, Any]],
    n_tasks: int,
    encoding: Encoding,
    robot: str | None,
) -> dict[str, Any]:
    videos = sum(feature.dtype == "video" for feature in features.values())
    if layout.version == "v3.0":
        files: dict[str, Any] = {"data_files_size_in_mb": DATA_MB, "video_files_size_in_mb": VIDEO_MB}
    else:
        files = {"total_videos": videos * len(rows), "total_chunks": -(-len(rows) // CHUNK)}
    rate = encoding.fps
    return {
        "codebase_version": layout.version,
        "robot_type": robot,
        "total_episodes": len(rows),
        "total_frames": sum(row["length"] for row in rows),
        "total_tasks": n_tasks,
        "chunks_size": CHUNK,
        **files,
        "fps": int(rate) if rate.denominator == 1 else float(rate),
        "splits": {"train": f"0:{len(rows)}"},
        "data_path": layout.data_path,
        "video_path": layout.video_path if videos else None,
        "features": {key: _feature_info(feature, encoding) for key, feature in features.items()},
    }


def _feature_info(feature: Feature, encoding: Encoding) -> dict[str, Any]:
    names = ["height", "width", "channels"] if feature.is_camera else None
    content: dict[str, Any] = {"dtype": feature.dtype, "shape": list(feature.shape), "names": names}
    if feature.dtype == "video":
        content["info"] = {
            "video.height": feature.shape[0],
            "video.width": feature.shape[1],
            "video.codec": encoding.codec,
            "video.pix_fmt": "yuv420p",
            "video.fps": float(encoding.fps),
            "video.channels": 3,
            "is_depth_map": False,
            "has_audio": False,
        }
    return content


def _write_tasks(path: Path, tasks: Sequence[str]) -> None:
    """Write tasks in the order of their index, the text as pandas' index: LeRobot looks them up by position."""
    columns = [
        {"name": name, "field_name": name, "pandas_type": kind, "numpy_type": numpy, "metadata": None}
        for name, kind, numpy in (("task_index", "int64", "int64"), ("task", "unicode", "object"))
    ]
    pandas = {
        "index_columns": ["task"],
        "column_indexes": [],
        "columns": columns,
        "creator": {"library": "pyarrow", "version": pa.__version__},
        "pandas_version": "2.2.0",
    }
    table = pa.table({"task_index": pa.array(range(len(tasks)), pa.int64()), "task": list(tasks)})
    pq.write_table(table.replace_schema_metadata({"pandas": json.dumps(pandas)}), path)


def _write_episodes(
    folder: Path, rows: Sequence[Mapping[str, Any]], stats: Sequence[Mapping[str, Any]], per_file: int
) -> None:
    for number, begin in enumerate(range(0, len(rows), per_file)):
        chunk, file = divmod(number, CHUNK)
        place = {"meta/episodes/chunk_index": chunk, "meta/episodes/file_index": file}
        full = [
            {
                **row,
                **place,
                **{f"stats/{key}/{name}": v for key, values in stat.items() for name, v in values.items()},
            }
            for row, stat in zip(rows[begin : begin + per_file], stats[begin : begin + per_file], strict=True)
        ]
        names = dict.fromkeys(name for row in full for name in row)
        path = folder / "episodes" / f"chunk-{chunk:03d}" / f"file-{file:03d}.parquet"
        path.parent.mkdir(parents=True, exist_ok=True)
        pq.write_table(pa.table({name: [row.get(name) for row in full] for name in names}), path)


def _write_lines(path: Path, rows: Sequence[Mapping[str, Any]]) -> None:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
