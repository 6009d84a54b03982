"""Ranks in which groups whose intervals overlap are tied."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Literal

from stepscore.report.page import columns
from stepscore.types import Estimate


def tied_ranks(
    estimates: Sequence[Estimate | None], better: Literal["higher", "lower"]
) -> list[columns.Rank]:
    """Return the best and the worst rank each group may take.

    A group is surely better than another if its whole interval is. The best rank is 1 + the groups surely better, the
    worst is the number of groups minus those surely worse. A group without an interval is tied with all others; one
    without a value has no rank.

    >>> from stepscore.metrics.stats import rate_estimate
    >>> tied_ranks([rate_estimate([0, 1] * 50), rate_estimate([1] * 100)], "higher")
    [Places(best=2, worst=2), Places(best=1, worst=1)]
    """
    ends = [_ends(estimate, better) for estimate in estimates]
    known = [end for end in ends if end is not None]
    ranks: list[columns.Rank] = []
    for end in ends:
        if end is None:
            ranks.append(None)
            continue
        above = sum(other[0] > end[1] for other in known)
        below = sum(other[1] < end[0] for other in known)
        ranks.append(columns.Places(1 + above, len(known) - below))
    return ranks


def _ends(estimate: Estimate | None, better: str) -> tuple[float, float] | None:
    """Return the interval with higher as better; unbounded if there is none; ``None`` without a value."""
    if estimate is None or math.isnan(estimate.value):
        return None
    if math.isnan(estimate.lo) or math.isnan(estimate.hi):
        return -math.inf, math.inf
    return (estimate.lo, estimate.hi) if better == "higher" else (-estimate.hi, -estimate.lo)
