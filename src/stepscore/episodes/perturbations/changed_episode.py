"""Episodes with changed views, labels or instruction, under an id that states the change."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from stepscore.episodes.episode import Episode
from stepscore.episodes.labels.labels import Labels
from stepscore.episodes.labels.subgoals import Subgoal
from stepscore.episodes.perturbations import image_perturbations as images
from stepscore.episodes.perturbations import perturbed_labels as relabel
from stepscore.episodes.perturbations import retimed_view as timing
from stepscore.episodes.perturbations.retimed_view import RetimedView, Schedule
from stepscore.episodes.sampling import frame_at
from stepscore.episodes.view import View
from stepscore.errors import OptionError
from stepscore.types import FloatArray


def main_view_of(episode: Episode) -> View:
    """Return the main view; raise an EpisodeError if there is none."""
    return episode.view(episode.main_view)


def episode_labels(episode: Episode) -> relabel.EpisodeLabels:
    """Return the labels with the main view's times, which are read from its headers."""
    main = main_view_of(episode)
    last_s, duration_s = float(main.timestamps()[-1]), main.info().duration_s
    return relabel.EpisodeLabels(episode.labels, episode.subgoals, last_s, duration_s)


def with_timing(
    episode: Episode,
    perturbation: timing.TimePerturbation,
    labels: Labels,
    name: str,
    options: Mapping[str, object],
    suffix: str,
) -> Episode:
    """Return the episode with every view under a time perturbation."""
    main_view_of(episode)
    views = {view: timing.RetimedView(recorded, perturbation) for view, recorded in episode.views.items()}
    reader = episode.signal_reader
    signals = None if reader is None else timing.RetimedSignals(reader, perturbation)
    changed = marked(episode, name, options, suffix)
    return replace(changed, views=views, labels=labels, signal_reader=signals)


def with_images(
    episode: Episode,
    perturbation: images.ImagePerturbation,
    name: str,
    options: Mapping[str, object],
    suffix: str,
    only: str | None = None,
) -> Episode:
    """Perturb the images of every view, or of ``only``. What is true of the scene stays true, so labels are kept."""
    main_view_of(episode)
    views = {
        view: images.PerturbedImageView(recorded, perturbation) if only in (None, view) else recorded
        for view, recorded in episode.views.items()
    }
    return replace(marked(episode, name, options, suffix), views=views)


def with_instruction(
    episode: Episode, text: str, subgoals: tuple[Subgoal, ...], labels: Labels, name: str
) -> Episode:
    """Return the same video under another instruction, without the goal images of the recorded task."""
    suffix = hashlib.sha256(text.encode()).hexdigest()[:8]
    changed = marked(episode, name, {"instruction": text}, suffix)
    return replace(changed, instruction=text, subgoals=subgoals, labels=labels, goals={})


def marked(episode: Episode, name: str, options: Mapping[str, object], suffix: str) -> Episode:
    """Return the episode under its new id, with the perturbation noted and without recorded curves."""
    earlier = episode.metadata.get("changed", ())
    changed = (*(earlier if isinstance(earlier, tuple) else ()), {"change": name, **options})
    metadata = {"changed_from": episode.id, **episode.metadata, "changed": changed}
    return replace(
        episode, id=f"{episode.id}~{name}" + (f"-{suffix}" if suffix else ""), metadata=metadata, recorded=()
    )


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


def swap_cameras(episode: Episode) -> Episode:
    """Give every camera's name to the next camera's images; an episode of one camera is an OptionError."""
    main_view_of(episode)
    names = list(episode.views)
    if len(names) < 2:
        raise OptionError(f"Episode {episode.id} has one camera; two or more can be swapped.")
    views = {name: episode.views[other] for name, other in zip(names, [*names[1:], names[0]], strict=True)}
    return replace(marked(episode, "swapped-cameras", {}, ""), views=views)


def blank(episode: Episode, view: str | None = None) -> Episode:
    """Make every image of a view black; of all views, where none is named.

    Labels are kept: the scene is what it was. If all views are black, a judge that still finds progress or success
    does not look at the images.
    """
    if view is not None:
        episode.view(view)  # its error lists the valid names
    return with_images(episode, images.Blank(), "blank", {"view": view}, view or "", only=view)
