"""Ranges of numbers on the command line: what no command can work with is refused before anything is read.

The limits are far beyond any sensible use; they keep a slip of the finger from filling the memory.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

import typer

N = TypeVar("N", int, float)

MANY = 10**12
"""The largest number of anything countable."""

MAX_PARALLEL = 4096
"""Most episodes, calls or processes at a time."""

MAX_SIZE_PX = 8192
"""Longest side of a frame, in pixels."""

MAX_FPS = 1000.0
"""Most frames per second."""

MAX_SEED = 2**32 - 1
"""Largest seed that every random generator takes."""


def between(least: float, most: float, *, above: bool = False) -> Callable[[N | None], N | None]:
    """Return a typer callback that allows numbers from ``least`` to ``most``; NaN is in no range.

    Args:
        least: The least allowed.
        most: The most allowed.
        above: ``least`` itself is not allowed.
    """
    low, high = (int(bound) if float(bound).is_integer() else bound for bound in (least, most))
    allowed = f"above {low} and at most {high}" if above else f"from {low} to {high}"

    def check(value: N | None) -> N | None:
        if value is None or (least <= value <= most and not (above and value == least)):
            return value
        raise typer.BadParameter(f"{_shown(value)} is not allowed; give a number {allowed}.")

    return check


def _shown(value: float) -> str:
    text = str(value) if abs(value) < MANY or isinstance(value, float) else ""
    return text or f"{'-' if value < 0 else ''}10^{len(str(abs(value))) - 1} and more"
