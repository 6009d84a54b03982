"""Labelled episodes as a trainer reads them: every frame decoded once, and what is true at each."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from stepscore.episodes import Episode, open_episodes
from stepscore.episodes.labels import Subgoal, subgoal_truth, success_truth
from stepscore.errors import SourceError
from stepscore.models.qwen3vl import resized
from stepscore.types import FloatArray, Frames

LABELS_FILE, SUBGOALS_FILE = "labels.parquet", "subgoals.yaml"
STATES = ("observation.state", "observation.environment_state")
"""Columns of a LeRobot dataset that a training-only head learns to tell from the pictures."""
Flags = np.ndarray[Any, np.dtype[np.bool_]]


@dataclass(frozen=True, eq=False)
class LabelledFilm:
    """One episode with its pictures in hand.

    Attributes:
        episode: The episode itself.
        views: Pictures by view, each (n, size, size, 3).
        times: Seconds of each frame, (n,).
        potential: Progress in 0..1 at each frame, (n,).
        success: Whether the task is done at each frame, (n,).
        truths: Whether each subgoal is true at each frame, (n, K).
        states: Numbers of the robot and the scene at each frame, (n, S); S is 0 where nothing is recorded.
    """

    episode: Episode
    views: Mapping[str, Frames]
    times: FloatArray
    potential: FloatArray
    success: Flags
    truths: Flags
    states: FloatArray

    def __len__(self) -> int:
        return len(self.times)

    @property
    def instruction(self) -> str:
        """What the robot was told."""
        return self.episode.instruction

    @property
    def subgoals(self) -> tuple[Subgoal, ...]:
        """The subgoals whose truth is known, in order."""
        return self.episode.subgoals


def read_films(
    dataset: Path, size: int, cache: Path, on_episode: Callable[[int, int], None] | None = None
) -> list[LabelledFilm]:
    """All episodes of a dataset that have progress labels.

    The pictures are decoded and resized once, into a file of ``cache`` that later runs and other processes
    read as it is; it stays on disk and is mapped, so that memory does not grow with the dataset.

    Args:
        dataset: A source with ``labels.parquet`` and ``subgoals.yaml`` beside its data, as ``stepscore sim``
            writes it.
        size: Pixels a side.
        cache: Folder for decoded pictures.
        on_episode: Told how many of how many episodes are decoded.
    """
    for name in (LABELS_FILE, SUBGOALS_FILE):
        if not (dataset / name).is_file():
            raise SourceError(
                f"{dataset} has no {name}. Training needs labels and subgoals: `stepscore sim` writes both."
            )
    episodes = list(open_episodes(dataset, labels=dataset / LABELS_FILE, subgoals=dataset / SUBGOALS_FILE))
    pictures = _pictures(dataset, episodes, size, cache, on_episode)
    states = _states(dataset)
    films = []
    for episode, views in zip(episodes, pictures, strict=True):
        if not len(episode.labels.progress()[0]):
            continue
        times = next(iter(episode.views.values())).timestamps()
        known = states.get(episode.source_index if episode.source_index is not None else -1)
        films.append(_film(episode, views, times, np.zeros((len(times), 0)) if known is None else known))
    return films


def _film(
    episode: Episode, views: Mapping[str, Frames], times: FloatArray, states: FloatArray
) -> LabelledFilm:
    last = float(times[-1])
    done = success_truth(episode.labels, last)
    stands = [subgoal_truth(episode.labels, subgoal.name, subgoal.mode, last) for subgoal in episode.subgoals]
    at, value = episode.labels.progress()
    potential = np.interp(times, at, value)
    success = np.array([done.held(float(t)) is True for t in times])
    truths = np.array([[one.held(float(t)) is True for one in stands] for t in times], dtype=np.bool_)
    return LabelledFilm(episode, views, times, potential, success, truths.reshape(len(times), -1), states)


def _pictures(
    dataset: Path,
    episodes: Sequence[Episode],
    size: int,
    cache: Path,
    on_episode: Callable[[int, int], None] | None,
) -> list[dict[str, Frames]]:
    """Pictures of every view of every episode, out of one mapped file."""
    prints = "".join(episode.fingerprint for episode in episodes)
    key = hashlib.sha256(f"{size} {prints}".encode()).hexdigest()[:20]
    data, index = cache / f"{key}.npy", cache / f"{key}.json"
    if not index.is_file():
        cache.mkdir(parents=True, exist_ok=True)
        _decode(episodes, size, data, index, on_episode)
    frames = np.load(data, mmap_mode="r")
    return [
        {view: frames[start:stop] for view, (start, stop) in parts.items()}
        for parts in json.loads(index.read_text(encoding="utf-8"))
    ]


def _decode(
    episodes: Sequence[Episode],
    size: int,
    data: Path,
    index: Path,
    on_episode: Callable[[int, int], None] | None,
) -> None:
    lengths = [{name: len(view.timestamps()) for name, view in e.views.items()} for e in episodes]
    total = sum(sum(parts.values()) for parts in lengths)
    temporary = data.with_suffix(f".{os.getpid()}.tmp")
    frames = np.lib.format.open_memmap(temporary, mode="w+", dtype=np.uint8, shape=(total, size, size, 3))
    parts, at = [], 0
    for number, (episode, of_views) in enumerate(zip(episodes, lengths, strict=True), start=1):
        places = {}
        for name, length in of_views.items():
            clip = episode.clip(name, indices=range(length))
            frames[at : at + length] = resized(clip.frames, (size, size))
            places[name] = (at, at + length)
            at += length
        parts.append(places)
        if on_episode is not None:
            on_episode(number, len(episodes))
    frames.flush()
    os.replace(temporary, data)
    # The index comes last: without it the pictures count as not there.
    index.write_text(json.dumps(parts), encoding="utf-8")


def _states(dataset: Path) -> dict[int, FloatArray]:
    """Recorded numbers of each episode of a LeRobot dataset, by its index; empty for other sources."""
    import pyarrow.parquet as pq

    found: dict[int, list[FloatArray]] = {}
    for path in sorted((dataset / "data").glob("**/*.parquet")):
        columns = [name for name in STATES if name in pq.read_schema(path).names]
        if not columns:
            continue
        table = pq.read_table(path, columns=["episode_index", *columns])
        rows = np.concatenate([np.stack(table[name].to_numpy()) for name in columns], axis=1)
        indices = table["episode_index"].to_numpy()
        for episode in np.unique(indices):
            found.setdefault(int(episode), []).append(rows[indices == episode].astype(np.float64))
    return {episode: np.concatenate(parts) for episode, parts in found.items()}
