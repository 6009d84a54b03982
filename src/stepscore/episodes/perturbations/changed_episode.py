"""Episodes with changed views, labels or instruction, under an id that states the change."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import replace

from stepscore.episodes.episode import Episode
from stepscore.episodes.labels.labels import Labels
from stepscore.episodes.labels.subgoals import Subgoal
from stepscore.episodes.perturbations import image_perturbations as images
from stepscore.episodes.perturbations import perturbed_labels as relabel
from stepscore.episodes.perturbations import retimed_view as timing
from stepscore.episodes.view import View


def main_view_of(episode: Episode) -> View:
    """Return the main view; raise an EpisodeError where there is none."""
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
