"""Ranges of numeric options, declared beside their type: ``steps: Annotated[int, Range(1, MANY)] = 2000``."""

from __future__ import annotations

from typing import NamedTuple

MANY = 10**12
"""The largest number of anything countable."""

MAX_PARALLEL = 4096
"""Most episodes, calls or processes at a time."""

MAX_SEED = 2**32 - 1
"""Largest seed that every random generator takes."""


class Range(NamedTuple):
    """The numbers that an option allows.

    Attributes:
        least: The least.
        most: The largest.
        above: ``least`` itself is not allowed.
    """

    least: float
    most: float
    above: bool = False

    def allows(self, value: float) -> bool:
        """Return whether a number is in the range; NaN is in none."""
        return self.least <= value <= self.most and not (self.above and value == self.least)

    def __str__(self) -> str:
        low, high = (int(bound) if float(bound).is_integer() else bound for bound in (self.least, self.most))
        return f"above {low} and at most {high}" if self.above else f"from {low} to {high}"
