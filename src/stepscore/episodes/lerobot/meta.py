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

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any, cast, get_args

from pydantic import BaseModel, Field, ValidationError

from stepscore._untrusted import parse_json, read_json, read_text
from stepscore._untrusted.limits import MAX_FPS, MAX_FRAMES, MIN_FPS
from stepscore._untrusted.parquet_files import MAX_TABLE_BYTES, open_parquet, read_parquet
from stepscore._untrusted.path_templates import check_template
from stepscore.episodes.naming import main_first
from stepscore.episodes.signals import MAX_DIMENSIONS
from stepscore.episodes.video.video_view import FileSpan
from stepscore.errors import EpisodeError, SourceError, first_field_error
from stepscore.types import SuccessMode

MAX_INDEX = 10**12
"""Highest ``episode_index``, and longest episode that is added up."""
MAX_FILE_INDEX = 10**9
MAX_START_S = 1e9
ABSENT: Any = object()

SUBTASKS = tuple(
    f"{scheme}subtask_{part}"
    for scheme in ("sparse_", "dense_", "")
    for part in ("names", "start_frames", "end_frames")
)
POLICY_AND_PAIR = ("policy", "pair")
"""Our own columns in meta/: the policy that acted, and the scene it shares with other policies."""
SUCCESS_MODE = "success_mode"
"""Another of ours: whether ``next.success`` counts at some time (``ever``) or at the end (``holds``)."""
NUMBERS = (
    "bool",
    "float16",
    "float32",
    "float64",
    *(f"{sign}int{n}" for sign in ("", "u") for n in (8, 16, 32, 64)),
)
INDEXES = ("timestamp", "frame_index", "episode_index", "index", "task_index")
"""Columns that every dataset has to find its frames by."""
_OPTIONAL = (*SUBTASKS, *POLICY_AND_PAIR, SUCCESS_MODE)


class _Feature(BaseModel):
    dtype: str
    shape: list[int] = []
    names: Any = None
    info: dict[str, Any] | None = None
    video_info: dict[str, Any] | None = None

    @property
    def is_camera(self) -> bool:
        return self.dtype in ("video", "image")

    @property
    def is_signal(self) -> bool:
        """Whether it has one number or a short list of numbers for each frame."""
        return self.dtype in NUMBERS and len(self.shape) <= 1 and 0 < self.width <= MAX_DIMENSIONS

    @property
    def width(self) -> int:
        """How many numbers a frame has."""
        return self.shape[0] if self.shape else 1

    @property
    def is_depth(self) -> bool:
        info = {**(self.video_info or {}), **(self.info or {})}
        return bool(info.get("is_depth_map") or info.get("video.is_depth_map"))


