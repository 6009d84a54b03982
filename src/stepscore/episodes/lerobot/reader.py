"""LeRobot datasets, v3.0 and v2.x, read from their files without LeRobot itself.

Episodes are made on demand: listing reads only ``meta/``, and a data file is opened for an episode only where
the dataset has a column that becomes a label.
"""

from __future__ import annotations

import math
import os
from collections.abc import Iterator, Sequence
from itertools import pairwise
from pathlib import Path
from typing import overload

from stepscore.episodes.episode import Episode
from stepscore.episodes.labels.labels import Label, Labels, Stage, check_stages
from stepscore.episodes.lerobot.data_files import (
    LANGUAGE,
    SUCCESS,
    LabelColumns,
    ParquetImages,
    read_label_columns,
)
from stepscore.episodes.lerobot.meta import POLICY_AND_PAIR, SUCCESS_MODE, Meta, read_meta
from stepscore.episodes.lerobot.signals import DataFileSignals, signal_columns
from stepscore.episodes.naming import policy_from
from stepscore.episodes.remote import (
    RemoteDataset,
    RemoteFile,
    RemoteImages,
    RemoteSignals,
    RemoteVideo,
    fetch_columns,
    remote_dataset,
    snapshot_of,
)
from stepscore.episodes.signals import SignalReader
from stepscore.episodes.source import Listing, Problem, ReadOptions
from stepscore.episodes.video.image_files import ImageSequenceView
from stepscore.episodes.video.video_view import VideoView
from stepscore.episodes.view import View
from stepscore.errors import EpisodeError, ManifestError

_SCHEMES = {"sparse": "sparse_subtask_", "dense": "dense_subtask_", "subtask": "subtask_"}


class LeRobotReader:
    """LeRobot datasets on disk, on the Hub or at a URL."""

    def matches(self, path: Path) -> bool:
        """Return whether the folder has meta/info.json."""
        return os.path.isfile(path / "meta" / "info.json")

    def read(self, path: Path, options: ReadOptions) -> Listing:
        """List the episodes of the dataset; reads ``meta/`` only."""
        meta = read_meta(path)
        episodes = LeRobotEpisodes(meta, range(len(meta)), remote_dataset(meta.root))
        if len(meta):
            policy_from((), options.policy_from, episode_id(meta.index(0)))
        return Listing(episodes, tuple(_problems(meta)), tuple(_rules(meta)))


class LeRobotEpisodes(Sequence[Episode]):
    """The episodes of a dataset, each made on demand."""

    def __init__(self, meta: Meta, rows: Sequence[int], remote: RemoteDataset | None = None) -> None:
        self._meta, self._rows, self._remote = meta, rows, remote
        snapshot = snapshot_of(meta.root)
        if remote is not None:
            self._name, self._source = remote.name, remote.url
        else:
            self._name = snapshot.repo_id if snapshot else meta.root.resolve().name
            self._source = snapshot.repo_id if snapshot else str(meta.root)
        self._recorded = tuple(sorted(meta.root.glob("*_progress.parquet")))
        self._columns = signal_columns(meta)

    def __len__(self) -> int:
        return len(self._rows)

    def ids(self) -> list[str]:
        """Return the ids of all, without making any: labels may be in data files that are not fetched yet."""
        return [episode_id(self._meta.index(row)) for row in self._rows]

    @overload
    def __getitem__(self, key: int) -> Episode: ...
    @overload
    def __getitem__(self, key: slice) -> LeRobotEpisodes: ...
    def __getitem__(self, key: int | slice) -> Episode | LeRobotEpisodes:
        if isinstance(key, slice):
            return LeRobotEpisodes(self._meta, self._rows[key], self._remote)
        try:
            return self._episode(self._rows[key])
        except EpisodeError as error:
            index = self._meta.index(self._rows[key])
            return Episode(
                id=episode_id(index),
                instruction="",
                source=self._source,
                source_index=index,
                dataset=self._name,
                error=str(error),
            )

    def _episode(self, row: int) -> Episode:
        meta, tasks = self._meta, self._meta.tasks(row)
        metadata: dict[str, object] = {"dataset_from_index": meta.columns["dataset_from_index"][row]}
        if len(tasks) > 1:
            metadata["tasks"] = tasks
        labels = _labels(meta, row, metadata, self._remote)
        return Episode(
            id=episode_id(meta.index(row)),
            instruction=tasks[0] if tasks else "",
            source=self._source,
            source_index=meta.index(row),
            task=tasks[0] if tasks else None,
            policy=meta.text(row, "policy"),
            pair=meta.text(row, "pair"),
            robot=meta.info.robot_type,
            dataset=self._name,
            views={name: self._view(row, feature) for name, feature in meta.cameras.items()},
            labels=labels,
            recorded=self._recorded,
            signal_reader=self._signals(row),
            metadata=metadata,
        )

    def _view(self, row: int, feature: str) -> View:
        meta = self._meta
        if meta.info.features[feature].dtype == "video":
            path = meta.video_file(row, feature)
            if self._remote is not None:
                return RemoteVideo(_remote_file(self._remote, path), meta.span(row, feature))
            return VideoView(path, meta.span(row, feature))
        path = meta.data_file(row)
        images = ParquetImages(path, feature, meta.index(row), meta.length(row))
        if self._remote is not None:
            remote = RemoteImages(_remote_file(self._remote, path), images)
            return ImageSequenceView(remote, meta.info.fps)
        return ImageSequenceView(images, meta.info.fps)

    def _signals(self, row: int) -> SignalReader | None:
        meta = self._meta
        if not self._columns:
            return None
        path = meta.data_file(row)
        signals = DataFileSignals(path, meta.index(row), meta.length(row), meta.info.fps, self._columns)
        if self._remote is None:
            return signals
        file = self._remote.file(path)
        return None if file is None else RemoteSignals(file, signals)


