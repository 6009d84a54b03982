"""Perturbed episodes: what a judge must answer about them is known beforehand."""

from stepscore.episodes.perturbations.antonyms import opposite_instruction_of
from stepscore.episodes.perturbations.image_perturbations import (
    Darker,
    ImagePerturbation,
    Recompressed,
    Shifted,
    Zoomed,
)
from stepscore.episodes.perturbations.perturb import (
    cut,
    darken,
    freeze,
    opposite_instruction,
    other_instruction,
    pause,
    recompress,
    reverse,
    shift,
    slow_down,
    zoom,
)
from stepscore.episodes.perturbations.retimed_view import Cut, RetimedView

__all__ = [
    "Cut",
    "Darker",
    "ImagePerturbation",
    "Recompressed",
    "RetimedView",
    "Shifted",
    "Zoomed",
    "cut",
    "darken",
    "freeze",
    "opposite_instruction",
    "opposite_instruction_of",
    "other_instruction",
    "pause",
    "recompress",
    "reverse",
    "shift",
    "slow_down",
    "zoom",
]
