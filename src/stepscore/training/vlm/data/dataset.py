"""Labelled episodes in memory for training: every frame decoded once, with the labels at each frame."""

from __future__ import annotations

import hashlib
import json
import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np

from stepscore._files import atomic_path, write_text
from stepscore.episodes import Episode, resize_frames
from stepscore.episodes.labels import Subgoal, Truth, subgoal_truth, success_truth
from stepscore.training.labelled_source import LabelledSource
from stepscore.training.vlm.data.answer_key import EpisodeTruth
from stepscore.types import BoolArray, FloatArray, Frames

STATE_COLUMNS = ("observation.state", "observation.environment_state")
"""Columns of a LeRobot dataset that an auxiliary head learns to predict from the frames."""


@dataclass(frozen=True, eq=False)
class LabelledVideo:
    """One episode with its decoded frames and its labels at each of them: NaN where there is none.

    Attributes:
        episode: The episode itself.
        views: Frames by view, each (n, size, size, 3).
        times: Timestamp of each frame in seconds, (n,).
        potential: Progress in 0..1 at each frame, (n,).
        success: Whether the task is done at each frame, 1 or 0, (n,).
        subgoals_true: Whether each subgoal is true at each frame, 1 or 0, (n, K).
        states: Recorded robot and scene state at each frame, (n, S); S is 0 where nothing is recorded.
        again_from: In a variant that plays the whole recording twice, the frame at which it begins again.
    """

    episode: Episode
    views: Mapping[str, Frames]
    times: FloatArray
    potential: FloatArray
    success: FloatArray
    subgoals_true: FloatArray
    states: FloatArray
    again_from: int | None = None

    def __len__(self) -> int:
        return len(self.times)

    @cached_property
    def has_progress(self) -> bool:
        """Whether the episode has progress labels with a value, at whatever time."""
        return has_progress(self.episode)

    @property
    def instruction(self) -> str:
        """The text the robot was given."""
        return self.episode.instruction

    @property
    def subgoals(self) -> tuple[Subgoal, ...]:
        """The labelled subgoals, in order."""
        return self.episode.subgoals

    def reached(self, number: int, shown: BoolArray) -> float:
        """Return whether a subgoal counts after the frames shown: 1, 0, or NaN where that is unknown.

        Args:
            number: The subgoal, from 0.
            shown: Which frames have been shown; the last of them is the one at which ``holds`` counts.
        """
        true, subgoal = self.subgoals_true[:, number], self.subgoals[number]
        counted = np.flatnonzero(shown) if subgoal.mode == "ever" else np.flatnonzero(shown)[-1:]
        reached = 1.0 if np.any(true[counted] == 1.0) else true[counted].max()  # NaN where one of them is
        if np.isnan(reached) and shown.all():
            at_end = self.episode.labels.subgoal(subgoal.name)
            return np.nan if at_end is None else float(at_end)
        return float(reached)


def read_videos(
    dataset: Path | LabelledSource,
    image_size: int,
    cache: Path,
    on_episode: Callable[[int, int], None] | None = None,
    log: Callable[[str], None] = lambda text: None,
) -> list[LabelledVideo]:
    """Read all episodes of a dataset with labels of progress or subgoals; what one lacks is NaN.

    Frames are decoded and resized once, into a file of ``cache`` that later runs and other processes reuse; it
    stays on disk and is memory-mapped, so that memory does not grow with the dataset.

    Args:
        dataset: A source and its labels; of a path, the files next to its data, such as ``stepscore sim`` writes.
        image_size: Pixels a side of the resized frames.
        cache: Folder for decoded frames.
        on_episode: Called after each decoded episode with its number and the number of episodes.
        log: Called with lines about the episodes that are left out, and about what the others lack.
    """
    labelled = dataset if isinstance(dataset, LabelledSource) else LabelledSource(dataset)
    episodes = _labelled_episodes(labelled.source, labelled.episodes(log), log)
    if not episodes:
        return []
    decoded = _cached_frames(episodes, image_size, cache, on_episode)
    states = _read_states(labelled.source)
    videos = []
    for episode, views in zip(episodes, decoded, strict=True):
        times = episode.views[episode.main_view].timestamps()
        recorded = states.get(episode.source_index if episode.source_index is not None else -1)
        videos.append(
            _labelled(episode, views, times, np.zeros((len(times), 0)) if recorded is None else recorded)
        )
    return videos


def _labelled(
    episode: Episode, views: Mapping[str, Frames], times: FloatArray, states: FloatArray
) -> LabelledVideo:
    last_s = float(times[-1])
    done = _held(success_truth(episode.labels, last_s), times)
    subgoals = [subgoal_truth(episode.labels, s.name, s.mode, last_s) for s in episode.subgoals]
    unknown = np.full(len(times), np.nan)
    potential = EpisodeTruth(episode).progress_at(times) if has_progress(episode) else unknown
    held = np.array([_held(truth, times) for truth in subgoals]).reshape(-1, len(times)).T
    success = unknown if episode.labels.success is None else done
    return LabelledVideo(episode, views, times, potential, success, held, states)


