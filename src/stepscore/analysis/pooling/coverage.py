"""Notes for tables without known values, or with groups of different coverage."""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np

from stepscore.types import FloatArray

MOST_NAMED = 4
"""Most metrics in the note."""


def coverage_note(coverages: Mapping[str, Mapping[str, float]], *, paired: bool = False) -> str:
    """Return a note if some metric has different coverage in two groups.

    The known means then compare different episodes: a policy whose hard episodes are unknown looks better.

    Args:
        coverages: Metric to group to coverage, 0..1; NaN without episodes.
        paired: Whether the numbers are over pairs in which both are known.
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
    which = f"most in {metric}: " if len(unequal) > 1 else ""
    where = (
        f"Coverage differs between groups in {', '.join(named)} ({which}{100 * widest[least]:.0f} % of "
        f"{least}, {100 * widest[most]:.0f} % of {most}). "
    )
    if paired:
        return where + "Differences are over the pairs in which both are known."
    return where + "What is unknown may be what is hard: these columns do not compare the same episodes."


def nothing_known_note(values: Mapping[str, FloatArray], n: int) -> str:
    """Return a note if nothing but labels is known of any episode, so that an empty table explains itself."""
    known = {
        name for name, found in values.items() if name != "coverage" and not bool(np.all(np.isnan(found)))
    }
    these = "this episode" if n == 1 else f"these {n} episodes"
    if not n or known - {"success_label"}:
        return ""
    if not known:
        return (
            f"No metric of {these} is known: no success and no point of a curve. Where the judge could not answer, "
            "the warnings of `stepscore judge` say why."
        )
    if not np.any(values.get("coverage", np.empty(0)) == 0):
        return ""  # the run holds no curves, and verdicts may be known
    return (
        f"The judge answered unknown for {these} (coverage 0 %), so that nothing but labels is shown; the warnings "
        "of `stepscore judge` say why."
    )
