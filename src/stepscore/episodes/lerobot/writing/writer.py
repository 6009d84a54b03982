"""Write LeRobot datasets (v3.0, v2.1) that LeRobot's own loader and our reader open.

Frames are encoded one by one, so memory use does not grow with the length of a recording. ``meta/info.json``
is written last, so a folder without this file is an unfinished dataset.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from pathlib import Path
from typing import Any, get_args

import numpy as np
import pyarrow.parquet as pq

from stepscore.episodes.lerobot.writing.features import (
    Feature,
    Stats,
    features_of,
    packed,
    row_group,
    unpacked,
)
from stepscore.episodes.lerobot.writing.layout import FileLayout, Version, write_meta
from stepscore.episodes.lerobot.writing.video_encoding import Codec, Encoding, VideoFile
from stepscore.errors import OptionError

_STATS_EVERY = 10
"""Sampling interval, in frames, for the image statistics of a camera."""
_MAX_IMAGE_ROWS = 256
"""Largest number of frames whose encoded images are kept in memory."""
_GOP: Mapping[str, int] = {"h264": 30, "av1": 2}
_CRF: Mapping[str, int] = {"h264": 20, "av1": 30}


@dataclass(frozen=True)
class Recording:
    """One episode to be written.

    Attributes:
        task: The instruction.
        frames: One mapping per frame, feature to value: (h, w, 3) uint8 arrays are cameras
            (``observation.images.top``); numbers, texts and 1-D arrays are other features (``action``,
            ``next.success``). The iterable is consumed once, one frame at a time.
        extra: Additional columns for this episode in meta/, such as ``sparse_subtask_names``.
    """

    task: str
    frames: Iterable[Mapping[str, Any]]
    extra: Mapping[str, Any] = field(default_factory=dict)


def write_lerobot(
    root: Path,
    recordings: Iterable[Recording],
    *,
    fps: float,
    codec: Codec = "h264",
    version: Version = "v3.0",
    gop: int | None = None,
    crf: int | None = None,
    robot: str | None = None,
    images: Collection[str] = (),
    episodes_per_file: int | None = None,
) -> Path:
    """Write recordings as a dataset; return its folder, ready for ``open_episodes`` and for LeRobot.

    Args:
        root: The dataset's folder, which must be new or empty.
        recordings: The episodes, in order. All must have the same features as the first frame of the first episode.
        fps: Frames per second.
        codec: ``"h264"``, which plays everywhere, or ``"av1"``, LeRobot's own default.
        version: FileLayout: ``"v3.0"`` keeps many episodes in a file, ``"v2.1"`` one.
        gop: Largest number of frames between keyframes; by default 30 (H.264) or LeRobot's own 2 (AV1).
        crf: Quality, lower is better; by default 20 for H.264 and 30 for AV1.
        robot: The robot's name.
        images: Cameras to store as PNG images in the data files instead of as videos.
        episodes_per_file: v3.0: start new files after this many episodes; by default when they get large.
    """
    for name, value, allowed in (("codec", codec, get_args(Codec)), ("version", version, get_args(Version))):
        if value not in allowed:
            raise OptionError(f"{name} is {value!r}. Allowed: {', '.join(allowed)}.")
    if root.exists() and (not root.is_dir() or any(root.iterdir())):
        raise OptionError(f"{root} already exists and is not empty; choose another folder or remove it.")
    # Encoders need an integral number of ticks, so 29.97 becomes 30000/1001.
    rate = Fraction(fps).limit_denominator(1001)
    encoding = Encoding(codec, rate, gop or _GOP[codec], _CRF[codec] if crf is None else crf)
    layout = FileLayout(root, version, episodes_per_file)
    with _Writer(layout, encoding, frozenset(images)) as writer:
        for recording in recordings:
            writer.add(recording)
    if not writer.rows:
        raise OptionError("There are no recordings to write.")
    write_meta(layout, writer.features, writer.rows, writer.stats, encoding, robot)
    return root


@dataclass
class _OpenEpisode:
    """The episode currently being written."""

    index: int
    task: int
    length: int = 0
    written: int = 0
    places: dict[str, Any] = field(default_factory=dict)
    # Store numbers as bytes. Small arrays allocated between large, short-lived images would fragment the
    # heap, and memory would grow with every frame.
    numbers: dict[str, bytearray] = field(default_factory=lambda: defaultdict(bytearray))
    others: dict[str, list[Any]] = field(default_factory=lambda: defaultdict(list))
    stats: dict[str, Stats] = field(default_factory=dict)

    def add_stats(self, key: str, stats: Stats) -> None:
        """Merge the statistics of some frames into a feature's statistics."""
        self.stats[key] = Stats.merged([self.stats[key], stats]) if key in self.stats else stats


