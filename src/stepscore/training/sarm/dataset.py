"""Prepare episodes for SARM's trainer: read labels, and encode every frame once and store it on disk."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from stepscore._files import atomic_path
from stepscore.episodes import Episode, Labels, sample_frames
from stepscore.episodes.labels import read_labels
from stepscore.episodes.lerobot import read_state
from stepscore.errors import EpisodeError, OptionError, StepScoreError
from stepscore.models.sarm import FrameEncoder, Half
from stepscore.procedures import done_spans, stage_spans, without_done
from stepscore.training.sarm.targets import STAGES, LabelledEpisode, Targets, read_episode_labels
from stepscore.types import FloatArray

MAX_FRAMES_PER_BATCH = 64
"""Number of frames decoded and encoded at a time."""


@dataclass(frozen=True, eq=False)
class TrainingEpisode:
    """An episode with its encoded frames and its targets.

    Attributes:
        labelled: The episode and its labels.
        features: Encoded frames of the episode and of its augmented copies, each (n, views, features), on disk.
        state: The robot's state at each frame, (n, state).
        targets: Targets of each head, by name.
    """

    labelled: LabelledEpisode
    features: tuple[Half, ...]
    state: FloatArray
    targets: Mapping[str, Targets]

    @property
    def times(self) -> FloatArray:
        """Timestamps of the frames, (n,)."""
        return self.labelled.times

    @property
    def instruction(self) -> str:
        """The instruction given to the robot."""
        return self.labelled.episode.instruction


def choose_progress(episodes: Sequence[Episode], requested: str | None) -> str:
    """Return the progress to train on: as requested, else the only labelled one, else SARM's from stages."""
    if requested is not None:
        return requested
    names = sorted({name for episode in episodes for name in episode.labels.potentials})
    if len(names) > 1:
        raise OptionError(
            f"The labels state progress under several names ({', '.join(names)}). Choose: -T progress=NAME, or "
            "-T progress=stages for SARM's own labels."
        )
    return names[0] if names else STAGES


def read_labelled(
    episodes: Sequence[Episode], progress: str, *, scheme: str | None, staged: bool
) -> tuple[list[LabelledEpisode], list[str]]:
    """Return the episodes that have the labels, and an error for each of the others."""
    labelled, errors = [], []
    for episode in episodes:
        try:
            labelled.append(read_episode_labels(episode, progress, scheme=scheme, staged=staged))
        except EpisodeError as error:
            errors.append(str(error))
    return labelled, errors


def with_sparse_stages(episodes: Sequence[LabelledEpisode], labels: Path | None) -> list[LabelledEpisode]:
    """Add sparse stages to the episodes, from a labels file or from a LeRobot dataset's sparse columns.

    Raises:
        EpisodeError: An episode has no sparse stages. Dual training needs sparse and dense stages for every
            episode.
    """
    rows = read_labels(labels) if labels is not None else {}
    sparse = []
    for labelled in episodes:
        episode = labelled.episode
        if labels is not None:
            stages = Labels(tuple(row for row in rows.get(episode.id, ()) if row.kind == "stage")).stages
            if not stages:
                raise EpisodeError(
                    f"Episode {episode.id} has no stages in {labels}; dual training needs both."
                )
        else:
            try:
                stages = stage_spans(episode, "sparse")
            except StepScoreError as error:
                raise EpisodeError(
                    f"{error} Dual training needs sparse stages too: give them with -T sparse-labels=FILE."
                ) from error
        spans = without_done(stages, done_spans(episode)) or stages
        sparse.append(replace(labelled, spans=spans))
    return sparse


def encode_episode(
    episode: Episode,
    views: Sequence[str],
    encoder: FrameEncoder,
    features_dir: Path,
    augmentation: int = 0,
    on_frames: Callable[[int], None] | None = None,
) -> Half:
    """Return the features of every frame of an episode, (n, views, features), read from or written to a folder.

    Each frame is decoded and encoded only once, however many windows use it. The file is memory-mapped.

    Args:
        episode: The episode.
        views: The episode's cameras, in order; their frames must have the same timestamps.
        encoder: The frozen encoder.
        features_dir: Folder of encoded episodes.
        augmentation: 0 for the unchanged episode. Any other number gives a copy with the same random shift,
            zoom and brightness in all frames.
        on_frames: Called with the number of frames after each batch.
    """
    selected = episode.with_views(views)
    # The key contains the encoder's content, not its name, because a folder may move.
    encoder_key = {key: value for key, value in encoder.describe().items() if key != "name"}
    content = json.dumps([encoder_key, list(views), augmentation, selected.fingerprint], sort_keys=True)
    key = hashlib.sha256(content.encode()).hexdigest()[:24]
    path = features_dir / f"{key}.npy"
    if not path.is_file():
        encoded = _encode(selected, encoder, augmentation, int(key[:12], 16), on_frames)
        with atomic_path(path, make_folder=True) as temporary, temporary.open("wb") as file:
            np.save(file, encoded)
    features: Half = np.load(path, mmap_mode="r")
    return features


def _encode(
    episode: Episode,
    encoder: FrameEncoder,
    augmentation: int,
    seed: int,
    on_frames: Callable[[int], None] | None,
) -> Half:
    from stepscore.episodes import resize_frames
    from stepscore.training.augment import augmented

    times = episode.views[episode.main_view].timestamps()
    sampled = sample_frames(episode, times=times.tolist())
    side = encoder.side
    columns = []
    for view, indices in sampled.indices.items():
        rows = []
        for start in range(0, len(indices), MAX_FRAMES_PER_BATCH):
            batch = indices[start : start + MAX_FRAMES_PER_BATCH].tolist()
            frames = episode.clip(view, indices=batch, size=side).frames
            if augmentation:
                # The same seed for every batch, so that all frames of a copy get the same augmentation.
                rng = np.random.default_rng(seed)
                frames = augmented(resize_frames(frames, (side, side)), rng, share=1.0)
            rows.append(encoder.encode_images(frames))
            if on_frames is not None:
                on_frames(len(frames))
        columns.append(np.concatenate(rows))
    return np.stack(columns, axis=1)


def episode_state(episode: Episode, columns: Sequence[str]) -> FloatArray:
    """Return the robot's state at each frame, (n, state); (n, 0) without columns."""
    if not columns:
        return np.zeros((len(episode.views[episode.main_view].timestamps()), 0))
    return read_state(episode, columns)
