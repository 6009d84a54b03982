"""The extra questions that test whether a judge's comparisons are consistent.

Some pairs are asked again: swapped, with one frame twice, and repeatedly. Triples of frames are drawn from
the recordings. Some whole episodes are judged at fewer points and in every mode.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, is_dataclass, replace
from typing import Annotated, Any

import numpy as np

from stepscore._options import MANY, MAX_SEED, Range
from stepscore.audit.pairs.compare import AFTER, BEFORE, Compare, Question
from stepscore.audit.pairs.make import MIN_GAP_S
from stepscore.audit.pairs.pair import Pair
from stepscore.episodes import Episode, choose_frames
from stepscore.errors import OptionError, StepScoreError
from stepscore.judges import Judge

SWAPPED, SAME = Question(AFTER, BEFORE), Question(BEFORE, BEFORE)
TRIPLE = (Question(1, 2), Question(2, 3), Question(1, 3))
"""The hops of a triple: first to second frame, second to third, and first to third."""

MAX_TRIES = 50


@dataclass(frozen=True)
class ConsistencyOptions:
    """How much to ask beyond the pairs.

    Attributes:
        pairs: Number of pairs to ask about again, and of triples.
        repeats: Repetitions of each of these pairs.
        episodes: Number of whole episodes to judge.
        seed: Random seed.
    """

    pairs: Annotated[int, Range(1, MANY)] = 60
    repeats: Annotated[int, Range(0, 1000)] = 3
    episodes: int = 12
    seed: Annotated[int, Range(0, MAX_SEED)] = 0


@dataclass(frozen=True)
class Part:
    """One run of the plan: a judge over some episodes."""

    judge: Judge
    episodes: tuple[Episode, ...]
    questions: int


@dataclass(frozen=True)
class ConsistencyPlan:
    """The questions to ask.

    Attributes:
        pairs: The pairs to ask about again.
        triples: Clips of three frames, between the start and the end.
        parts: Runs by the name of their folder: ``pairs``, ``triples``, ``curves-16`` ...
        points: Points of the curves, most first; empty if the judge's sampling cannot be changed.
        repeats: Repetitions of each pair.
    """

    pairs: tuple[Pair, ...]
    triples: tuple[Episode, ...]
    episodes: tuple[Episode, ...]
    parts: Mapping[str, Part]
    points: tuple[int, ...]
    repeats: int

    def sentence(self) -> str:
        """Return how many more questions are asked."""
        asked = ", ".join(f"{part.questions} about {name}" for name, part in self.parts.items())
        return f"Consistency: {sum(part.questions for part in self.parts.values())} more questions ({asked})."


def plan_consistency(
    judge: Judge,
    pairs: Sequence[Pair],
    clips: Sequence[Episode],
    episodes: Mapping[str, Episode],
    options: ConsistencyOptions,
) -> ConsistencyPlan:
    """Choose the questions; the choice depends only on the seed and the ids.

    Args:
        clips: The clip of each pair, from :func:`pair_clips`.
        episodes: The recordings by id; empty for pairs of images.
    """
    again = tuple(sorted(pairs, key=lambda one: _drawn("pair", options.seed, one.id))[: options.pairs])
    by_id = {clip.id: clip for clip in clips}
    repeated = tuple(Question(BEFORE, AFTER, number) for number in range(1, options.repeats + 1))
    questions = (SWAPPED, SAME, *repeated)
    some = [episodes[name] for name in dict.fromkeys(pair.episode for pair in pairs) if name in episodes]
    some.sort(key=lambda one: _drawn("episode", options.seed, one.id))
    triples = draw_triples(some, options.pairs, options.seed)
    parts = {
        "pairs": Part(
            Compare(judge, questions), tuple(by_id[one.id] for one in again), len(again) * len(questions)
        )
    }
    if triples:
        parts["triples"] = Part(Compare(judge, TRIPLE), triples, len(triples) * len(TRIPLE))
    whole = tuple(some[: options.episodes])
    curves = curve_judges(judge, goals=any(one.goals for one in whole)) if whole else {}
    for points, (one, questions_each) in curves.items():
        parts[f"curves-{points}"] = Part(one, whole, len(whole) * questions_each)
    return ConsistencyPlan(again, triples, whole, parts, tuple(curves), options.repeats)


def draw_triples(episodes: Sequence[Episode], count: int, seed: int) -> tuple[Episode, ...]:
    """Return clips of five frames: the start, three frames in or against the order of time, the end.

    Every other triple runs against time, to test both laws of hops. Episodes take turns; unreadable ones are
    skipped.
    """
    found: list[Episode] = []
    for turn in range(count):
        for episode in episodes:
            if len(found) >= count:
                return tuple(found)
            try:
                times = episode.view(episode.main_view).timestamps()
            except StepScoreError:
                continue
            rng = np.random.default_rng(int.from_bytes(_drawn(f"triple {turn}", seed, episode.id)[:8], "big"))
            for _ in range(MAX_TRIES):
                three = np.sort(rng.choice(times, 3, replace=False)) if len(times) >= 3 else times[:0]
                if len(three) and np.diff(three).min() >= MIN_GAP_S:
                    ordered = three if len(found) % 2 == 0 else three[::-1]
                    name = f"triple_{len(found):06d}"
                    found.append(choose_frames(episode, (0.0, *ordered, float(times[-1])), name))
                    break
        if not found:
            break
    return tuple(found)


def curve_judges(judge: Judge, *, goals: bool) -> dict[int, tuple[Judge, int]]:
    """Return the judge in every mode, and incrementally at a half and a quarter of its points, with its calls.

    Empty for a judge that does not judge points after the first frame, like those that sum comparisons. Other
    modes than the incremental one need ``goals``.
    """
    names: set[str] = {field.name for field in fields(judge)} if is_dataclass(judge) else set()
    if not {"points", "max_points", "fps"} <= names:
        return {}
    whole: Any = judge
    points = int(whole.points)
    modes: list[dict[str, str]] = [{}]
    if "mode" in names:
        modes = [*([{"mode": "fused"}] if goals else []), {"mode": "incremental"}]
    found: dict[int, tuple[Judge, int]] = {}
    for divisor in (1, 2, 4):
        if points % divisor:
            break
        for mode in modes if divisor == 1 else modes[-1:]:
            try:
                changed = replace(whole, points=points // divisor, fps=None, **mode)
            except OptionError:  # a published judge that is shown its own last frame has no backward mode
                continue
            calls = 3 if mode.get("mode") == "fused" else 1
            found[points // divisor] = (changed, calls * points // divisor)
            break
    return found


def _drawn(what: str, seed: int, name: str) -> bytes:
    return hashlib.sha256(f"consistency\0{what}\0{seed}\0{name}".encode()).digest()
