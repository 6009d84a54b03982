"""Scenes of an audit: which episode is of which, and an order of episodes that is spread over them."""

from __future__ import annotations

import hashlib
import itertools
from collections import Counter, defaultdict
from collections.abc import Hashable, Sequence

from stepscore.episodes import Episode


def scene_of(episode: Episode) -> Hashable:
    """Return the scene of an episode: its task and pair, or itself where it has no pair."""
    return (episode.task or episode.instruction, episode.pair) if episode.pair else episode.id


def spread_over_scenes(episodes: Sequence[Episode], seed: int) -> list[Episode]:
    """Return the episodes so that any first part holds as many scenes as it can, spread over tasks and policies.

    The order follows from the episodes' ids, scenes, tasks and policies and from the seed alone.
    """

    def drawn(*words: object) -> bytes:
        return hashlib.sha256("\0".join(map(str, (seed, *words))).encode()).digest()

    scenes: dict[Hashable, dict[str, list[Episode]]] = defaultdict(lambda: defaultdict(list))
    by_task: dict[str, dict[Hashable, bytes]] = defaultdict(dict)
    for episode in episodes:
        scene = scene_of(episode)
        scenes[scene][episode.policy or ""].append(episode)
        by_task[episode.task or episode.instruction][scene] = drawn("scene", scene)
    for by_policy in scenes.values():
        for group in by_policy.values():
            group.sort(key=lambda episode: drawn("episode", episode.id), reverse=True)
    tasks = [
        sorted(found, key=found.__getitem__)
        for _, found in sorted(by_task.items(), key=lambda one: drawn(one[0]))
    ]
    order = [scene for each in itertools.zip_longest(*tasks) for scene in each if scene is not None]
    taken: Counter[tuple[str, str]] = Counter()
    found: list[Episode] = []
    while order:
        for scene in order:
            by_policy = scenes[scene]
            task = next(iter(by_policy.values()))[-1]
            name = task.task or task.instruction
            policy = min(by_policy, key=lambda one: (taken[name, one], drawn("policy", scene, one)))
            taken[name, policy] += 1
            found.append(by_policy[policy].pop())
            if not by_policy[policy]:
                del by_policy[policy]
        order = [scene for scene in order if scenes[scene]]
    return found
