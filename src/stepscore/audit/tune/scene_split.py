"""Split labelled episodes by scene: one part to choose on, one to test on."""

from __future__ import annotations

import hashlib
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

from stepscore.episodes import Episode
from stepscore.errors import OptionError


@dataclass(frozen=True)
class Split:
    """The episodes to choose on and to test on."""

    choose: tuple[Episode, ...]
    test: tuple[Episode, ...]

    @property
    def scenes(self) -> tuple[int, int]:
        """Number of scenes of each part."""
        return len(set(map(scene_of, self.choose))), len(set(map(scene_of, self.test)))


def task_of(episode: Episode) -> str:
    """Return an episode's task, else its instruction."""
    return episode.task or episode.instruction


def scene_of(episode: Episode) -> str:
    """Return what must stay in one part: the scene, or the episode without a scene."""
    if episode.pair is None:
        return f"episode\0{episode.id}"
    return f"scene\0{task_of(episode)}\0{episode.pair}"


def split_scenes(episodes: Sequence[Episode], share: float, seed: int) -> Split:
    """Split episodes by scene, each task in about the same proportion.

    Scenes are drawn by a hash of seed and name, so the order of episodes does not matter. The next task makes
    up for scenes that do not divide.
    """
    if not 0 < share < 1:
        raise OptionError(f"share (-T share) must be between 0 and 1, got {share}.")
    by_task: dict[str, set[str]] = defaultdict(set)
    for episode in episodes:
        by_task[task_of(episode)].add(scene_of(episode))
    scenes = sum(map(len, by_task.values()))
    if scenes < 2:
        raise OptionError(
            f"{len(episodes)} labelled episodes are from {scenes} scene(s). Tuning chooses on some and tests on "
            "others, so it needs at least 2."
        )
    choosing: set[str] = set()
    seen = 0
    for task in sorted(by_task, key=lambda name: _drawn(seed, name)):
        drawn = sorted(by_task[task], key=lambda scene: _drawn(seed, scene))
        seen += len(drawn)
        wanted = round(share * seen) - len(choosing)
        least, most = (1, len(drawn) - 1) if len(drawn) > 1 else (0, 1)
        choosing |= set(drawn[: min(max(wanted, least), most)])
    every = {scene for drawn_scenes in by_task.values() for scene in drawn_scenes}
    if not choosing or choosing == every:  # one scene a task, and a share far from a half
        first = min(every, key=lambda scene: _drawn(seed, scene))
        choosing = {first} if not choosing else every - {first}
    return Split(
        tuple(episode for episode in episodes if scene_of(episode) in choosing),
        tuple(episode for episode in episodes if scene_of(episode) not in choosing),
    )


def _drawn(seed: int, name: str) -> bytes:
    return hashlib.sha256(f"{seed}\0{name}".encode()).digest()
