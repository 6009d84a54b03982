"""Which episodes each probe takes: a seeded subset of each task and policy, within a multiple of one judging.

Judging all episodes once costs 1. By default the whole audit costs at most :data:`BUDGET`: what asking again takes is
set aside, probes of the headline get up to :data:`HEADLINE_EPISODES` episodes each, the others share what is left
alike, a video of twice the length for twice the cost. A changed episode that two probes use is judged once. A
truncated video that no new call is needed for costs nothing.
"""

from __future__ import annotations

import hashlib
import itertools
import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from stepscore._watching import Watch, unwatched
from stepscore.audit.probe import Context, Probe
from stepscore.episodes import Episode
from stepscore.errors import StepScoreError

BUDGET = 10.0
"""Most cost of an audit, as a multiple of judging the episodes once."""

AGAIN_SHARE, MOST_AGAIN, AGAIN_COST = 0.5, 40, 1.5
"""Share of the episodes that are judged again and sampled twice as densely, most of them, and what both cost."""

PROBE_EPISODES = 1000
"""Most episodes of any probe: a share of so many is known within 3 points, and more would not change an outcome."""

HEADLINE_EPISODES = 40
"""Episodes that a headline probe gets before the others get any."""


@dataclass(frozen=True)
class ProbedEpisode:
    """An episode that a probe takes.

    Attributes:
        probe: The probe's name.
        episode: The episode's id.
        changed: The changed episode.
    """

    probe: str
    episode: str
    changed: Episode


@dataclass(frozen=True)
class AuditPlan:
    """What an audit judges.

    Attributes:
        episodes: The episodes as recorded.
        probed: Every pair of probe and episode.
        eligible: Episodes that each probe could take.
        not_applicable: By probe: why it takes none, where it takes none.
        labelled: Whether any episode has a success label; where none has, probes of successes take all.
    """

    episodes: tuple[Episode, ...]
    probed: tuple[ProbedEpisode, ...]
    eligible: Mapping[str, int]
    not_applicable: Mapping[str, str]
    labelled: bool

    def to_judge(self, *, causal: bool, probes: Sequence[Probe]) -> list[Episode]:
        """Return every episode to judge once, the changed ones right after the one they come from.

        Those that show the same video under other words come first: a model that keeps the last video it read (the
        embedded one) reads their words alone.

        Args:
            causal: Whether the judge never looks ahead, so that truncated videos need no judging.
            probes: The probes of the plan.
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


def make_plan(
    episodes: Sequence[Episode],
    probes: Sequence[Probe],
    context: Context,
    *,
    full: bool = False,
    watch: Watch[Any] = unwatched,
) -> AuditPlan:
    """Choose the episodes of every probe.

    Args:
        episodes: The episodes of the audit.
        probes: The probes.
        context: What probes may use; its seed also draws the subsets.
        full: Take all episodes for every probe, whatever it costs.
        watch: Shows how far it is.
    """
    readable = [episode for episode in episodes if episode.error is None and episode.views]
    labelled = any(episode.labels.success is not None for episode in readable)
    ordered = {
        probe.name: _ordered(_eligible(probe, readable, labelled=labelled), context.seed) for probe in probes
    }
    wanted = _shares(probes, {name: len(found) for name, found in ordered.items()}, len(readable), full=full)
    probed: list[ProbedEpisode] = []
    why: dict[str, str] = {}
    for probe in watch(probes, "Choosing episodes for probes", len(probes)):
        made: list[ProbedEpisode] = []
        for episode in ordered[probe.name]:
            if len(made) == wanted[probe.name]:
                break
            try:
                made.append(ProbedEpisode(probe.name, episode.id, probe.change(episode, context)))
            except StepScoreError as error:
                why.setdefault(probe.name, str(error))
        probed += made
        if made:
            why.pop(probe.name, None)
        elif probe.name not in why:
            why[probe.name] = "no episode is labelled a success" if readable else "no episode can be read"
    eligible = {name: len(found) for name, found in ordered.items()}
    return AuditPlan(tuple(readable), tuple(probed), eligible, why, labelled)


def _eligible(probe: Probe, episodes: Sequence[Episode], *, labelled: bool) -> list[Episode]:
    if not probe.successes or not labelled:
        return list(episodes)
    return [episode for episode in episodes if episode.labels.success]


def _ordered(episodes: Sequence[Episode], seed: int) -> list[Episode]:
    """Return the episodes so that any first part is spread over tasks and policies; by ids and seed alone."""

    def drawn(*words: object) -> bytes:
        return hashlib.sha256("\0".join(map(str, (seed, *words))).encode()).digest()

    groups: dict[tuple[str, str], list[Episode]] = defaultdict(list)
    for episode in episodes:
        groups[episode.task or episode.instruction, episode.policy or ""].append(episode)
    for group in groups.values():
        group.sort(key=lambda episode: drawn("episode", episode.id))
    by_draw = [groups[key] for key in sorted(groups, key=lambda key: drawn("group", *key))]
    rounds = itertools.zip_longest(*by_draw)
    return [episode for each in rounds for episode in each if episode is not None]


def again_count(n: int) -> int:
    """Return how many of ``n`` episodes are judged again by default."""
    return min(MOST_AGAIN, max(1, math.floor(AGAIN_SHARE * n)))


def _shares(probes: Sequence[Probe], eligible: Mapping[str, int], n: int, *, full: bool) -> dict[str, int]:
    """Return how many episodes each probe gets."""
    if full:
        return dict(eligible)
    left = (BUDGET - 1.0 - AGAIN_COST) * n
    shares: dict[str, int] = {}
    first = [probe for probe in probes if probe.headline]
    for probe, others in [(probe, len(first) - i) for i, probe in enumerate(first)]:
        most = math.floor(left / others / probe.length)
        shares[probe.name] = min(eligible[probe.name], HEADLINE_EPISODES, most)
        left -= shares[probe.name] * probe.length
    rest = sorted((p for p in probes if not p.headline), key=lambda probe: eligible[probe.name])
    lengths = sum(probe.length for probe in rest)
    for probe in rest:  # those that can take least go first, and leave their share to others
        shares[probe.name] = min(eligible[probe.name], PROBE_EPISODES, math.floor(left / lengths))
        left -= shares[probe.name] * probe.length
        lengths -= probe.length
    return shares
