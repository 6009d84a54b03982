"""Labelled episodes as SARM's trainer reads them: every frame encoded once, kept on disk, with its targets."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from stepscore._files import atomic_path
from stepscore.episodes import Episode, Labels, open_episodes, sample_frames
from stepscore.episodes.labels import read_labels
from stepscore.episodes.lerobot import read_state
from stepscore.errors import EpisodeError, OptionError, SourceError, StepScoreError
from stepscore.models.sarm import FrameEncoder, Half
from stepscore.procedures import done_spans, stage_spans, without_done
from stepscore.training.sarm.targets import STAGES, Labelled, Targets, read_labels_of
from stepscore.training.vlm.data.dataset import LABELS_FILE, SUBGOALS_FILE
from stepscore.types import FloatArray

AT_ONCE = 64
"""Frames decoded at a time."""


@dataclass(frozen=True, eq=False)
class SarmFilm:
    """One episode as it is trained on.

    Attributes:
        labelled: The episode and its labels.
        features: What the encoder saw, as it is and in changed copies, each (n, views, features), on disk.
        state: The robot's numbers, (n, state).
        targets: What each head is to say.
    """

    labelled: Labelled
    features: tuple[Half, ...]
    state: FloatArray
    targets: Mapping[str, Targets]

    @property
    def times(self) -> FloatArray:
        """Seconds of its frames."""
        return self.labelled.times

    @property
    def instruction(self) -> str:
        """What the robot was told."""
        return self.labelled.episode.instruction


@dataclass(frozen=True)
class Source:
    """A dataset and its labels.

    Attributes:
        dataset: Where the episodes are.
        labels: A labels file; ``None`` for ``labels.parquet`` in the dataset, where there is one.
    """

    dataset: Path
    labels: Path | None = None

    def episodes(self) -> list[Episode]:
        """Its episodes with labels joined."""
        beside = self.dataset / LABELS_FILE
        labels = self.labels or (beside if beside.is_file() else None)
        beside = self.dataset / SUBGOALS_FILE
        # Subgoals say when a task was done, so that its last stage is not thought to go on.
        subgoals = beside if beside.is_file() else None
        found = list(open_episodes(self.dataset, labels=labels, subgoals=subgoals))
        if not found:
            raise SourceError(f"{self.dataset} has no episodes.")
        return found


def progress_kind(episodes: Sequence[Episode], asked: str | None) -> str:
    """Which progress is learned: what was asked for, else the only one labelled, else SARM's own from stages."""
    if asked is not None:
        return asked
    names = sorted({name for episode in episodes for name in episode.labels.potentials})
    if len(names) > 1:
        raise OptionError(
            f"The labels state progress under several names ({', '.join(names)}). Choose: --progress NAME, or "
            "--progress stages for SARM's own labels."
        )
    return names[0] if names else STAGES


def read_labelled(
    episodes: Sequence[Episode], progress: str, *, scheme: str | None, staged: bool
) -> tuple[list[Labelled], list[str]]:
    """The episodes that have labels, and why each other one is not among them."""
    found, errors = [], []
    for episode in episodes:
        try:
            found.append(read_labels_of(episode, progress, scheme=scheme, staged=staged))
        except EpisodeError as error:
            errors.append(str(error))
    return found, errors


def sparse_labelled(episodes: Sequence[Labelled], labels: Path | None) -> list[Labelled]:
    """The same episodes with their sparse stages: of a labels file, or of a LeRobot dataset's sparse columns.

    Raises:
        EpisodeError: One has none; dual training needs both of every episode.
    """
    rows = read_labels(labels) if labels is not None else {}
    found = []
    for one in episodes:
        episode = one.episode
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
                    f"{error} Dual training needs sparse stages too: give them with --sparse-labels FILE."
                ) from error
        spans = without_done(stages, done_spans(episode)) or stages
        found.append(Labelled(episode, one.times, spans, one.potential, one.done))
    return found


def see_episode(
    episode: Episode,
    views: Sequence[str],
    encoder: FrameEncoder,
    cache: Path,
    copy: int = 0,
    on_frames: Callable[[int], None] | None = None,
) -> Half:
    """What the encoder sees in every frame of an episode, (n, views, features), from the cache or into it.

    Each frame is decoded and encoded once, whatever windows show it; the file is mapped, not read.

    Args:
        episode: The episode.
        views: Its cameras, in order; frames of the same seconds.
        encoder: The encoder.
        cache: Folder of what was seen before.
        copy: 0 for the episode as it is; others are shifted, zoomed and lit differently, all frames alike.
        on_frames: Told how many frames were encoded.
    """
    shown = episode.with_views(views)
    # What the encoder is counts, not what it is called: a folder may move.
    eyes = {key: value for key, value in encoder.describe().items() if key != "name"}
    told = json.dumps([eyes, list(views), copy, shown.fingerprint], sort_keys=True)
    key = hashlib.sha256(told.encode()).hexdigest()[:24]
    path = cache / f"{key}.npy"
    if not path.is_file():
        cache.mkdir(parents=True, exist_ok=True)
        features = _see(shown, encoder, copy, int(key[:12], 16), on_frames)
        with atomic_path(path) as temporary, temporary.open("wb") as file:
            np.save(file, features)
    seen: Half = np.load(path, mmap_mode="r")
    return seen


def _see(
    episode: Episode, encoder: FrameEncoder, copy: int, seed: int, on_frames: Callable[[int], None] | None
) -> Half:
    from stepscore.episodes import resize_frames
    from stepscore.training.augment import augmented

    times = episode.views[episode.main_view].timestamps()
    moments = sample_frames(episode, times=times.tolist())
    side = encoder.side
    columns = []
    for view, indices in moments.indices.items():
        rows = []
        for start in range(0, len(indices), AT_ONCE):
            frames = episode.clip(view, indices=indices[start : start + AT_ONCE].tolist(), size=side).frames
            if copy:
                # The same seed for every part: all frames of a copy are changed alike.
                frames = augmented(resize_frames(frames, (side, side)), np.random.default_rng(seed), share=1.0)
            rows.append(encoder.see(frames))
            if on_frames is not None:
                on_frames(len(frames))
        columns.append(np.concatenate(rows))
    return np.stack(columns, axis=1)


def film_state(episode: Episode, columns: Sequence[str]) -> FloatArray:
    """The robot's numbers at each frame; (n, 0) where none are asked for."""
    if not columns:
        return np.zeros((len(episode.views[episode.main_view].timestamps()), 0))
    return read_state(episode, columns)
