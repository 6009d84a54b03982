"""Ranges of numbers on the command line: what no command can work with is refused before anything is read.

The limits are far beyond any sensible use; they keep a slip of the finger from filling the memory.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

import typer

from stepscore._options import MANY as MANY
from stepscore._options import MAX_PARALLEL as MAX_PARALLEL
from stepscore._options import MAX_SEED as MAX_SEED
from stepscore._options import Range

N = TypeVar("N", int, float)

MAX_SIZE_PX = 8192
"""Longest side of a frame, in pixels."""

MAX_FPS = 1000.0
"""Most frames per second."""


def between(least: float, most: float, *, above: bool = False) -> Callable[[N | None], N | None]:
    """Return a typer callback that allows numbers from ``least`` to ``most``; NaN is in no range.

    Args:
        least: The least allowed.
        most: The most allowed.
        above: ``least`` itself is not allowed.
    """
    allowed = Range(least, most, above)

    def check(value: N | None) -> N | None:
        if value is None or allowed.allows(value):
            return value
        raise typer.BadParameter(f"{shown_number(value)} is not allowed; give a number {allowed}.")

    return check


def shown_number(value: float) -> str:
    """Return a number as a message shows it; of one with many digits, its magnitude."""
    text = str(value) if abs(value) < MANY or isinstance(value, float) else ""
    return text or f"{'-' if value < 0 else ''}10^{len(str(abs(value))) - 1} and more"
