"""Conditions of the state, with their distance from being true, in metres.

A condition is a pure function of the state now and the state at the start: ``gap(now, start)`` is the distance left,
and 0 or less once the condition is true. It grows again when something is undone.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np

from stepscore.sim.state import State

CONTACT_GAP = 0.01
"""Least gap in metres as long as there is no contact."""
GRASP_GAP = 0.1
"""Gap in metres until the grasp is made: closing the fingers beside the object is not progress."""


class Condition(Protocol):
    """A condition of the state with a distance."""

    def gap(self, now: State, start: State) -> float:
        """Return the metres left; 0 or less when the condition is true."""


@dataclass(frozen=True)
class Within:
    """Two points are at most ``metres`` apart, over ``axes``."""

    a: str
    b: str
    metres: float
    axes: str = "xyz"

    def gap(self, now: State, start: State) -> float:
        """Return the distance less the allowed one."""
        return now.distance(self.a, self.b, self.axes) - self.metres


@dataclass(frozen=True)
class Touching:
    """The hand touches ``part``; until then the gap is the distance of the fingers to ``point``."""

    part: str
    point: str = "object"

    def gap(self, now: State, start: State) -> float:
        """Return 0 in contact, else the distance of the fingers, and never less than ``CONTACT_GAP``."""
        return 0.0 if self.part in now.touched else max(now.distance("tcp", self.point), CONTACT_GAP)


@dataclass(frozen=True)
class Holding:
    """Both fingers press ``part`` from their sides."""

    part: str

    def gap(self, now: State, start: State) -> float:
        """Return 0 when held, else ``GRASP_GAP``."""
        return 0.0 if self.part in now.held else GRASP_GAP


@dataclass(frozen=True)
class Raised:
    """``point`` is ``metres`` higher than at the start."""

    point: str
    metres: float

    def gap(self, now: State, start: State) -> float:
        """Return the height that is missing."""
        return self.metres - float(now.points[self.point][2] - start.points[self.point][2])


@dataclass(frozen=True)
class Advanced:
    """``a`` is ``metres`` nearer to ``b`` than at the start, over ``axes``."""

    metres: float
    a: str = "object"
    b: str = "target"
    axes: str = "xyz"

    def gap(self, now: State, start: State) -> float:
        """Return the approach that is missing."""
        return self.metres - (
            start.distance(self.a, self.b, self.axes) - now.distance(self.a, self.b, self.axes)
        )


@dataclass(frozen=True)
class Displaced:
    """``point`` is ``metres`` away from where it was at the start."""

    point: str
    metres: float

    def gap(self, now: State, start: State) -> float:
        """Return the distance that is missing."""
        return self.metres - float(np.linalg.norm(now.points[self.point] - start.points[self.point]))


@dataclass(frozen=True)
class Apart:
    """``a`` is at least ``metres`` further along ``axis`` than ``b``."""

    a: str
    b: str
    axis: str
    metres: float

    def gap(self, now: State, start: State) -> float:
        """Return the distance that is missing."""
        number = "xyz".index(self.axis)
        return self.metres - float(now.points[self.a][number] - now.points[self.b][number])


@dataclass(frozen=True)
class Both:
    """Two conditions at once."""

    first: Condition
    second: Condition

    def gap(self, now: State, start: State) -> float:
        """Return the sum of the two gaps."""
        return max(self.first.gap(now, start), 0.0) + max(self.second.gap(now, start), 0.0)


@dataclass(frozen=True)
class Either:
    """One of two conditions: what the one misses, the other may detect."""

    first: Condition
    second: Condition

    def gap(self, now: State, start: State) -> float:
        """Return the smaller of the two gaps."""
        return min(self.first.gap(now, start), self.second.gap(now, start))


@dataclass(frozen=True)
class Done:
    """The simulator reports success; until then the gap of ``condition``, kept above 0."""

    condition: Condition

    def gap(self, now: State, start: State) -> float:
        """Return 0 on success, else the gap of ``condition``, at least a millimetre."""
        return 0.0 if now.success else max(self.condition.gap(now, start), 0.001)
