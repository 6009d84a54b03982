"""Which scenes numbers speak of: those that were tried, where they are few and tried repeatedly, or scenes like them.

Fewer than ten scenes show little of how scenes differ, so nothing can be said of others. On those that were tried,
the trials are a sample, and a policy's rate or a difference of two policies can be estimated.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from typing import get_args

from stepscore._options import SceneChoice
from stepscore.errors import UnknownNameError
from stepscore.metrics.stats import FEWEST_SCENES, these_scenes

SceneLabels = Sequence[Hashable]
"""The scene of each trial, a task and its scene; ``None`` where it is not stated."""


def check_scene_choice(choice: str) -> None:
    """Raise UnknownNameError for what is no choice of scenes."""
    if choice not in get_args(SceneChoice):
        raise UnknownNameError("choice of scenes", choice, get_args(SceneChoice))


def fixed_scenes(choice: SceneChoice, scenes: SceneLabels, owners: Iterable[Hashable] = ()) -> int:
    """Return the number of scenes that numbers over these trials speak of; 0 where they speak of scenes like them.

    Args:
        choice: ``auto`` fixes fewer than ten scenes in some of which an owner has several trials.
        scenes: The scene of each trial; trials without one count as a scene each.
        owners: Whose trial each is, a policy's under one judge; all of one owner if not given.
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
    """Return the number of scenes that a comparison of two groups speaks of; 0 where it speaks of scenes like them.

    Args:
        choice: ``auto`` fixes fewer than ten shared scenes in some of which a group has several trials, if at least
            half of the scenes of the group with fewer are shared.
        a: The scene of each trial of A; trials without one do not count.
    """
    scenes_a, scenes_b = set(a) - {None}, set(b) - {None}
    shared = scenes_a & scenes_b
    if choice == "sample" or not shared:
        return 0
    trials = [scene for scene in (*a, *b) if scene in shared]
    few = len(shared) < FEWEST_SCENES and 2 * len(shared) >= min(len(scenes_a), len(scenes_b))
    return len(shared) if choice == "fixed" or (few and len(trials) > 2 * len(shared)) else 0


def scope_text(numbers: Iterable[int]) -> str:
    """Return what a table is about, where all of it speaks of fixed scenes: ``"on these 4 scenes"``; else empty.

    Args:
        numbers: The number of fixed scenes of each of its rows; 0 where scenes are a sample.
    """
    found = set(numbers)
    if not found or 0 in found:
        return ""
    return these_scenes(found.pop()) if len(found) == 1 else "on these scenes"


def other_scenes_note(number: int) -> str:
    """Return what it takes to speak of other scenes than these; 0 for several groups with numbers of their own.

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
