"""Which films of which episode are scored: matched lengths, controls, changed pictures and the second camera."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from stepscore.episodes import Episode
from stepscore.episodes.changes import changed, cut
from stepscore.episodes.length_matching import match_lengths
from stepscore.sim import get_task
from stepscore.training.embedded_tasks import MAX_PIXELS, SECOND_VIEW, SIZE, TRAINED, VIEW

from .paraphrases import held_out_wording
from .scoring import Change, Look
from .testset import main_view

RETOLD = 3
"""Other instructions are asked of so many times more successes than are frozen and reversed."""
SHORT = ("short:1", "short:2", "short:4")
SHIFTS = ((1, 0), (0, 1), (-1, 0), (0, -1))
FAR = round(8 * SIZE / math.sqrt(MAX_PIXELS))
"""Recorded pixels that are eight of those that the model reads."""
PICTURES: Mapping[str, tuple[str, Mapping[str, float]]] = {
    "shifted 8 px": ("shifted", {"by": 8}),
    f"shifted {FAR} px": ("shifted", {"by": FAR}),
    "zoomed 15 %": ("zoomed", {"factor": 1.15}),
    "darker": ("darker", {"factor": 0.5}),
    "recompressed": ("recompressed", {"quality": 40}),
}
"""Changes of the picture by name, in recorded pixels."""


@dataclass(frozen=True)
class Match:
    """A success and a failure of its length: their ids, and the name of the failure's cut."""

    success: str
    failure: str
    variant: str
    to_s: float | None

    @property
    def cut(self) -> Change:
        """Cuts the recorded failure."""
        return same if self.to_s is None else lambda episode: cut(episode, self.to_s)


def same(episode: Episode) -> Episode:
    """The episode as it was recorded."""
    return episode


def matches(episodes: Sequence[Episode]) -> list[Match]:
    """Successes with failures of their task cut to their length, as many as there can be."""
    found = match_lengths(main_view(episodes))
    by_id = {episode.id: episode for episode in found.episodes}
    pairs = []
    for success, failure in found.pairs:
        changes = by_id[failure].metadata.get("changed", ())
        to_s = float(changes[-1]["to_s"]) if changes else None  # type: ignore[index]
        recorded = str(by_id[failure].metadata.get("changed_from", failure))
        pairs.append(Match(success, recorded, "recorded" if to_s is None else f"cut {to_s:.2f} s", to_s))
    return pairs


@dataclass(frozen=True)
class Matched:
    """All pairs of matched length that figures are made of.

    Attributes:
        all: Of all episodes.
        short: Of the successes and the failures that stop so short, by policy.
        two_views: Of the episodes that both cameras saw.
        pictures: Those of ``all`` whose changed pictures are scored.
    """

    all: tuple[Match, ...]
    short: Mapping[str, tuple[Match, ...]]
    two_views: tuple[Match, ...]
    pictures: tuple[Match, ...]


def match_all(episodes: Sequence[Episode], changed_pairs: int) -> Matched:
    """The pairs; ``changed_pairs`` of each task are also scored under changed pictures."""
    everything = matches(episodes)
    task = {episode.id: str(episode.task) for episode in episodes}
    by_task: dict[str, list[Match]] = defaultdict(list)
    for match in everything:
        by_task[task[match.success]].append(match)
    return Matched(
        tuple(everything),
        {
            policy: tuple(
                matches(
                    [e for e in episodes if e.labels.success or (e.policy == policy and not e.labels.success)]
                )
            )
            for policy in SHORT
        },
        tuple(matches([e for e in episodes if SECOND_VIEW in e.views])),
        tuple(match for found in by_task.values() for match in found[:changed_pairs]),
    )


def plan_looks(
    episodes: Sequence[Episode], matched: Matched, controls: int
) -> list[tuple[Episode, list[Look]]]:
    """Every film to be scored, by recorded episode; ``controls`` successes of a task are frozen and reversed."""
    looks: dict[str, dict[str, Look]] = {e.id: {} for e in episodes}
    instruction = {e.id: e.instruction for e in episodes}
    instructions = trained_instructions()
    controlled: dict[str, int] = defaultdict(int)
    for episode in episodes:
        asked = bool(episode.labels.success) and controlled[str(episode.task)] < RETOLD * controls
        others = tuple(t for t in instructions if t != episode.instruction) if asked else ()
        words = held_out_wording(episode.instruction)
        mine = [Look("recorded", same, VIEW, subgoals=True, others=others, reworded=words)]
        if SECOND_VIEW in episode.views:
            mine.append(Look("left", same, SECOND_VIEW, subgoals=True))
        controlled[str(episode.task)] += bool(episode.labels.success)
        if episode.labels.success and controlled[str(episode.task)] <= controls:
            mine.append(Look("frozen", lambda e: changed(e, "frozen"), VIEW))
            mine.append(Look("reversed", lambda e: changed(e, "reversed"), VIEW, ends_only=True))
        _add(looks[episode.id], mine)
    for match in (*matched.all, *(m for found in matched.short.values() for m in found)):
        if match.to_s is not None:
            words = held_out_wording(instruction[match.failure])
            _add(looks[match.failure], [Look(match.variant, match.cut, VIEW, ends_only=True, reworded=words)])
    for match in matched.two_views:
        if match.to_s is not None:
            _add(
                looks[match.failure], [Look(f"left {match.variant}", match.cut, SECOND_VIEW, ends_only=True)]
            )
            _add(looks[match.failure], [Look(match.variant, match.cut, VIEW, ends_only=True)])
    for number, match in enumerate(matched.pictures):
        for name in PICTURES:
            _add(looks[match.success], [_painted(name, number, same, "recorded")])
            _add(looks[match.failure], [_painted(name, number, match.cut, match.variant)])
    return [(episode, list(looks[episode.id].values())) for episode in episodes]


def trained_instructions() -> list[str]:
    """What the judge knows, one wording a task."""
    return [get_task(task).instruction for task in TRAINED]


def opposite_instructions() -> dict[str, str]:
    """Of each trained task that has one, the instruction of the task that undoes it in the same scene."""
    by_world = {get_task(task).world: task for task in TRAINED}
    undoing = {task: by_world.get(get_task(task).opposite) for task in TRAINED}
    return {task: get_task(other).instruction for task, other in undoing.items() if other is not None}


def _add(looks: dict[str, Look], more: Iterable[Look]) -> None:
    for look in more:
        looks.setdefault(look.variant, look)


def _painted(name: str, number: int, cut_to: Change, variant: str) -> Look:
    kind, options = PICTURES[name]
    given = dict(options)
    if kind == "shifted":
        (dx, dy), by = SHIFTS[number % len(SHIFTS)], int(given.pop("by"))
        given = {"dx": dx * by, "dy": dy * by}
    return Look(f"{name}, {variant}", lambda e: changed(cut_to(e), kind, **given), VIEW, ends_only=True)
