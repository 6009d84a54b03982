"""An episode of a few chosen frames, for questions about exactly these."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from stepscore.episodes.episode import Episode
from stepscore.episodes.labels.labels import Labels
from stepscore.episodes.perturbations.retimed_view import RetimedView, Schedule
from stepscore.episodes.sampling import frame_at
from stepscore.types import FloatArray


@dataclass(frozen=True)
class ChosenFrames:
    """The frames shown at some seconds, in the order given, each shown for a second."""

    times_s: tuple[float, ...]

    def schedule(self, times: FloatArray, frame_s: float) -> Schedule:
        """Return the frames, one a second."""
        return Schedule(frame_at(times, self.times_s), np.arange(len(self.times_s), dtype=np.float64))

    def frame_s(self, frame_s: float) -> float:
        """Return a second."""
        return 1.0


def choose_frames(episode: Episode, times_s: Sequence[float], name: str) -> Episode:
    """Return an episode called ``name`` that has only the frames shown at ``times_s``, in that order.

    Every view shows the frame that it has at those times. Goal images and instruction stay; labels do not, for the
    frames need not be in the order of time.
    """
    episode.view(episode.main_view)
    chosen = ChosenFrames(tuple(float(t) for t in times_s))
    views = {view: RetimedView(recorded, chosen) for view, recorded in episode.views.items()}
    metadata = {**episode.metadata, "frames_of": episode.id, "times_s": list(chosen.times_s)}
    return replace(
        episode, id=name, views=views, labels=Labels(), recorded=(), signal_reader=None, metadata=metadata
    )