def episode_id(index: int) -> str:
    """Return ``episode_000012`` for 12."""
    return f"episode_{index:06d}"


def _remote_file(remote: RemoteDataset, path: Path) -> RemoteFile:
    file = remote.file(path)
    if file is None:
        raise EpisodeError(f"{remote.url} has no file {remote.relative(path)}.")
    return file


def _labels(meta: Meta, row: int, metadata: dict[str, object], remote: RemoteDataset | None) -> Labels:
    """Return labels from subtask and data columns; what does not become one goes to ``metadata``."""
    rows: list[Label] = []
    for scheme, stages in _annotated_stages(meta, row):
        if isinstance(stages, tuple) and not rows:
            rows = [Label("stage", *stage, author=f"{_SCHEMES[scheme]}names") for stage in stages]
        elif isinstance(stages, tuple):
            metadata[f"{scheme}_stages"] = tuple(stage._asdict() for stage in stages)
    columns = [name for name in _label_columns(meta) if name != LANGUAGE or not rows]
    if not columns:
        return Labels(tuple(rows))
    try:
        path = meta.data_file(row)
        if remote is not None:
            path = fetch_columns(_remote_file(remote, path), ["episode_index", *columns])
        data = read_label_columns(path, columns).get(meta.index(row), LabelColumns())
        if not math.isnan(data.success):
            mode = meta.success_mode(row) or "ever"
            value = data.success_at_end if mode == "holds" else data.success
            rows.append(Label("success", mode, value=value, author=SUCCESS))
        rows += _language_stages(data.subtasks, meta.length(row) / meta.info.fps)
    except (EpisodeError, ManifestError) as error:
        metadata["labels_error"] = str(error)
    return Labels(tuple(rows))


def _label_columns(meta: Meta) -> list[str]:
    return [name for name in (SUCCESS, LANGUAGE) if name in meta.info.features]


def _annotated_stages(meta: Meta, row: int) -> Iterator[tuple[str, tuple[Stage, ...] | str]]:
    """Yield the stages of each subtask scheme, sparse first, or why they cannot be used.

    Frame numbers are relative to the episode and an end frame is the next stage's start frame, so a stage
    runs from start / fps to end / fps seconds.
    """
    for scheme, prefix in _SCHEMES.items():
        parts = ("names", "start_frames", "end_frames")
        names, starts, ends = (
            meta.columns[prefix + part][row] if prefix + part in meta.columns else None for part in parts
        )
        if not names:
            continue
        try:
            fps = meta.info.fps
            stages = [
                Stage(str(n), s / fps, e / fps)
                for n, s, e in zip(names, starts or (), ends or (), strict=True)
            ]
            yield scheme, check_stages(stages, f"{prefix}names")
        except (ValueError, TypeError, ManifestError) as error:
            yield scheme, f"no {scheme} stages: {error}"


