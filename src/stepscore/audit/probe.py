"""A probe: one change of an episode, what a sound judge does under it, and the bound beyond which it fails.

The effect of a probe is one number an episode, its mean an :class:`Estimate` with an interval. The outcome follows
from where the interval stands:

=========  =======================================================================
outcome    when
=========  =======================================================================
pass       the interval lies wholly on the good side of the bound
fail       it lies wholly beyond it
warn       the bound lies in the interval: this sample does not decide
undecided  fewer than :data:`MIN_SCENES` scenes have a known effect
=========  =======================================================================

An episode without a scene is a scene of its own.
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
"""Fewest scenes with a known effect from which a probe decides, whatever it shows."""

LEVEL = 0.95
"""Nominal coverage of the intervals."""


@dataclass(frozen=True)
class Bound:
    """Where an effect is good.

    Attributes:
        good: Whether effects ``"above"`` or ``"below"`` it are good.
    """

    limit: float
    good: Literal["above", "below"]

    def decide(self, estimate: Estimate) -> Outcome:
        """Return the outcome for an estimated effect.

        Where all effects are equal there is no interval, and their value decides: that is how a clock or a constant
        answers.
        """
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
    """One episode under one probe."""

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
        """The instructions of all episodes; gathered once, since every episode may draw from all."""
        return TaskInstructions.of(self.episodes)


@dataclass(frozen=True)
class Probe:
    """A change of an episode whose right answer is known.

    Attributes:
        name: Its name, as ``-T probes`` takes it.
        change: Returns the changed episode; an OptionError or EpisodeError where it does not apply to this episode.
        effect: Returns the effect on one episode; NaN where it is unknown.
        successes: Whether only episodes that succeed are probed: on others the right answer is not known.
        headline: Whether it is one of the first that people look at; these get their episodes first.
        rate: Whether the effect of each episode is an answer: 0, 1, or one half for a tie.
        truncates: Whether it only ends the video earlier. A judge that never looks ahead (``causal``) is not asked
            again: its curve up to there is its answer.
        length: How many times as long as the recorded video the changed one is, and as expensive to judge.
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
        """Fewest scenes on which a judge that answers right on all of them passes.

        On a scale these are :data:`MIN_SCENES`. A share must be held apart from its bound: Wilson's interval of ``n``
        right answers ends at ``z^2 / (n + z^2)`` from them.
        """
        if not self.rate:
            return MIN_SCENES
        room = self.bound.limit if self.bound.good == "below" else 1.0 - self.bound.limit
        z = NormalDist().inv_cdf((1 + LEVEL) / 2)
        return max(MIN_SCENES, math.ceil(z**2 * (1 - room) / room))


GAIN = 0.1
"""Change of progress up to which a judge that sees nothing happen may drift, and above which it must follow."""

DISTANCE = 0.15
"""Mean distance of two curves that should be one."""

ORDER = 0.5
"""Rank correlation between a judge that follows (1) and one that does not (0)."""


def end_of(episode: Episode) -> float:
    """Return the timestamp of the last frame of the main view."""
    return float(episode.view(episode.main_view).timestamps()[-1])
