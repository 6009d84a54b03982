"""Which videos of which episode are scored: matched lengths, controls, changed images and the second camera."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from benchmarks.embedded.paraphrases import held_out_wording
from benchmarks.embedded.scoring import Change, Variant
from benchmarks.embedded.testset import main_view, scene_of
from stepscore.episodes import Episode
from stepscore.episodes.labels.label_intervals import LABEL_TOLERANCE_S
from stepscore.episodes.perturbations.length_matching import match_lengths
from stepscore.episodes.perturbations.perturb import cut, perturb
from stepscore.sim import get_task
from stepscore.training.embedded.tasks import MAX_PIXELS, SECOND_VIEW, SIZE, TRAINED, VIEW

OTHER_INSTRUCTION_FACTOR = 2
"""Successes scored under other instructions, for each that is frozen and reversed."""
TWO_VIEWS = 4
"""Matched pairs of a task that are also scored by the second camera."""
REWORDED = 10
"""Matched pairs of a task that are also scored in words that were never trained."""
SHORT = ("short:1", "short:2", "short:4")
ARRIVED = 0.02
"""A rollout that stops short has arrived where its potential is within this of its highest."""
SHIFTS = ((1, 0), (0, 1), (-1, 0), (0, -1))
FAR = round(8 * SIZE / math.sqrt(MAX_PIXELS))
"""Recorded pixels that are eight of those that the model reads."""
IMAGE_CHANGES: Mapping[str, tuple[str, Mapping[str, float]]] = {
    "shifted 8 px": ("shifted", {"by": 8}),
    f"shifted {FAR} px": ("shifted", {"by": FAR}),
    "zoomed 15 %": ("zoomed", {"factor": 1.15}),
    "darker": ("darker", {"factor": 0.5}),
    "recompressed": ("recompressed", {"quality": 40}),
}
"""Image perturbations and their options by name; distances in recorded pixels."""


@dataclass(frozen=True)
class Match:
    """A success and a failure of its length: their ids, and the name of the failure's cut."""

    success: str
    failure: str
    variant: str
    to_s: float | None

    @property
    def cut(self) -> Change:
        """Return the function that cuts the recorded failure."""
        return same if self.to_s is None else partial(cut, to_s=self.to_s)


def same(episode: Episode) -> Episode:
    """Return the episode as it was recorded."""
    return episode


def matches(episodes: Sequence[Episode]) -> list[Match]:
    """Match successes with failures of their task cut to their length, as many as there can be."""
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
class ChangedImages:
    """Cuts an episode, then changes its images."""

    cut: Change
    kind: str
    options: Mapping[str, float]

    def __call__(self, episode: Episode) -> Episode:
        """Return the changed episode."""
        return perturb(self.cut(episode), self.kind, **self.options)


@dataclass(frozen=True)
class Matched:
    """All pairs of matched length that figures are made of.

    Attributes:
        all: Of all episodes.
        short: Of the failures that stop so short, cut no earlier than they have arrived there, by policy.
        two_views: Of the episodes that both cameras saw.
        changed_images: Those of ``all`` whose changed images are scored.
        reworded: Those of ``all`` that are also scored in other words.
    """

    all: tuple[Match, ...]
    short: Mapping[str, tuple[Match, ...]]
    two_views: tuple[Match, ...]
    changed_images: tuple[Match, ...]
    reworded: tuple[Match, ...] = ()


def match_all(episodes: Sequence[Episode], changed_pairs: int) -> Matched:
    """Match all pairs; ``changed_pairs`` of each task are also scored under changed images."""
    everything = matches(episodes)
    task = {episode.id: str(episode.task) for episode in episodes}
    return Matched(
        tuple(everything),
        {policy: tuple(near_misses(episodes, policy)) for policy in SHORT},
        _first(matches([e for e in episodes if SECOND_VIEW in e.views]), task, TWO_VIEWS),
        _first(everything, task, changed_pairs),
        _first(everything, task, REWORDED),
    )


def near_misses(episodes: Sequence[Episode], policy: str) -> list[Match]:
    """Match failures of a policy that stops short, each cut to the length of a success of its task.

    A cut that ended before the hand had arrived would show a rollout under way, not a near miss: the longest
    success that is still free is taken, and none that is over before the failure's arrival.
    """
    free: dict[str, list[tuple[float, str]]] = defaultdict(list)
    for episode in main_view(episodes):
        if episode.labels.success and episode.info is not None:
            free[str(episode.task)].append((episode.info.duration_s, episode.id))
    pairs = []
    for episode in main_view(episodes):
        if episode.policy != policy or episode.labels.success is not False or episode.info is None:
            continue
        at, values = episode.labels.progress()
        if not len(values):
            continue
        shows_it = float(at[np.argmax(values >= values.max() - ARRIVED)]) + 1.0 / episode.info.fps
        for length, success in sorted(free[str(episode.task)], reverse=True):
            whole = abs(length - episode.info.duration_s) < LABEL_TOLERANCE_S
            if length > episode.info.duration_s + LABEL_TOLERANCE_S or (
                not whole and _succeeds(episode, length)
            ):
                continue
            if length >= shows_it - LABEL_TOLERANCE_S:
                variant, to_s = ("recorded", None) if whole else (f"cut {length:.2f} s", length)
                pairs.append(Match(success, episode.id, variant, to_s))
                free[str(episode.task)].remove((length, success))
            break
    return pairs


