"""Ranks that say no more than the intervals do: groups whose intervals do not separate are tied."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Literal

from stepscore.types import Estimate

Rank = tuple[int, int] | None


def tied_ranks(estimates: Sequence[Estimate | None], better: Literal["higher", "lower"]) -> list[Rank]:
    """The best and the worst place each group may take.

    A group is surely better than another when its whole interval is. The best place is 1 + the groups surely
    better, the worst is the number of groups less those surely worse. A group without an interval is surely
    better or worse than none; one without a value has no place and counts for nobody.

    Args:
        estimates: One a group; ``None`` where there is none.
        better: The good direction.

    >>> from stepscore.metrics.stats.intervals import rate_estimate
    >>> tied_ranks([rate_estimate([0, 1] * 50), rate_estimate([1] * 100)], "higher")
    [(2, 2), (1, 1)]
    """
    ends = [_ends(estimate, better) for estimate in estimates]
    placed = [end for end in ends if end is not None]
    found: list[Rank] = []
    for end in ends:
        if end is None:
            found.append(None)
            continue
        above = sum(other[0] > end[1] for other in placed)
        below = sum(other[1] < end[0] for other in placed)
        found.append((1 + above, len(placed) - below))
    return found


def _ends(estimate: Estimate | None, better: str) -> tuple[float, float] | None:
    """The interval, upwards better; unbounded where there is none; ``None`` without a value."""
    if estimate is None or math.isnan(estimate.value):
        return None
    if math.isnan(estimate.lo) or math.isnan(estimate.hi):
        return -math.inf, math.inf
    return (estimate.lo, estimate.hi) if better == "higher" else (-estimate.hi, -estimate.lo)