class _Writer:
    """The open files of a dataset, and the metadata of the episodes written so far."""

    def __init__(self, layout: FileLayout, encoding: Encoding, images: frozenset[str]) -> None:
        self.features: dict[str, Feature] = {}
        self.rows: list[dict[str, Any]] = []
        self.stats: list[dict[str, Stats]] = []
        self._layout, self._encoding, self._images = layout, encoding, images
        self._tasks: dict[str, int] = {}
        self._videos: dict[str, VideoFile] = {}
        self._data: tuple[Path, pq.ParquetWriter] | None = None
        self._frames = 0

    def add(self, recording: Recording) -> None:
        """Write one episode."""
        episode = _OpenEpisode(len(self.rows), self._tasks.setdefault(recording.task, len(self._tasks)))
        for frame in recording.frames:
            if not self.features:
                self.features = features_of(frame, self._images)
            self._check(frame, episode.index)
            if not episode.length:
                self._begin(episode)
            self._add_frame(episode, frame)
            if self._images and episode.length - episode.written == _MAX_IMAGE_ROWS:
                self._flush(episode)
        if not episode.length:
            raise OptionError(f"Recording {episode.index} ({recording.task!r}) has no frames.")
        self._flush(episode)
        seconds = float(episode.length / self._encoding.fps)
        for key in self._videos if self._layout.version == "v3.0" else ():
            start_s = episode.places[f"videos/{key}/from_timestamp"]
            episode.places[f"videos/{key}/to_timestamp"] = start_s + seconds
        self.rows.append(
            {
                "episode_index": episode.index,
                "tasks": [recording.task],
                "length": episode.length,
                "dataset_from_index": self._frames,
                "dataset_to_index": self._frames + episode.length,
                **episode.places,
                **recording.extra,
            }
        )
        self.stats.append(episode.stats)
        self._frames += episode.length

    def _check(self, frame: Mapping[str, Any], episode: int) -> None:
        given = {key for key, feature in self.features.items() if not feature.is_default}
        if frame.keys() != given:
            wrong = sorted(frame.keys() ^ given)[0]
            how = "missing" if wrong in given else "unknown"
            raise OptionError(
                f"Recording {episode}: feature {wrong!r} is {how} in a frame; "
                f"every frame has {', '.join(sorted(given))}."
            )

    def _begin(self, episode: _OpenEpisode) -> None:
        """Open the files of an episode and record its offsets in them."""
        for key, feature in self.features.items():
            if feature.dtype == "video":
                size = self._videos[key].size() if key in self._videos else 0
                path, is_new = self._layout.place(key, episode.index, size)
                if is_new:
                    if key in self._videos:
                        self._videos.pop(key).close()
                    height, width, _ = feature.shape
                    self._videos[key] = VideoFile(path, self._encoding, width, height)
                start_s = self._videos[key].begin_episode()
                episode.places |= {**self._layout.numbers(key), f"videos/{key}/from_timestamp": start_s}
        size = self._data[0].stat().st_size if self._data else 0
        path, is_new = self._layout.place(None, episode.index, size)
        if is_new:
            if self._data:
                self._data[1].close()
            path.parent.mkdir(parents=True, exist_ok=True)
            schema = row_group(self.features, {}).schema
            self._data = path, pq.ParquetWriter(path, schema, compression="snappy")
        episode.places |= self._layout.numbers(None)

    def _add_frame(self, episode: _OpenEpisode, frame: Mapping[str, Any]) -> None:
        for key, value in frame.items():
            feature = self.features[key]
            if feature.is_camera and episode.length % _STATS_EVERY == 0:
                episode.add_stats(key, Stats.of_image(value))
            if key in self._videos:
                self._videos[key].add(value)
            elif feature.is_number:
                episode.numbers[key] += packed(key, feature, value)
            else:
                episode.others[key].append(value)
        episode.length += 1

    def _flush(self, episode: _OpenEpisode) -> None:
        """Write the pending rows as a row group; an episode without images is a single row group."""
        frames = np.arange(episode.written, episode.length)
        if not len(frames):
            return
        assert self._data is not None  # opened with the episode's first frame
        rows: dict[str, Any] = {
            **{key: unpacked(self.features[key], content) for key, content in episode.numbers.items()},
            **episode.others,
            "timestamp": frames / float(self._encoding.fps),
            "frame_index": frames,
            "episode_index": np.full(len(frames), episode.index),
            "index": frames + self._frames,
            "task_index": np.full(len(frames), episode.task),
        }
        self._data[1].write_table(row_group(self.features, rows))
        for key, feature in self.features.items():
            if feature.is_number:
                episode.add_stats(key, Stats.of(rows[key]))
        episode.numbers.clear()
        episode.others.clear()
        episode.written = episode.length

    def __enter__(self) -> _Writer:
        return self

    def __exit__(self, *_: object) -> None:
        for video in self._videos.values():
            video.close()
        if self._data:
            self._data[1].close()
