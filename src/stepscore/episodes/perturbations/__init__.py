"""Perturbed episodes: what a judge must answer about them is known beforehand."""

from stepscore.episodes.perturbations.antonyms import opposite_instruction_of
from stepscore.episodes.perturbations.image_perturbations import (
    Darker,
    ImagePerturbation,
    Recompressed,
    Shifted,
    Zoomed,
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
    "opposite_instruction_of",
]
