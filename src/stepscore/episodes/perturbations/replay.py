"""Episodes that replay their recording differently: backwards, repeatedly, or in another order.

The state in a frame does not depend on when the frame is played, so the true progress moves with the frames.
A judge that relies on elapsed time cannot follow.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from stepscore.episodes.episode import Episode
from stepscore.episodes.labels.labels import Labels
from stepscore.episodes.perturbations import perturbed_labels as relabel
from stepscore.episodes.perturbations.changed_episode import (
    episode_labels,
    main_view_of,
    with_instruction,
    with_timing,
)
from stepscore.episodes.perturbations.retimed_view import Replayed, RetimedView, TimePerturbation
from stepscore.episodes.perturbations.rewording import inside_a_sentence
from stepscore.errors import OptionError

Segments = tuple[tuple[float, float], ...]


def round_trip(episode: Episode) -> Episode:
    """Play the whole episode forwards, then backwards to its first frame, in one video."""
    return _replayed(episode, ((0.0, 1.0), (1.0, 0.0)), "round-trip", {}, "")


def retry(episode: Episode, to: float = 0.6, back_to: float = 0.2) -> Episode:
    """Play up to the share ``to`` of the episode, rewind to ``back_to``, then play to the end."""
    if not 0 <= back_to < to <= 1:
        raise OptionError(f"to and back_to must satisfy 0 <= back_to < to <= 1, got {to} and {back_to}.")
    options = {"to": float(to), "back_to": float(back_to)}
    segments = ((0.0, float(to)), (float(to), float(back_to)), (float(back_to), 1.0))
    return _replayed(episode, segments, "retry", options, f"{to:g}-{back_to:g}")


def repeat(episode: Episode, times: int = 2) -> Episode:
    """Play the whole episode ``times`` times, each time from its first frame."""
    if int(times) != times or not 2 <= times <= 16:
        raise OptionError(f"times must be an integer from 2 to 16, got {times}.")
    return _replayed(episode, ((0.0, 1.0),) * int(times), "repeated", {"times": int(times)}, str(int(times)))


def twice(episode: Episode) -> Episode:
    """Play the whole episode two times, with the instruction to do the task twice.

    After the first time, half of the task is done, and no image shows which of the two times is playing.
    """
    text = f"Do this twice: {inside_a_sentence(episode.instruction)}."
    again = repeat(episode)
    main = main_view_of(episode)
    labels = relabel.twice_labels(again.labels, float(main.timestamps()[-1]) + 1.0 / main.info().fps)
    return with_instruction(again, text, (), labels, "twice")


def shuffle(episode: Episode, blocks: int = 8, *, seed: int = 0) -> Episode:
    """Cut the episode into ``blocks`` of equal length and play them in another order.

    Args:
        episode: The episode to perturb.
        blocks: Number of blocks, from 2 to 256.
        seed: Random seed. The order depends only on the seed and the episode's id, and always differs from
            the recording.
    """
    if int(blocks) != blocks or not 2 <= blocks <= 256:
        raise OptionError(f"blocks must be an integer from 2 to 256, got {blocks}.")
    number = hashlib.sha256(f"shuffle\0{seed}\0{episode.id}".encode()).digest()[:8]
    order = np.random.default_rng(int.from_bytes(number, "big")).permutation(int(blocks))
    if np.all(order == np.arange(blocks)):
        order = order[::-1]
    edges = np.linspace(0.0, 1.0, int(blocks) + 1)
    segments = tuple((float(edges[block]), float(edges[block + 1])) for block in order)
    options = {"blocks": int(blocks), "seed": int(seed)}
    return _replayed(episode, segments, "shuffled", options, f"{blocks}" + (f"-{seed}" if seed else ""))


def reordered(episode: Episode, perturbation: TimePerturbation) -> Episode:
    """Play frames in another order; each frame keeps its labels.

    The episode's id does not change, so use this only for training data. For episodes to judge, use
    :func:`perturb`.
    """
    views = {name: RetimedView(view, perturbation) for name, view in episode.views.items()}
    return replace(episode, views=views, labels=_labels(episode, perturbation), signal_reader=None)


def _labels(episode: Episode, perturbation: TimePerturbation) -> Labels:
    if not episode.labels.rows:
        return episode.labels
    main = main_view_of(episode)
    times, frame_s = main.timestamps(), 1.0 / main.info().fps
    schedule = perturbation.schedule(times, frame_s)
    shown_s = perturbation.frame_s(frame_s)
    return relabel.replayed_labels(episode_labels(episode), times[schedule.frames], schedule.times, shown_s)


def _replayed(
    episode: Episode, segments: Segments, name: str, options: Mapping[str, object], suffix: str
) -> Episode:
    perturbation = Replayed(segments)
    return with_timing(episode, perturbation, _labels(episode, perturbation), name, options, suffix)
