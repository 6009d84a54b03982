"""What an audit judges."""

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
    """An episode that a probe takes."""

    probe: str
    episode: str
    changed: Episode


@dataclass(frozen=True)
class Shortfall:
    """A probe that cannot pass on the scenes it takes, however good the judge is.

    Attributes:
        needed: Scenes that a judge which is always right needs to pass.
        available: Scenes that it could take, as far as is known without changing every episode.
    """

    probe: str
    scenes: int
    needed: int
    available: int


@dataclass(frozen=True)
class AuditPlan:
    """What an audit judges.

    Attributes:
        not_applicable: By probe: why it takes none, where it takes none.
        labelled: Whether any episode has a success label; where none has, probes of successes take all.
        again: The episodes that the judge is asked about again.
        shortfalls: Probes that take too few scenes to pass a judge that is always right.
    """

    episodes: tuple[Episode, ...]
    probed: tuple[ProbedEpisode, ...]
    eligible: Mapping[str, int]
    not_applicable: Mapping[str, str]
    labelled: bool
    again: tuple[Episode, ...] = ()
    shortfalls: tuple[Shortfall, ...] = ()

    def to_judge(self, *, causal: bool, probes: Sequence[Probe]) -> list[Episode]:
        """Return every episode to judge once, the changed ones right after the one they come from.

        Those that show the same video under other words come first: a model that keeps the last video it read (the
        embedded one) reads their words alone.

        Args:
            causal: Whether the judge never looks ahead, so that truncated videos need no judging.
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
