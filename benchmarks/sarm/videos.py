"""Test films as the encoder saw them, with what is true in them; and the same films played at another speed."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from stepscore.episodes import Episode, first_frame_from, frame_at
from stepscore.episodes.labels.label_intervals import POTENTIAL
from stepscore.episodes.perturbations.length_matching import match_lengths
from stepscore.models.sarm.encoders import FrameEncoder, Half
from stepscore.sim import get_task
from stepscore.training.embedded.tasks import FPS, VIEW
from stepscore.training.sarm.dataset import see_episode
from stepscore.training.sarm.targets import labelled_progress
from stepscore.types import FloatArray, IntArray


@dataclass(frozen=True, eq=False)
class Film:
    """An episode that is tested on.

    Attributes:
        id: The episode.
        task: The simulator's name.
        pair: Its scene.
        instruction: What the robot was told.
        success: Whether the task is done at the end.
        times: Seconds of its frames, (n,).
        features: What the encoder saw, (n, 1, features).
        truth: The potential, (n,).
        stages: Number of the stage under way, (n,).
    """

    id: str
    task: str
    pair: str | None
    instruction: str
    success: bool
    times: FloatArray
    features: Half
    truth: FloatArray
    stages: IntArray

    def at(self, times: FloatArray) -> IntArray:
        """The frame shown at each of some seconds."""
        return frame_at(self.times, times)

    def picked(self, frames: IntArray, times: FloatArray) -> Film:
        """Some of its frames, shown at other times."""
        return replace(
            self,
            times=times,
            features=np.asarray(self.features)[frames],
            truth=self.truth[frames],
            stages=self.stages[frames],
        )

    def resampled(self, speed: float) -> Film:
        """The same film played so many times as fast, at the same frames a second: some are left out or repeated."""
        times = np.arange(int(self.times[-1] * FPS / speed + 1e-6) + 1) / FPS
        return self.picked(self.at(times * speed), times)

    def begun(self, count: int) -> Film:
        """Its first frames."""
        return self.picked(np.arange(count), self.times[:count])


def film_of(episode: Episode, encoder: FrameEncoder, cache: Path) -> Film:
    """An episode's main view as the encoder sees it; every frame is encoded once and kept."""
    times = episode.views[VIEW].timestamps()
    names = stage_names(str(episode.task))
    stages = np.full(len(times), -1, dtype=np.int64)
    for span in episode.labels.stages:
        first, end = first_frame_from(times, [span.start_s, span.end_s])
        stages[first:end] = names.index(span.name)
    return Film(
        episode.id,
        str(episode.task),
        episode.pair,
        episode.instruction,
        bool(episode.labels.success),
        times,
        see_episode(episode, (VIEW,), encoder, cache),
        labelled_progress(episode, POTENTIAL, times),
        stages,
    )


def seen_from(episode: Episode, view: str) -> Episode:
    """The episode with another camera's film in place of the main one's."""
    return replace(episode, views={VIEW: episode.views[view]}, id=f"{episode.id}~{view}")


def stage_names(task: str) -> list[str]:
    """The stages of a task, in order."""
    return [milestone.stage for milestone in get_task(task).milestones]


@dataclass(frozen=True)
class Ended:
    """A film of a success, or of a failure cut to the length of one.

    Attributes:
        id: The film it is cut from.
        episode: As it is shown.
        frames: How many of its frames are shown.
        success: Which of the two it is.
    """

    id: str
    episode: Episode
    frames: int
    success: bool


def ended(episodes: Iterable[Episode]) -> list[Ended]:
    """Successes and failures of matched lengths."""
    matched = match_lengths(episode.with_views([VIEW]) for episode in episodes)
    good = {success for success, _ in matched.pairs}
    return [
        Ended(str(e.metadata.get("changed_from", e.id)), e, len(e.views[VIEW].timestamps()), e.id in good)
        for e in matched.episodes
    ]


def linear_time(film: Film) -> FloatArray:
    """The clock as a judge: time over duration."""
    last = float(film.times[-1])
    return film.times / last if last > 0 else np.zeros(len(film.times))


def oddness(films: Sequence[Film]) -> list[float]:
    """How unusual each success's stage durations are: the distance of its stages' shares from their task's mean.

    Half the sum of absolute differences, up to the first moment at which the task is done: 0 where every stage
    takes its usual share, 1 where none does. NaN for failures.
    """
    shares = [_shares(film) if film.success else None for film in films]
    usual = {
        task: np.mean(
            [s for f, s in zip(films, shares, strict=True) if s is not None and f.task == task], axis=0
        )
        for task in {film.task for film in films if film.success}
    }
    return [
        math.nan if own is None else float(np.abs(own - usual[film.task]).sum() / 2)
        for film, own in zip(films, shares, strict=True)
    ]


def _shares(film: Film) -> FloatArray:
    done = np.flatnonzero(film.truth >= 1.0)
    stages = film.stages[: max(1, int(done[0]))] if len(done) else film.stages
    count = len(stage_names(film.task))
    return np.bincount(stages[stages >= 0], minlength=count) / max(1, int((stages >= 0).sum()))