class _Info(BaseModel):
    codebase_version: str
    fps: float = Field(gt=0, le=MAX_FPS, allow_inf_nan=False)
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
        return self.whole(row, "length", MAX_FRAMES)

    def whole(self, row: int, name: str, most: int) -> int:
        """Return an integer from an episode's row; raise EpisodeError if the column holds anything else there."""
        value = self.columns[name][row]
        if (
            isinstance(value, bool)
            or not isinstance(value, int | float)
            or not 0 <= value <= most
            or value % 1
        ):
            raise EpisodeError(
                f"{self.root / 'meta'}: {name} of episode {self.index(row)} is {str(value)[:40]!r}; "
                f"expected an integer from 0 to {most}."
            )
        return int(value)

    def tasks(self, row: int) -> tuple[str, ...]:
        """Return the task texts of an episode."""
        tasks = self.columns["tasks"][row]
        if tasks is not None and not isinstance(tasks, str | list):
            raise EpisodeError(
                f"{self.root / 'meta'}: tasks of episode {self.index(row)} is {str(tasks)[:40]!r}; expected texts."
            )
        return tuple(str(task) for task in ([tasks] if isinstance(tasks, str) else tasks or ()))

    def text(self, row: int, name: str) -> str | None:
        """Return the text of one of our own columns; ``None`` if it is missing or empty."""
        value = self.columns[name][row] if name in self.columns else None
        return str(value) if value not in (None, "") else None

    def success_mode(self, row: int) -> SuccessMode | None:
        """Return when the success of an episode counts; ``None`` where the dataset does not state it."""
        value = self.text(row, SUCCESS_MODE)
        if value is None:
            return None
        for mode in get_args(SuccessMode):
            if value == mode:
                return cast("SuccessMode", mode)
        raise EpisodeError(
            f"{self.root / 'meta'}: {SUCCESS_MODE} of episode {self.index(row)} is {value[:40]!r}; "
            "expected ever or holds."
        )

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
        return FileSpan(self._start_s(row, feature) if self.is_v3 else None, self.length(row), self.info.fps)

    def _start_s(self, row: int, feature: str) -> float:
        name = f"videos/{feature}/from_timestamp"
        value = self.columns[name][row]
        if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= MAX_START_S:
            raise EpisodeError(
                f"{self.root / 'meta'}: {name} of episode {self.index(row)} is {str(value)[:40]!r}; expected seconds."
            )
        return float(value)

    def _file(self, template: str, row: int, column: str, **names: str) -> Path:
        if self.is_v3:
            parts = ("chunk_index", "file_index")
            numbers = {part: self.whole(row, f"{column}/{part}", MAX_FILE_INDEX) for part in parts}
        else:
            index = self.index(row)
            numbers = {"episode_index": index, "episode_chunk": index // self.info.chunks_size}
        # The template was checked when the dataset was opened: it has only these fields.
        return self.root / template.format(**numbers, **names)


def read_meta(root: Path) -> Meta:
    """Read the metadata of the dataset in ``root``; a SourceError names the file that is missing or wrong."""
    path = root / "meta" / "info.json"
    content = read_json(path, SourceError)
    try:
        info = _Info.model_validate(content)
    except ValidationError as error:
        first = first_field_error(error)
        raise SourceError(f"{path}: {first.field or 'the file'}: {first.message}.") from error
    if info.fps < MIN_FPS:
        raise SourceError(f"{path}: fps: {info.fps:g} is less than {MIN_FPS:g}.")
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
    for template in (info.data_path, info.video_path or ""):
        check_template(template, cameras, str(path), is_v3=info.codebase_version.startswith("v3"))
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

    needed = ["episode_index", "tasks", "length", "dataset_from_index", "data/chunk_index", "data/file_index"]
    for name in videos:
        needed += [f"videos/{name}/{part}" for part in ("chunk_index", "file_index", "from_timestamp")]
    files = sorted((root / "meta" / "episodes").glob("*/*.parquet"))
    if not files:
        raise SourceError(f"{root / 'meta' / 'episodes'} has no chunk-*/file-*.parquet.")
    tables = []
    for file in files:
        with open_parquet(file, SourceError) as opened:
            present = opened.schema_arrow.names
        missing = [name for name in needed if name not in present]
        if missing:
            raise SourceError(f"{file}: there is no column {missing[0]!r}.")
        tables.append(
            read_parquet(file, SourceError, needed + [name for name in _OPTIONAL if name in present])
        )
        if sum(table.nbytes for table in tables) > MAX_TABLE_BYTES:
            raise SourceError(f"{root / 'meta' / 'episodes'} has more than {MAX_TABLE_BYTES >> 20} MiB.")
    try:
        table = pa.concat_tables(tables, promote_options="permissive").sort_by("episode_index")
        columns: dict[str, list[Any]] = table.to_pydict()
    except (pa.ArrowException, ValueError) as error:
        raise SourceError(
            f"{root / 'meta' / 'episodes'}: its files do not fit together ({error})."
        ) from error
    return _checked(columns, root / "meta" / "episodes")


def _read_v2(root: Path) -> Mapping[str, Sequence[Any]]:
    path = root / "meta" / "episodes.jsonl"
    rows: list[dict[str, Any]] = []
    for line, text in enumerate(read_text(path, SourceError).splitlines(), start=1):
        # A missing length or a number that no 64 bits hold is one episode's fault: they are checked for each of them.
        row = parse_json(text or "{}", f"{path}, line {line}", SourceError, huge_integers=True)
        if row and not (isinstance(row, dict) and _is_index(row.get("episode_index"))):
            raise SourceError(
                f"{path}, line {line}: expected an object with episode_index, length and tasks, "
                f"got {text.strip()[:80]!r}."
            )
        if row:
            rows.append(row)
    rows.sort(key=lambda row: row["episode_index"])
    optional = (name for name in _OPTIONAL if any(name in row for row in rows))
    names = ("episode_index", "length", "tasks", *optional)
    columns: dict[str, list[Any]] = {name: [row.get(name) for row in rows] for name in names}
    columns["dataset_from_index"] = _first_frames(columns["length"])
    return _checked(columns, path)


def _first_frames(lengths: Sequence[Any]) -> list[int | None]:
    """Return each episode's first frame in the dataset; unknown after an episode whose length is wrong."""
    firsts: list[int | None] = []
    total: int | None = 0
    for length in lengths:
        firsts.append(total)
        total = total + length if total is not None and _is_index(length) else None
    return firsts


def _is_index(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= MAX_INDEX


def _checked(columns: dict[str, list[Any]], path: Path) -> Mapping[str, Sequence[Any]]:
    indices = columns["episode_index"]
    wrong = next((index for index in indices if not _is_index(index)), ABSENT)
    if wrong is not ABSENT:
        raise SourceError(f"{path}: episode_index {str(wrong)[:40]!r} is not an integer from 0.")
    twice = next((a for a, b in pairwise(indices) if a == b), None)
    if twice is not None:
        raise SourceError(f"{path}: episode {twice} appears twice. Remove the stale file or row.")
    return columns
