"""Which scenes are kept apart for validation: whole ones, so that nothing of them is trained on."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Sequence

from stepscore.episodes import Episode


def scene_of(episode: Episode) -> tuple[str, str]:
    """Return task and scene of an episode; one that names no scene is a scene of its own."""
    return episode.task or episode.instruction, episode.pair or episode.id


def validation_scenes(episodes: Sequence[Episode], fraction: float) -> set[tuple[str, str]]:
    """Return the scenes kept apart: this fraction of every task's, at least one where there are two, never all.

    The choice depends only on their names. A scene is never split, so none of its episodes are trained on.
    """
    tasks: dict[str, set[tuple[str, str]]] = {}
    for scene in map(scene_of, episodes):
        tasks.setdefault(scene[0], set()).add(scene)
    held: set[tuple[str, str]] = set()
    for scenes in tasks.values():
        order = sorted(scenes, key=lambda scene: hashlib.sha256("/".join(scene).encode()).digest())
        held |= set(order[: min(len(order) - 1, math.ceil(fraction * len(order)))])
    return held
