"""A sentence for tables whose groups are not known to the same extent."""

from __future__ import annotations

import math
from collections.abc import Mapping

MOST_NAMED = 4
"""Metrics that the sentence names at most."""


def coverage_note(coverages: Mapping[str, Mapping[str, float]], *, paired: bool = False) -> str:
    """Return a sentence where some metric is known for another share of episodes in one group than in another.

    The mean of what is known then compares different episodes: a policy whose hard episodes are unknown looks
    better than one whose hard episodes are known.

    Args:
        coverages: Metric to group to coverage, 0..1; NaN where a group has no episodes.
        paired: The numbers beside it are over pairs in which both are known.
    """
    unequal = {}
    for metric, by_group in coverages.items():
        known = {group: share for group, share in by_group.items() if not math.isnan(share)}
        if known and max(known.values()) - min(known.values()) > 1e-9:
            unequal[metric] = known
    if not unequal:
        return ""
    metric, widest = max(unequal.items(), key=lambda item: max(item[1].values()) - min(item[1].values()))
    least, most = min(widest, key=widest.__getitem__), max(widest, key=widest.__getitem__)
    named = [*list(unequal)[:MOST_NAMED], *(["…"] if len(unequal) > MOST_NAMED else [])]
    where = (
        f"Coverage differs between groups in {', '.join(named)} (most in {metric}: {100 * widest[least]:.0f} % of "
        f"{least}, {100 * widest[most]:.0f} % of {most}). "
    )
    if paired:
        return where + "Differences are over the pairs in which both are known."
    return where + "What is unknown may be what is hard: these columns do not compare the same episodes."
