"""The metadata of a LeRobot dataset: the files of meta/ in versions v3.0, v2.1 and v2.0, in one form.

========  ==========================================  =========================================
version   episodes                                    videos and data
========  ==========================================  =========================================
v3.0      meta/episodes/chunk-*/file-*.parquet        many episodes in one mp4 and one parquet
v2.x      meta/episodes.jsonl                         one mp4 and one parquet per episode
========  ==========================================  =========================================

Paths always come from the templates in meta/info.json.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise
from pathlib import Path
from typing import Any

from pydantic import BaseModel, Field, ValidationError

from stepscore.episodes.cameras import main_first
from stepscore.episodes.video.video_view import FileSpan
from stepscore.errors import SourceError, first_field_error

SUBTASKS = tuple(
    f"{scheme}subtask_{part}"
    for scheme in ("sparse_", "dense_", "")
    for part in ("names", "start_frames", "end_frames")
)
POLICY_AND_PAIR = ("policy", "pair")
"""Our own columns in meta/: the policy that acted, and the scene it shares with other policies."""
_OPTIONAL = (*SUBTASKS, *POLICY_AND_PAIR)


class _Feature(BaseModel):
    dtype: str
    shape: list[int] = []
    info: dict[str, Any] | None = None
    video_info: dict[str, Any] | None = None

    @property
    def is_camera(self) -> bool:
        return self.dtype in ("video", "image")

    @property
    def is_depth(self) -> bool:
        info = {**(self.video_info or {}), **(self.info or {})}
        return bool(info.get("is_depth_map") or info.get("video.is_depth_map"))


class _Info(BaseModel):
    codebase_version: str
    fps: float = Field(gt=0)
    features: dict[str, _Feature]
    data_path: str
    video_path: str | None = None
    robot_type: str | None = None
    chunks_size: int = Field(default=1000, gt=0)


@dataclass(frozen=True)
class Meta:
    """The metadata of a dataset.

    Attributes:
        root: The dataset's folder.
        info: Content of meta/info.json.
        columns: Columns of meta/ with one value per episode, in the order of ``episode_index``.
        cameras: Camera name to feature, the main one first; depth maps are left out.
        depth: Features that are depth maps.
    """

    root: Path
    info: _Info
    columns: Mapping[str, Sequence[Any]]
    cameras: Mapping[str, str]
    depth: tuple[str, ...]

    @property
    def is_v3(self) -> bool:
        """Whether files hold many episodes."""
        return self.info.codebase_version.startswith("v3")

    def __len__(self) -> int:
        return len(self.columns["episode_index"])

    def index(self, row: int) -> int:
        """Return the ``episode_index`` of the episode at ``row``."""
        return int(self.columns["episode_index"][row])

    def length(self, row: int) -> int:
        """Return the number of frames of an episode."""
        return int(self.columns["length"][row])

    def text(self, row: int, name: str) -> str | None:
        """Return the text of a column of ``POLICY_AND_PAIR``; ``None`` where it is missing or empty."""
        value = self.columns[name][row] if name in self.columns else None
        return str(value) if value not in (None, "") else None

    def data_file(self, row: int) -> Path:
        """Return the parquet file with the columns of an episode's frames."""
        return self._file(self.info.data_path, row, "data")

    def video_file(self, row: int, feature: str) -> Path:
        """Return the video file of one camera."""
        if self.info.video_path is None:
            raise SourceError(
                f"{self.root / 'meta/info.json'}: {feature} is a video, but video_path is null."
            )
        return self._file(self.info.video_path, row, f"videos/{feature}", video_key=feature)

    def span(self, row: int, feature: str) -> FileSpan:
        """Return the episode's frames in its video file."""
        start_s = float(self.columns[f"videos/{feature}/from_timestamp"][row]) if self.is_v3 else None
        return FileSpan(start_s, self.length(row), self.info.fps)

    def _file(self, template: str, row: int, column: str, **names: str) -> Path:
        if self.is_v3:
            numbers = {part: self.columns[f"{column}/{part}"][row] for part in ("chunk_index", "file_index")}
        else:
            index = self.index(row)
            numbers = {"episode_index": index, "episode_chunk": index // self.info.chunks_size}
        try:
            return self.root / template.format(**numbers, **names)
        except (KeyError, IndexError, ValueError, TypeError) as error:
            raise SourceError(
                f"{self.root / 'meta/info.json'}: the path template {template!r} does not fit {numbers}."
            ) from error


def read_meta(root: Path) -> Meta:
    """Read the metadata of the dataset in ``root``; a SourceError names the file that is missing or wrong."""
    path = root / "meta" / "info.json"
    try:
        info = _Info.model_validate_json(path.read_bytes())
    except OSError as error:
        raise SourceError(f"Cannot read {path}: {error.strerror}.") from error
    except ValidationError as error:
        first = first_field_error(error)
        raise SourceError(f"{path}: {first.field or 'the file'}: {first.message}.") from error
    cameras = [name for name, feature in info.features.items() if feature.is_camera and not feature.is_depth]
    if info.codebase_version.startswith("v3"):
        columns = _read_v3(root, [name for name in cameras if info.features[name].dtype == "video"])
    elif info.codebase_version.startswith("v2"):
        columns = _read_v2(root)
    else:
        raise SourceError(
            f"{path}: codebase_version is {info.codebase_version!r}; v3.0, v2.1 and v2.0 can be read. "
            "Convert it with lerobot's convert_dataset scripts."
        )
    depth = tuple(name for name, feature in info.features.items() if feature.is_camera and feature.is_depth)
    return Meta(root, info, columns, short_names(cameras), depth)


def short_names(features: Sequence[str]) -> dict[str, str]:
    """Return camera name to feature: ``observation.images.top`` as ``top``; names that would clash stay whole."""

    def short(feature: str) -> str:
        return feature.removeprefix("observation.").removeprefix("images.") or feature

    shorts = [short(feature) for feature in features]
    named = {
        feature if shorts.count(name) > 1 else name: feature
        for feature, name in zip(features, shorts, strict=True)
    }
    return {name: named[name] for name in main_first(named)}


def _read_v3(root: Path, videos: Sequence[str]) -> Mapping[str, Sequence[Any]]:
    import pyarrow as pa
    import pyarrow.parquet as pq

    needed = ["episode_index", "tasks", "length", "dataset_from_index", "data/chunk_index", "data/file_index"]
    for name in videos:
        needed += [f"videos/{name}/{part}" for part in ("chunk_index", "file_index", "from_timestamp")]
    files = sorted((root / "meta" / "episodes").glob("*/*.parquet"))
    if not files:
        raise SourceError(f"{root / 'meta' / 'episodes'} has no chunk-*/file-*.parquet.")
    tables = []
    for file in files:
        try:
            present = pq.read_schema(file).names
            missing = [name for name in needed if name not in present]
            if missing:
                raise SourceError(f"{file}: there is no column {missing[0]!r}.")
            tables.append(
                pq.read_table(file, columns=needed + [name for name in _OPTIONAL if name in present])
            )
        except (OSError, pa.ArrowException) as error:
            raise SourceError(f"Cannot read {file}: {error}") from error
    table = pa.concat_tables(tables, promote_options="permissive").sort_by("episode_index")
    columns: dict[str, list[Any]] = table.to_pydict()
    for name in needed:
        if None in columns[name]:
            raise SourceError(f"{root / 'meta' / 'episodes'}: column {name!r} has rows without a value.")
    return _checked(columns, root / "meta" / "episodes")


def _read_v2(root: Path) -> Mapping[str, Sequence[Any]]:
    path = root / "meta" / "episodes.jsonl"
    rows: list[dict[str, Any]] = []
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise SourceError(f"Cannot read {path}: {error}.") from error
    for line, text in enumerate(lines, start=1):
        try:
            row = json.loads(text or "{}")
            if row:
                rows.append({**row, "episode_index": int(row["episode_index"]), "length": int(row["length"])})
        except (ValueError, KeyError, TypeError) as error:
            raise SourceError(
                f"{path}, line {line}: expected an object with episode_index, length and tasks "
                f"({type(error).__name__}: {error})."
            ) from error
    rows.sort(key=lambda row: row["episode_index"])
    optional = (name for name in _OPTIONAL if any(name in row for row in rows))
    names = ("episode_index", "length", "tasks", *optional)
    columns: dict[str, list[Any]] = {name: [row.get(name) for row in rows] for name in names}
    columns["dataset_from_index"] = [0, *accumulate(columns["length"])][:-1]
    return _checked(columns, path)


def _checked(columns: dict[str, list[Any]], path: Path) -> Mapping[str, Sequence[Any]]:
    indices = columns["episode_index"]
    twice = next((a for a, b in pairwise(indices) if a == b), None)
    if twice is not None:
        raise SourceError(f"{path}: episode {twice} appears twice. Remove the stale file or row.")
    return columns