def _held(truth: Truth, times: FloatArray) -> FloatArray:
    """Return whether a statement was true at each time: 1, 0, or NaN where that is unknown."""
    known = [truth.held(float(t)) for t in times]
    return np.array([np.nan if held is None else float(held) for held in known], dtype=np.float64)


def _labelled_episodes(
    dataset: Path, episodes: Sequence[Episode], log: Callable[[str], None]
) -> list[Episode]:
    """Return the episodes that can be trained on; logs how many were left out, and why."""
    kept: list[Episode] = []
    left_out: Counter[str] = Counter()
    for episode in episodes:
        missing = _missing_label(episode)
        if missing is None:
            kept.append(episode)
        else:
            left_out[missing] += 1
    if left_out:
        reasons = ", ".join(f"{n} {reason}" for reason, n in left_out.items())
        log(f"{dataset}: {left_out.total()} of {len(episodes)} episodes left out ({reasons}).")
    of_completion = {
        "success label": sum(e.labels.success is None for e in kept),
        "progress labels": sum(not has_progress(e) for e in kept),
    }
    for what, count in of_completion.items():
        if count:
            log(
                f"{dataset}: {count} of {len(kept)} episodes have no {what}: nothing is trained about when their "
                "task is completed."
            )
    of_subgoals = [e.labels.subgoal(subgoal.name) for e in kept for subgoal in e.subgoals]
    if None in of_subgoals:
        log(
            f"{dataset}: {of_subgoals.count(None)} of {len(of_subgoals)} subgoals have no label; nothing is "
            "trained about them."
        )
    return kept


def _missing_label(episode: Episode) -> str | None:
    """Return what keeps an episode from being trained on; ``None`` where nothing does."""
    if episode.error is not None or not episode.views:
        return "cannot be read"
    has_subgoal = any(row.kind == "subgoal" and row.value >= 0 for row in episode.labels.rows)
    return None if has_subgoal or has_progress(episode) else "without progress or subgoal labels"


def has_progress(episode: Episode) -> bool:
    """Return whether an episode has progress labels with a value."""
    return any(row.kind == "progress" and not math.isnan(row.value) for row in episode.labels.rows)


def _cached_frames(
    episodes: Sequence[Episode],
    image_size: int,
    cache: Path,
    on_episode: Callable[[int, int], None] | None,
) -> list[dict[str, Frames]]:
    """Return the frames of every view of every episode, out of one memory-mapped file."""
    fingerprints = "".join(episode.fingerprint for episode in episodes)
    key = hashlib.sha256(f"{image_size} {fingerprints}".encode()).hexdigest()[:20]
    data, index = cache / f"{key}.npy", cache / f"{key}.json"
    if not index.is_file():
        cache.mkdir(parents=True, exist_ok=True)
        _decode(episodes, image_size, data, index, on_episode)
    frames = np.load(data, mmap_mode="r")
    return [
        {view: frames[start:stop] for view, (start, stop) in parts.items()}
        for parts in json.loads(index.read_text(encoding="utf-8"))
    ]


def _decode(
    episodes: Sequence[Episode],
    image_size: int,
    data: Path,
    index: Path,
    on_episode: Callable[[int, int], None] | None,
) -> None:
    lengths = [{name: len(view.timestamps()) for name, view in e.views.items()} for e in episodes]
    total = sum(sum(parts.values()) for parts in lengths)
    shape = (total, image_size, image_size, 3)
    parts, at = [], 0
    with atomic_path(data) as temporary:
        frames = np.lib.format.open_memmap(temporary, mode="w+", dtype=np.uint8, shape=shape)
        for number, (episode, of_views) in enumerate(zip(episodes, lengths, strict=True), start=1):
            places = {}
            for name, length in of_views.items():
                clip = episode.clip(name, indices=range(length))
                frames[at : at + length] = resize_frames(clip.frames, (image_size, image_size))
                places[name] = (at, at + length)
                at += length
            parts.append(places)
            if on_episode is not None:
                on_episode(number, len(episodes))
        frames.flush()
    # The index is written last: without it the frames count as missing.
    write_text(index, json.dumps(parts))


def _read_states(dataset: Path) -> dict[int, FloatArray]:
    """Read the recorded states of each episode of a LeRobot dataset, by its index; empty for other sources."""
    import pyarrow.parquet as pq

    rows_of: dict[int, list[FloatArray]] = {}
    for path in sorted((dataset / "data").glob("**/*.parquet")):
        columns = [name for name in STATE_COLUMNS if name in pq.read_schema(path).names]
        if not columns:
            continue
        table = pq.read_table(path, columns=["episode_index", *columns])
        rows = np.concatenate([np.stack(table[name].to_numpy()) for name in columns], axis=1)
        indices = table["episode_index"].to_numpy()
        for episode in np.unique(indices):
            rows_of.setdefault(int(episode), []).append(rows[indices == episode].astype(np.float64))
    return {episode: np.concatenate(parts) for episode, parts in rows_of.items()}
