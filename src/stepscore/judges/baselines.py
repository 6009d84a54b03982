"""The trivial judges that every other judge is compared with. They look at no frame.

A judge that cannot beat these knows nothing: on rollouts that stop after success, the clock alone ranks
the frames of every success perfectly.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from stepscore.episodes import Episode
from stepscore.errors import EpisodeError
from stepscore.judges.base import Ask, episode_rng
from stepscore.judges.common.option_checks import check_options, seed, whole, within
from stepscore.types import Curve, FloatArray, Judgement


def sample_times(episode: Episode, points: int) -> FloatArray:
    """Return timestamps of ``points`` frames spread evenly from the first to the last (fewer in a short episode)."""
    if not episode.views:
        raise EpisodeError(f"Episode {episode.id} has no video, so no frame times; use the 'recorded' judge.")
    at = episode.views[episode.main_view].timestamps()
    if not len(at):
        raise EpisodeError(f"Episode {episode.id} has no frames.")
    return at[np.round(np.linspace(0, len(at) - 1, min(points, len(at)))).astype(np.int64)]


class Baseline(Protocol):
    """A judge that needs nothing of an episode but its id and the times to score."""

    def judge_at(self, episode: Episode, times: FloatArray) -> Judgement:
        """Return the judgement at these times, in seconds, strictly increasing."""


@dataclass(frozen=True)
class LinearTime:
    """Progress is time over duration: the clock as a judge.

    Attributes:
        points: Points on the curve, from the first frame to the last.
    """

    points: int = 32
    name = "linear-time"
    version = 1
    models = ()

    def __post_init__(self) -> None:
        check_options(self, points=whole(2))

    def options(self) -> Mapping[str, object]:
        """Return all that can change a number."""
        return {"points": self.points}

    async def judge(self, episode: Episode, ask: Ask) -> Judgement:
        """Score by the clock at ``points`` frames."""
        return self.judge_at(episode, sample_times(episode, self.points))

    def judge_at(self, episode: Episode, times: FloatArray) -> Judgement:
        """Return a straight line from 0 at time 0 to 1 at the last of these times."""
        progress = times / times[-1] if times[-1] > 0 else np.zeros_like(times)
        return Judgement(Curve(times, progress))


@dataclass(frozen=True)
class Constant:
    """Progress is the same everywhere.

    Attributes:
        value: Progress and success score, 0..1.
        points: Points on the curve.
    """

    value: float = 0.5
    points: int = 32
    name = "constant"
    version = 1
    models = ()

    def __post_init__(self) -> None:
        check_options(self, points=whole(2), value=within(0, 1))

    def options(self) -> Mapping[str, object]:
        """Return all that can change a number."""
        return {"value": self.value, "points": self.points}

    async def judge(self, episode: Episode, ask: Ask) -> Judgement:
        """Score ``points`` frames alike."""
        return self.judge_at(episode, sample_times(episode, self.points))

    def judge_at(self, episode: Episode, times: FloatArray) -> Judgement:
        """Return a flat line, and the same value as success score."""
        return Judgement(Curve(times, np.full_like(times, self.value)), success_score=self.value)


@dataclass(frozen=True)
class RandomMonotone:
    """Progress rises at random: sorted uniform numbers, up to a random end.

    Attributes:
        points: Points on the curve.
        seed: Random seed; each episode has curves of its own.
    """

    points: int = 32
    seed: int = 0
    name = "random-monotone"
    version = 1
    models = ()

    def __post_init__(self) -> None:
        check_options(self, points=whole(2), seed=seed())

    def options(self) -> Mapping[str, object]:
        """Return all that can change a number."""
        return {"points": self.points, "seed": self.seed}

    async def judge(self, episode: Episode, ask: Ask) -> Judgement:
        """Score ``points`` frames at random."""
        return self.judge_at(episode, sample_times(episode, self.points))

    def judge_at(self, episode: Episode, times: FloatArray) -> Judgement:
        """Return a random rising curve and a random success score, fixed by the episode's id and the seed."""
        rng = episode_rng(episode, self.name, self.seed)
        progress = np.sort(rng.uniform(0.0, 1.0, len(times))) * rng.uniform()
        return Judgement(Curve(times, progress), success_score=float(rng.uniform()))


BASELINES: Mapping[str, Baseline] = {
    judge.name: judge for judge in (LinearTime(), Constant(), RandomMonotone())
}
"""The baselines by name, each with its default options."""
