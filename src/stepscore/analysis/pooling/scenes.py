"""What numbers are about: the tried scenes, if they are few and tried repeatedly, or similar scenes.

Fewer than ten scenes show little of how scenes differ, so numbers cannot generalise to others. On the tried
scenes the trials are a sample, from which rates and differences can be estimated.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from typing import get_args

from stepscore._options import SceneChoice
from stepscore.errors import UnknownNameError
from stepscore.metrics.stats import FEWEST_SCENES, these_scenes

SceneLabels = Sequence[Hashable]
"""The scene of each trial, with its task; ``None`` if not stated."""


def check_scene_choice(choice: str) -> None:
    """Raise UnknownNameError for an unknown choice of scenes."""
    if choice not in get_args(SceneChoice):
        raise UnknownNameError("choice of scenes", choice, get_args(SceneChoice))


def fixed_scenes(choice: SceneChoice, scenes: SceneLabels, owners: Iterable[Hashable] = ()) -> int:
    """Return the number of fixed scenes of these trials; 0 if numbers generalise to similar scenes.

    Args:
        choice: ``auto`` fixes fewer than ten scenes if an owner has several trials in some.
        scenes: Trials without one count as a scene each.
        owners: The policy and judge of each trial; all the same by default.
    """
    if choice == "sample":
        return 0
    known = [scene for scene in scenes if scene is not None]
    number = len(set(known))
    if choice == "fixed":
        return number
    tried = list(zip(scenes, owners, strict=True)) if owners else [(scene, None) for scene in scenes]
    repeated = len({pair for pair in tried if pair[0] is not None}) < len(known)
    return number if repeated and number + len(scenes) - len(known) < FEWEST_SCENES else 0


def fixed_in_both(choice: SceneChoice, a: SceneLabels, b: SceneLabels) -> int:
    """Return the number of fixed scenes of a comparison; 0 if it generalises to similar scenes.

    ``auto`` fixes fewer than ten shared scenes if a group has several trials in some, and at least half of
    the scenes of the group with fewer are shared. Trials without a scene do not count.
    """
    scenes_a, scenes_b = set(a) - {None}, set(b) - {None}
    shared = scenes_a & scenes_b
    if choice == "sample" or not shared:
        return 0
    trials = [scene for scene in (*a, *b) if scene in shared]
    few = len(shared) < FEWEST_SCENES and 2 * len(shared) >= min(len(scenes_a), len(scenes_b))
    return len(shared) if choice == "fixed" or (few and len(trials) > 2 * len(shared)) else 0


def scope_text(numbers: Iterable[int]) -> str:
    """Return the fixed scenes of a table's rows, like ``"on these 4 scenes"``; empty if any row has none."""
    found = set(numbers)
    if not found or 0 in found:
        return ""
    return these_scenes(found.pop()) if len(found) == 1 else "on these scenes"


def other_scenes_note(number: int) -> str:
    """Return how to generalise beyond these scenes; 0 for several groups with different numbers.

    >>> other_scenes_note(4)[:61]
    'Intervals and tests speak of these 4 scenes and of no others.'
    """
    these = these_scenes(number).removeprefix("on ") if number else "these scenes"
    said = f"Intervals and tests speak of {these} and of no others. To speak of "
    if number >= FEWEST_SCENES:
        return f"{said}scenes like them, choose --scenes sample."
    return (
        f"{said}other scenes, try {FEWEST_SCENES} or more: further trials in the same scenes do not show how scenes "
        "differ."
    )
