"""What is left of a milestone, in metres.

A measure is a pure function of the state now and the state at the start: ``gap(now, start)`` is the distance
left, and 0 or less once the milestone is reached. So one number tells both whether a subgoal is true and how
far it is, and it grows again when something is undone.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np

from stepscore.sim.state import State

CONTACT_GAP = 0.01
"""Metres that are left at least as long as the contact itself is missing."""
GRASP_GAP = 0.1
"""Metres that a grasp is away until it is made: to close the fingers beside the thing is no progress."""


class Measure(Protocol):
    """How much of a milestone is left."""

    def gap(self, now: State, start: State) -> float:
        """Metres left; 0 or less when the milestone is reached."""


@dataclass(frozen=True)
class Within:
    """Two points are at most ``metres`` apart, over ``axes``."""

    a: str
    b: str
    metres: float
    axes: str = "xyz"

    def gap(self, now: State, start: State) -> float:
        """The distance less the allowed one."""
        return now.distance(self.a, self.b, self.axes) - self.metres


@dataclass(frozen=True)
class Touching:
    """The hand touches ``part``; until then the way of the fingers to ``point``."""

    part: str
    point: str = "object"

    def gap(self, now: State, start: State) -> float:
        """0 in contact, else the distance of the fingers, and never less than ``CONTACT_GAP``."""
        return 0.0 if self.part in now.touched else max(now.distance("tcp", self.point), CONTACT_GAP)


@dataclass(frozen=True)
class Holding:
    """Both fingers press ``part`` from their sides."""

    part: str

    def gap(self, now: State, start: State) -> float:
        """0 when held, else ``GRASP_GAP``."""
        return 0.0 if self.part in now.held else GRASP_GAP


@dataclass(frozen=True)
class Raised:
    """``point`` is ``metres`` higher than at the start."""

    point: str
    metres: float

    def gap(self, now: State, start: State) -> float:
        """The height that is missing."""
        return self.metres - float(now.points[self.point][2] - start.points[self.point][2])


@dataclass(frozen=True)
class Advanced:
    """``a`` is ``metres`` nearer to ``b`` than at the start, over ``axes``."""

    metres: float
    a: str = "object"
    b: str = "target"
    axes: str = "xyz"

    def gap(self, now: State, start: State) -> float:
        """The approach that is missing."""
        return self.metres - (
            start.distance(self.a, self.b, self.axes) - now.distance(self.a, self.b, self.axes)
        )


@dataclass(frozen=True)
class Displaced:
    """``point`` is ``metres`` away from where it was at the start."""

    point: str
    metres: float

    def gap(self, now: State, start: State) -> float:
        """The way that is missing."""
        return self.metres - float(np.linalg.norm(now.points[self.point] - start.points[self.point]))


@dataclass(frozen=True)
class Apart:
    """``a`` lies at least ``metres`` further along ``axis`` than ``b``."""

    a: str
    b: str
    axis: str
    metres: float

    def gap(self, now: State, start: State) -> float:
        """The way that is missing."""
        number = "xyz".index(self.axis)
        return self.metres - float(now.points[self.a][number] - now.points[self.b][number])


@dataclass(frozen=True)
class Both:
    """Two measures at once."""

    first: Measure
    second: Measure

    def gap(self, now: State, start: State) -> float:
        """The sum of what is left of each."""
        return max(self.first.gap(now, start), 0.0) + max(self.second.gap(now, start), 0.0)


@dataclass(frozen=True)
class Either:
    """One of two measures: what the one misses, the other may show."""

    first: Measure
    second: Measure

    def gap(self, now: State, start: State) -> float:
        """The smaller of what is left of each."""
        return min(self.first.gap(now, start), self.second.gap(now, start))


@dataclass(frozen=True)
class Done:
    """The simulator says that the task is done; until then ``measure``, which never quite gets to 0."""

    measure: Measure

    def gap(self, now: State, start: State) -> float:
        """0 on success, else what ``measure`` leaves, at least a millimetre."""
        return 0.0 if now.success else max(self.measure.gap(now, start), 0.001)