def _succeeds(episode: Episode, length: float) -> bool:
    """Return whether the episode is not known to be a failure when it ends there."""
    return cut(episode, to_s=length).labels.success is not False


def _first(found: Sequence[Match], task: Mapping[str, str], count: int) -> tuple[Match, ...]:
    """Return the first ``count`` pairs of each task."""
    by_task: dict[str, list[Match]] = defaultdict(list)
    for match in found:
        by_task[task[match.success]].append(match)
    return tuple(match for some in by_task.values() for match in some[:count])


def _videos(found: Sequence[Match]) -> set[tuple[str, str]]:
    """Return the videos of pairs: recorded episode and variant."""
    return {video for m in found for video in ((m.success, "recorded"), (m.failure, m.variant))}


def plan_variants(
    episodes: Sequence[Episode], matched: Matched, controls: int, scenes: int
) -> list[tuple[Episode, list[Variant]]]:
    """Plan every video to be scored, by recorded episode.

    Args:
        episodes: The recorded ones.
        matched: Their pairs of matched length.
        controls: Successes of a task that are frozen and reversed.
        scenes: Scenes of a task that every policy met. Their rollouts are scored whole, with their subgoals; of
            other scenes, which were made for matched pairs, only the videos of the pairs are scored.
    """
    planned: dict[str, dict[str, Variant]] = {e.id: {} for e in episodes}
    near = [match for found in matched.short.values() for match in found]
    matched_videos, reworded_videos = _videos([*matched.all, *near]), _videos(matched.reworded)
    words = {e.id: held_out_wording(e.instruction) for e in episodes}

    def add(match: Match, *more: Variant) -> None:
        for variant in more if match.to_s is not None else ():
            reworded = words[match.failure] if (match.failure, variant.name) in reworded_videos else ""
            planned[match.failure].setdefault(variant.name, replace(variant, reworded=reworded))

    for match in (*matched.all, *matched.two_views, *near):
        add(match, Variant(match.variant, match.cut, VIEW, ends_only=True))
    for match in matched.two_views:
        add(match, Variant(f"left {match.variant}", match.cut, SECOND_VIEW, ends_only=True))
    successes: dict[str, int] = defaultdict(int)
    for episode in episodes:
        earlier = successes[str(episode.task)] if episode.labels.success else math.inf
        successes[str(episode.task)] += bool(episode.labels.success)
        mine, shared = planned[episode.id], scene_of(episode) < scenes
        if shared or (episode.id, "recorded") in matched_videos:
            others = _others(episode) if earlier < OTHER_INSTRUCTION_FACTOR * controls else ()
            reworded = words[episode.id] if (episode.id, "recorded") in reworded_videos else ""
            mine["recorded"] = Variant("recorded", same, VIEW, shared, others, reworded=reworded)
        if SECOND_VIEW in episode.views:
            mine["left"] = Variant("left", same, SECOND_VIEW, subgoals=True)
        if earlier < controls:
            mine["frozen"] = Variant("frozen", partial(perturb, name="frozen"), VIEW)
            mine["reversed"] = Variant("reversed", partial(perturb, name="reversed"), VIEW, ends_only=True)
    for number, match in enumerate(matched.changed_images):
        for name in IMAGE_CHANGES:
            changed = _changed_images(name, number, same, "recorded")
            planned[match.success].setdefault(changed.name, changed)
            changed = _changed_images(name, number, match.cut, match.variant)
            planned[match.failure].setdefault(changed.name, changed)
    return [(episode, list(planned[episode.id].values())) for episode in episodes]


def _others(episode: Episode) -> tuple[str, ...]:
    return tuple(text for text in trained_instructions() if text != episode.instruction)


def trained_instructions() -> list[str]:
    """Return the trained instructions, one wording a task."""
    return [get_task(task).instruction for task in TRAINED]


def opposite_instructions() -> dict[str, str]:
    """Return, for each trained task that has one, the instruction of the task that undoes it in the same scene."""
    by_env = {get_task(task).env_name: task for task in TRAINED}
    undoing = {task: by_env.get(get_task(task).opposite) for task in TRAINED}
    return {task: get_task(other).instruction for task, other in undoing.items() if other is not None}


def _changed_images(name: str, number: int, cut_to: Change, variant: str) -> Variant:
    kind, options = IMAGE_CHANGES[name]
    given = dict(options)
    if kind == "shifted":
        (dx, dy), by = SHIFTS[number % len(SHIFTS)], int(given.pop("by"))
        given = {"dx": dx * by, "dy": dy * by}
    return Variant(f"{name}, {variant}", ChangedImages(cut_to, kind, given), VIEW, ends_only=True)