def _language_stages(subtasks: Sequence[tuple[float, str]], duration_s: float) -> tuple[Label, ...]:
    """Return stage labels from subtask rows, each active until the next; the last until the episode's end.

    Raises:
        ManifestError: One has no text, begins outside the episode, or at the same time as another. Then none is
            used, since it is not known which of them is active.
    """
    rows = sorted(set(subtasks))
    for start_s, name in rows:
        # Timestamps are single precision: the end itself may be written a hair before it.
        if not name or not 0 <= start_s * (1 + 1e-6) < duration_s:
            problem = (
                f"{name!r} begins at {start_s:g} s" if name else f"the subtask at {start_s:g} s has no text"
            )
            raise ManifestError(
                f"no stages from {LANGUAGE}: {problem}; each needs a text and a start from 0 s to before "
                f"{duration_s:g} s."
            )
    for (start_s, name), (following_s, other) in pairwise(rows):
        if start_s == following_s:
            raise ManifestError(
                f"no stages from {LANGUAGE}: {name!r} and {other!r} both begin at {start_s:g} s; give each a "
                "start of its own."
            )
    ends = [*(start_s for start_s, _ in rows), duration_s][1:]
    return tuple(
        Label("stage", name, start_s, end_s, author=LANGUAGE)
        for (start_s, name), end_s in zip(rows, ends, strict=True)
    )


def _problems(meta: Meta) -> Iterator[Problem]:
    remote = remote_dataset(meta.root)
    for name, why in () if remote is None else remote.problems():
        yield Problem(name, why)
    exists: dict[Path, bool] = {}
    for row in range(len(meta)):
        where = episode_id(meta.index(row))
        try:
            meta.length(row)
            meta.success_mode(row)
            if not meta.tasks(row):
                yield Problem(where, "it has no task text, so no instruction")
            for _, stages in _annotated_stages(meta, row):
                if isinstance(stages, str):
                    yield Problem(where, stages)
            for what, path in _files(meta, row):
                if path not in exists:
                    exists[path] = os.path.isfile(path) if remote is None else remote.file(path) is not None
                if not exists[path]:
                    yield Problem(where, f"{what}: no file {path.relative_to(meta.root).as_posix()}")
        except EpisodeError as error:
            yield Problem(where, str(error))


def _files(meta: Meta, row: int) -> Iterator[tuple[str, Path]]:
    """Yield what an episode needs, and the file it is in."""
    for name, feature in meta.cameras.items():
        is_video = meta.info.features[feature].dtype == "video"
        yield f"view {name!r}", meta.video_file(row, feature) if is_video else meta.data_file(row)
    if _label_columns(meta):
        yield f"labels from {' and '.join(_label_columns(meta))}", meta.data_file(row)


def _rules(meta: Meta) -> Iterator[str]:
    yield f"Read as LeRobot {meta.info.codebase_version}. Id: episode_ and the episode_index."
    yield "Instruction and task: the episode's (first) task text in meta/. Robot: robot_type in info.json."
    named = ", ".join(f"{name} = {feature}" for name, feature in meta.cameras.items())
    yield f"Views: features of type video or image by their short name: {named or 'none'}."
    if meta.depth:
        yield f"Not read, because they are depth maps: {', '.join(meta.depth)}."
    signals = [column.name for column in signal_columns(meta)]
    if signals:
        yield f"Signals: {', '.join(signals[:6])}{' ...' if len(signals) > 6 else ''} of the data files."
    if SUCCESS in meta.info.features:
        stated_mode = (
            f", or in the last where {SUCCESS_MODE} in meta/ is holds" if SUCCESS_MODE in meta.columns else ""
        )
        yield f"Success: {SUCCESS} true in some frame{stated_mode}."
    schemes = [scheme for scheme, prefix in _SCHEMES.items() if f"{prefix}names" in meta.columns]
    if schemes:
        yield f"Stages: the {schemes[0]} subtasks in meta/; other schemes are kept in the episode's metadata."
    elif LANGUAGE in meta.info.features:
        yield f"Stages: the subtask rows of {LANGUAGE}, each until the next."
    stated = [name for name in POLICY_AND_PAIR if name in meta.columns]
    if stated:
        yield f"{' and '.join(stated).capitalize()}: the columns of that name in meta/."
    if "policy" not in stated:
        yield "Policy: unknown; the dataset does not state it."
