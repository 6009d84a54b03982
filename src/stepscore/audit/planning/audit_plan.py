"""The plan of an audit: which probe takes which episode, and the scenes that episodes belong to."""

from __future__ import annotations

import hashlib
import itertools
from collections import Counter, defaultdict
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass

from stepscore.audit.probe import Probe
from stepscore.episodes import Episode


@dataclass(frozen=True)
class ProbedEpisode:
    """An episode that a probe takes: the names of both, and the changed episode."""

    probe: str
    episode: str
    changed: Episode


@dataclass(frozen=True)
class Shortfall:
    """A probe that cannot pass on its scenes, however good the judge is.

    Attributes:
        needed: Scenes that a perfect judge needs to pass.
        available: Scenes that it could take, as far as known without changing every episode.
    """

    probe: str
    scenes: int
    needed: int
    available: int


@dataclass(frozen=True)
class AuditPlan:
    """What an audit judges.

    Attributes:
        eligible: By probe: how many episodes it could take.
        not_applicable: By probe: why it takes none.
        labelled: Whether any episode has a success label; without labels, probes of successes take all.
        again: The episodes that the judge is asked about again.
    """

    episodes: tuple[Episode, ...]
    probed: tuple[ProbedEpisode, ...]
    eligible: Mapping[str, int]
    not_applicable: Mapping[str, str]
    labelled: bool
    again: tuple[Episode, ...] = ()
    shortfalls: tuple[Shortfall, ...] = ()

    def to_judge(self, *, causal: bool, probes: Sequence[Probe]) -> list[Episode]:
        """Return every episode to judge once, changed ones right after their original.

        The same video under other words comes first: a model that caches its last video (the embedded one)
        then reads only the words. With ``causal``, truncated videos are left out.
        """
        truncates = {probe.name for probe in probes if probe.truncates}
        changed: dict[str, dict[str, Episode]] = defaultdict(dict)
        for each in self.probed:
            if not (causal and each.probe in truncates):
                changed[each.episode].setdefault(each.changed.id, each.changed)
        return [
            one
            for episode in self.episodes
            for one in (
                episode,
                *sorted(changed.get(episode.id, {}).values(), key=lambda one: one.views != episode.views),
            )
        ]


def scene_of(episode: Episode) -> Hashable:
    """Return the scene of an episode: task and pair, or its id without a pair."""
    return (episode.task or episode.instruction, episode.pair) if episode.pair else episode.id


def spread_over_scenes(episodes: Sequence[Episode], seed: int) -> list[Episode]:
    """Order episodes so that every prefix covers as many scenes as possible, spread over tasks and policies.

    The order depends only on ids, scenes, tasks, policies and the seed.
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
