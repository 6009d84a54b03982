"""What an audit judges."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from stepscore.audit.probe import Probe
from stepscore.episodes import Episode


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
class Shortfall:
    """A probe that cannot pass on the scenes it takes, however good the judge is.

    Attributes:
        probe: The probe's name.
        scenes: Scenes that it takes.
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
        episodes: The episodes as recorded.
        probed: Every pair of probe and episode.
        eligible: Episodes that each probe could take.
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
