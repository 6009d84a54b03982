"""A probe: a change of an episode, what a sound judge does under it, and the bound beyond which it fails.

The effect of a probe is one number per episode; its mean is an :class:`Estimate` with an interval.

=========  =======================================================================
pass       the interval lies on the good side of the bound
fail       it lies beyond the bound
warn       it contains the bound: this sample does not decide
undecided  fewer than :data:`MIN_SCENES` scenes have a known effect
=========  =======================================================================

An episode without a scene counts as its own scene.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from statistics import NormalDist
from typing import Literal

from stepscore.audit.judge_answers import Judged
from stepscore.episodes import Episode, TaskInstructions
from stepscore.types import Estimate

Outcome = Literal["pass", "warn", "fail", "undecided"]
Family = Literal["no motion", "time", "instruction", "camera", "image", "again"]
MIN_SCENES = 8
"""Fewest scenes with a known effect for a decision."""

LEVEL = 0.95
"""Nominal coverage of the intervals."""


@dataclass(frozen=True)
class Bound:
    """The limit of good effects, and whether effects ``"above"`` or ``"below"`` it are good."""

    limit: float
    good: Literal["above", "below"]

    def decide(self, estimate: Estimate) -> Outcome:
        """Return the outcome for an effect. Without variation (a clock, a constant) the common value decides."""
        if estimate.clusters < MIN_SCENES:
            return "undecided"
        lo, hi = estimate.lo, estimate.hi
        if math.isnan(lo) or math.isnan(hi):
            if estimate.method != "no variation":
                return "undecided"
            lo = hi = estimate.value
        if self.good == "above":
            lo, hi, limit = -hi, -lo, -self.limit
        else:
            limit = self.limit
        return "pass" if hi <= limit else "fail" if lo > limit else "warn"

    def __str__(self) -> str:
        return f"{'>' if self.good == 'above' else '<'} {self.limit:g}"


@dataclass(frozen=True)
class Case:
    """One episode under one probe, with the judge's answers about the recorded and the changed episode."""

    episode: Episode
    changed: Episode
    plain: Judged
    probed: Judged


@dataclass(frozen=True)
class Context:
    """What a probe may use to change an episode.

    Attributes:
        episodes: All episodes of the audit, to draw other instructions from.
        counterfactuals: By task or instruction: other instructions for the same scene and objects.
        paraphrases: By task or instruction: the same instruction in other words.
    """

    episodes: Sequence[Episode] = ()
    counterfactuals: dict[str, Sequence[str]] = field(default_factory=dict)
    paraphrases: dict[str, Sequence[str]] = field(default_factory=dict)
    seed: int = 0

    @cached_property
    def instructions(self) -> TaskInstructions:
        """Instructions of all episodes, gathered once because every episode may draw from all."""
        return TaskInstructions.of(self.episodes)


@dataclass(frozen=True)
class Probe:
    """A change of an episode with a known right answer.

    Attributes:
        change: Returns the changed episode; raises OptionError or EpisodeError if it does not apply.
        effect: Returns the effect on one episode; NaN where unknown.
        expectation: What a sound judge does, in words.
        successes: Probe only successful episodes: for others the right answer is unknown.
        headline: Show it first, and give it episodes first.
        rate: Whether effects are answers: 0, 1, or one half for a tie.
        truncates: Whether it only ends the video earlier. A causal judge is not asked again: its curve is the
            answer.
        length: Length, and so cost, of the changed video relative to the recorded one.
    """

    name: str
    family: Family
    change: Callable[[Episode, Context], Episode]
    effect: Callable[[Case], float]
    bound: Bound
    expectation: str
    effect_name: str
    successes: bool = False
    headline: bool = False
    rate: bool = False
    truncates: bool = False
    length: float = 1.0

    @property
    def scenes_to_pass(self) -> int:
        """Fewest scenes on which a perfect judge passes.

        :data:`MIN_SCENES` on a scale. For a share, the bound must lie outside Wilson's interval of ``n``
        right answers, whose far end is ``z^2 / (n + z^2)`` away from them.
        """
        if not self.rate:
            return MIN_SCENES
        room = self.bound.limit if self.bound.good == "below" else 1.0 - self.bound.limit
        z = NormalDist().inv_cdf((1 + LEVEL) / 2)
        return max(MIN_SCENES, math.ceil(z**2 * (1 - room) / room))


GAIN = 0.1
"""Most drift of progress when nothing happens, and least change when something does."""

DISTANCE = 0.15
"""Largest mean distance of two curves that should be equal."""

ORDER = 0.5
"""Rank correlation half-way between a judge that follows (1) and one that does not (0)."""


def end_of(episode: Episode) -> float:
    """Return the timestamp of the last frame of the main view."""
    return float(episode.view(episode.main_view).timestamps()[-1])
