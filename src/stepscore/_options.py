"""Ranges, choices and defaults of options, shared by the command line, the page and Python.

It imports no room, so that help pages start at once. A range is declared beside the type of its option:
``steps: Annotated[int, Range(1, MANY)] = 2000``.
"""

from __future__ import annotations

from typing import Literal, NamedTuple

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


SceneChoice = Literal["auto", "fixed", "sample"]
"""What numbers speak of: ``fixed``, the scenes that were tried; ``sample``, scenes like them; ``auto``, the scenes
that were tried where they are few and tried repeatedly (``stepscore.analysis.pooling``)."""

DEFAULT_REVISION = "robust"
"""The OPD revision of every table, page and figure if none is named; ``docs/methods/opd.md`` says why."""
