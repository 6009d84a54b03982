"""Rewards during an episode, computed at each step from the progress known at that step.

The potential is a function of the history: the last known progress phi, k steps later, counts as phi /
gamma^k. A step with unknown progress pays exactly 0, and the next step with known progress phi' pays
gamma^-(k-1) (gamma^k phi' - phi). The discounted sum of all steps therefore telescopes, whatever the gaps.
The potential is 0 before any progress is known and after termination.
"""

from __future__ import annotations

import math
from typing import Literal

from stepscore.errors import OptionError

OnlineForm = Literal["potential", "relative", "terminal"]


class PotentialShaping:
    """Pays the discounted difference of a potential.

    Args:
        gamma: The discount of the learner.
    """

    def __init__(self, gamma: float) -> None:
        if not 0 < gamma <= 1:
            raise OptionError(f"gamma must be above 0 and at most 1, got {gamma}.")
        self._gamma, self._last, self._steps = gamma, 0.0, 0

    def begin(self, progress: float = math.nan) -> None:
        """Begin an episode; ``progress`` is the progress of its first state, if known."""
        self._last, self._steps = (0.0 if math.isnan(progress) else progress), 0

    def step(self, progress: float, *, terminated: bool) -> float:
        """Return the reward of a step.

        Args:
            progress: Progress after the step; NaN if unknown.
            terminated: Whether the task ended at this step. False at a time limit, where the learner bootstraps.
        """
        self._steps += 1
        phi = 0.0 if terminated else progress
        if math.isnan(phi):
            return 0.0
        paid = self._gamma * phi - self._last * self._gamma ** (1 - self._steps)
        self._last, self._steps = phi, 0
        return paid


class RelativeShaping:
    """Pays the clipped change since progress was last known; 0 until progress has been known twice.

    Args:
        clip: Largest change, in either direction.
    """

    def __init__(self, clip: float) -> None:
        if not clip > 0:
            raise OptionError(f"clip must be above 0, got {clip}.")
        self._clip, self._last = clip, math.nan

    def begin(self, progress: float = math.nan) -> None:
        """Begin an episode."""
        self._last = progress

    def step(self, progress: float, *, terminated: bool) -> float:
        """Return the reward of a step; termination makes no difference."""
        if math.isnan(progress):
            return 0.0
        change = 0.0 if math.isnan(self._last) else progress - self._last
        self._last = progress
        return min(max(change, -self._clip), self._clip)
