"""Perturbed episodes: the right answer of a sound judge is known in advance.

Each function returns a new :class:`Episode` and reads no frame. Its views read lazily and have a digest of
their own, so that fingerprints, caches and resume keep it apart from the recorded one. Its id ends in the
perturbation (``episode_000012~frozen-first``), ``metadata["changed"]`` lists all perturbations with their options
in order, and ``metadata["changed_from"]`` is the id of the recorded episode. Labels follow the perturbation, and
are unknown where it makes them so. Recorded curves belong to the recorded video and are left out. Task, policy and
pair stay, so that an episode and its perturbed copies are measured together. :data:`PERTURBATIONS` names all; see
``docs/data/perturbations.md``.
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Literal

from stepscore.episodes.episode import Episode
from stepscore.episodes.labels.label_intervals import LABEL_TOLERANCE_S
from stepscore.episodes.labels.labels import Labels
from stepscore.episodes.labels.subgoals import Subgoal
from stepscore.episodes.perturbations import image_perturbations as images
from stepscore.episodes.perturbations import perturbed_labels as relabel
from stepscore.episodes.perturbations import retimed_view as timing
from stepscore.episodes.perturbations.changed_episode import (
    blank,
    episode_labels,
    main_view_of,
    swap_cameras,
    with_images,
    with_instruction,
    with_timing,
)
from stepscore.episodes.perturbations.replay import repeat, retry, round_trip, shuffle, twice
from stepscore.episodes.perturbations.rewording import (
    OPPOSITES,
    TaskInstructions,
    negate,
    opposite_instruction_of,
    paraphrase,
)
from stepscore.errors import OptionError, UnknownNameError


def freeze(episode: Episode, at: Literal["first", "last"] = "first") -> Episode:
    """Show one frame for the whole length of the episode: the ``first``, or the ``last``."""
    if at not in ("first", "last"):
        raise OptionError(f"at is {at!r}; allowed are 'first' and 'last'.")
    labels = episode.labels
    if labels.rows:
        labelled = episode_labels(episode)
        labels = relabel.frozen_labels(labelled, 0.0 if at == "first" else labelled.last_s)
    return with_timing(episode, timing.Frozen(at == "last"), labels, "frozen", {"at": at}, at)


def reverse(episode: Episode) -> Episode:
    """Play the episode backwards, from its last frame to its first."""
    labels = relabel.reversed_labels(episode_labels(episode)) if episode.labels.rows else episode.labels
    return with_timing(episode, timing.Reversed(), labels, "reversed", {}, "")


def cut(episode: Episode, to_s: float | None = None, *, share: float | None = None) -> Episode:
    """Keep the beginning of the episode; give one of ``to_s`` and ``share``.

    Args:
        episode: The episode to cut.
        to_s: Keep the frames shown before this second; at least the first stays.
        share: Keep this share of the main view's duration, above 0 and at most 1.
    """
    if (to_s is None) == (share is None):
        raise OptionError("Give exactly one of to_s and share.")
    labelled = episode_labels(episode)
    if share is not None and not 0 < share <= 1:
        raise OptionError(f"share must be above 0 and at most 1, got {share}.")
    end = float(to_s) if to_s is not None else float(share or 0.0) * labelled.duration_s
    if not 0 < end <= labelled.duration_s + LABEL_TOLERANCE_S:
        raise OptionError(
            f"Episode {episode.id} cannot be cut to {end:g} s: it runs from 0 to {labelled.duration_s:g} s."
        )
    perturbation = timing.Cut(end)
    main = timing.RetimedView(main_view_of(episode), perturbation)
    last_s, info = float(main.timestamps()[-1]), main.info()
    labels = episode.labels
    if last_s < labelled.last_s:
        labels = relabel.cut_labels(labelled, last_s, info.duration_s)
    options = {"to_s": end} if share is None else {"share": float(share)}
    return with_timing(
        episode, perturbation, labels, "cut", options, f"{end:g}s" if share is None else f"{share:g}"
    )


def slow_down(episode: Episode, factor: float = 2.0) -> Episode:
    """Show each frame ``factor`` times as long; below 1 the episode runs faster."""
    if not 0 < factor < math.inf:
        raise OptionError(f"factor must be above 0 and finite (2 is half as fast), got {factor}.")
    labels = relabel.slowed_labels(episode.labels, factor)
    perturbation = timing.Slowed(float(factor))
    return with_timing(episode, perturbation, labels, "slowed", {"factor": float(factor)}, f"{factor:g}")


def thin(episode: Episode, every: int = 2) -> Episode:
    """Keep every ``every``-th frame, as a camera of a lower frame rate records it."""
    if int(every) != every or every < 2:
        raise OptionError(f"every must be an integer of at least 2, got {every}.")
    perturbation = timing.Thinned(int(every))
    main = timing.RetimedView(main_view_of(episode), perturbation)
    labels, last_s = episode.labels, float(main.timestamps()[-1])
    if labels.rows and last_s < (given := episode_labels(episode)).last_s:
        labels = relabel.cut_labels(given, last_s, main.info().duration_s)
    return with_timing(episode, perturbation, labels, "thinned", {"every": int(every)}, str(int(every)))


def pause(episode: Episode, at_s: float, seconds: float = 1.0) -> Episode:
    """Hold the frame shown at ``at_s`` for ``seconds`` longer; all that follows comes later."""
    end = episode_labels(episode).duration_s
    if not 0 <= at_s < end:
        raise OptionError(f"at_s is {at_s:g}; episode {episode.id} runs from 0 to {end:g} s.")
    if not 0 < seconds < math.inf:
        raise OptionError(f"seconds must be above 0 and finite, got {seconds}.")
    perturbation = timing.Paused(float(at_s), float(seconds))
    labels = relabel.paused_labels(episode.labels, float(at_s), float(seconds))
    options = {"at_s": perturbation.at_s, "seconds": perturbation.seconds}
    return with_timing(episode, perturbation, labels, "paused", options, f"{at_s:g}s-{seconds:g}s")


def shift(episode: Episode, dx: int = 0, dy: int = 0, *, fill: images.Fill = "edge") -> Episode:
    """Move the image ``dx`` recorded pixels right and ``dy`` down; at least one is not 0.

    Args:
        episode: The episode to perturb.
        dx: Pixels to the right; negative moves left.
        dy: Pixels down; negative moves up.
        fill: Colour of the uncovered pixels: ``"edge"`` repeats the image's edge, ``"black"`` is black.
    """
    if int(dx) != dx or int(dy) != dy or not (dx or dy):
        raise OptionError(f"The shift must be whole pixels, and not (0, 0), got ({dx}, {dy}).")
    if fill not in ("edge", "black"):
        raise OptionError(f"fill is {fill!r}; allowed are 'edge' and 'black'.")
    options = {"dx": int(dx), "dy": int(dy), "fill": fill}
    suffix = f"{int(dx)}x{int(dy)}" + ("" if fill == "edge" else f"-{fill}")
    return with_images(episode, images.Shifted(int(dx), int(dy), fill), "shifted", options, suffix)


def zoom(episode: Episode, factor: float = 1.15) -> Episode:
    """Enlarge the middle of the image by ``factor``, above 1; the rest is cropped."""
    if not 1 < factor < math.inf:
        raise OptionError(f"factor must be above 1 and finite, got {factor}.")
    perturbation = images.Zoomed(float(factor))
    return with_images(episode, perturbation, "zoomed", {"factor": perturbation.factor}, f"{factor:g}")


def darken(episode: Episode, factor: float = 0.5) -> Episode:
    """Multiply every value of every pixel by ``factor``, between 0 and 1."""
    if not 0 < factor < 1:
        raise OptionError(f"factor must be between 0 and 1, got {factor}.")
    perturbation = images.Darker(float(factor))
    return with_images(episode, perturbation, "darker", {"factor": perturbation.factor}, f"{factor:g}")


def recompress(episode: Episode, quality: int = 40) -> Episode:
    """Encode every frame again as JPEG of this ``quality``, 1 (worst) to 95."""
    if int(quality) != quality or not 1 <= quality <= 95:
        raise OptionError(f"quality must be an integer from 1 to 95, got {quality}.")
    perturbation = images.Recompressed(int(quality))
    return with_images(
        episode, perturbation, "recompressed", {"quality": perturbation.quality}, str(perturbation.quality)
    )


def add_noise(episode: Episode, sigma: float = 12.0, *, seed: int = 0) -> Episode:
    """Add Gaussian noise of ``sigma`` of 255 levels to every value of every pixel."""
    if not 0 < sigma < math.inf:
        raise OptionError(f"sigma must be above 0 and finite, got {sigma}.")
    perturbation = images.Noisy(float(sigma), int(seed))
    options = {"sigma": perturbation.sigma, "seed": perturbation.seed}
    return with_images(episode, perturbation, "noisy", options, f"{sigma:g}" + (f"-{seed}" if seed else ""))


def lower_resolution(episode: Episode, factor: float = 2.0) -> Episode:
    """Record every image with ``factor`` times fewer pixels along each side, enlarged to its size again."""
    if not 1 < factor < math.inf:
        raise OptionError(f"factor must be above 1 and finite, got {factor}.")
    perturbation = images.LowResolution(float(factor))
    return with_images(
        episode, perturbation, "low-resolution", {"factor": perturbation.factor}, f"{factor:g}"
    )


def other_instruction(
    episode: Episode,
    text: str | None = None,
    *,
    among: Sequence[Episode] | TaskInstructions = (),
    seed: int = 0,
) -> Episode:
    """Give the same video the instruction of another task; give one of ``text`` and ``among``.

    A drawn instruction brings its subgoals with it; subgoals, goal images and labels of the episode's own task are
    left out. Whether the other task was done is unknown, though mostly it was not.

    Args:
        episode: The episode to perturb.
        text: The other instruction.
        among: Episodes to draw it from, or their instructions: one of those of another task, each instruction with
            the same probability.
        seed: Random seed; the draw depends only on it and the episode's id.
    """
    if (text is None) == (not among):
        raise OptionError("Give exactly one of text and among.")
    subgoals: tuple[Subgoal, ...] = ()
    if text is None:
        given = among if isinstance(among, TaskInstructions) else TaskInstructions.of(among)
        drawn = given.draw_other(episode, seed)
        text, subgoals = drawn.instruction, drawn.subgoals
    if text.strip().lower() == episode.instruction.strip().lower():
        raise OptionError(f"The other instruction is episode {episode.id}'s own: {text!r}.")
    return with_instruction(episode, text, subgoals, Labels(), "other-instruction")


def opposite_instruction(episode: Episode, opposites: Mapping[str, str] = OPPOSITES) -> Episode:
    """Give the same video the opposite instruction; see ``antonyms.py``.

    Where the task's success holds at the end, its opposite's does not. All else is unknown: a drawer that was
    never opened may have been closed throughout.
    """
    holds = relabel.final_verdict(episode.labels)
    rows = (replace(holds, value=0.0),) if holds is not None and holds.value >= 0.5 else ()
    text = opposite_instruction_of(episode.instruction, opposites)
    return with_instruction(episode, text, (), Labels(rows), "opposite-instruction")


PERTURBATIONS: Mapping[str, Callable[..., Episode]] = {
    "frozen": freeze,
    "reversed": reverse,
    "cut": cut,
    "slowed": slow_down,
    "paused": pause,
    "thinned": thin,
    "shifted": shift,
    "zoomed": zoom,
    "darker": darken,
    "recompressed": recompress,
    "noisy": add_noise,
    "low-resolution": lower_resolution,
    "blank": blank,
    "swapped-cameras": swap_cameras,
    "round-trip": round_trip,
    "retry": retry,
    "repeated": repeat,
    "twice": twice,
    "shuffled": shuffle,
    "paraphrase": paraphrase,
    "negated": negate,
    "other-instruction": other_instruction,
    "opposite-instruction": opposite_instruction,
}
"""Every perturbation by name."""


def perturb(episode: Episode, name: str, **options: Any) -> Episode:
    """Perturb an episode by name: ``perturb(episode, "shifted", dx=8)``."""
    if name not in PERTURBATIONS:
        raise UnknownNameError("perturbation", name, PERTURBATIONS)
    valid = [option for option in inspect.signature(PERTURBATIONS[name]).parameters if option != "episode"]
    for option in options:
        if option not in valid:
            raise UnknownNameError("option", option, valid, where=f"the perturbation {name!r}")
    return PERTURBATIONS[name](episode, **options)
