"""Perturbed episodes: the right answer of a judge is known in advance."""

from stepscore.episodes.perturbations.changed_episode import blank, swap_cameras
from stepscore.episodes.perturbations.image_perturbations import (
    Darker,
    ImagePerturbation,
    Recompressed,
    Shifted,
    Zoomed,
)
from stepscore.episodes.perturbations.perturb import (
    add_noise,
    cut,
    darken,
    freeze,
    lower_resolution,
    opposite_instruction,
    other_instruction,
    pause,
    recompress,
    reverse,
    shift,
    slow_down,
    thin,
    zoom,
)
from stepscore.episodes.perturbations.replay import reordered, repeat, retry, round_trip, shuffle, twice
from stepscore.episodes.perturbations.retimed_view import Cut, RetimedView, Scheduled
from stepscore.episodes.perturbations.rewording import negate, opposite_instruction_of, paraphrase

__all__ = [
    "Cut",
    "Darker",
    "ImagePerturbation",
    "Recompressed",
    "RetimedView",
    "Scheduled",
    "Shifted",
    "Zoomed",
    "add_noise",
    "blank",
    "cut",
    "darken",
    "freeze",
    "lower_resolution",
    "negate",
    "opposite_instruction",
    "opposite_instruction_of",
    "other_instruction",
    "paraphrase",
    "pause",
    "recompress",
    "reordered",
    "repeat",
    "retry",
    "reverse",
    "round_trip",
    "shift",
    "shuffle",
    "slow_down",
    "swap_cameras",
    "thin",
    "twice",
    "zoom",
]
