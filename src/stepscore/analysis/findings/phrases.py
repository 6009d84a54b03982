"""Names, counts and shares as sentences have them."""

from __future__ import annotations

import math
from collections.abc import Sequence

from stepscore.types import Estimate

MOST_NAMES = 6
"""Names that a sentence lists; of more, it counts the rest."""


UNNAMED = "the unnamed policy"


def policy_name(policy: str | None) -> str:
    """Return a policy's name in a sentence."""
    return UNNAMED if policy is None else policy


def begun(sentence: str) -> str:
    """Return a sentence that begins with a capital, unless it begins with a policy's name."""
    return sentence[0].upper() + sentence[1:] if sentence.startswith(UNNAMED) else sentence


def names(policies: Sequence[str | None], most: int = MOST_NAMES) -> str:
    """Return names joined with commas and "and"; of many, the first and how many others.

    >>> names(["a", "b", "c"])
    'a, b and c'
    >>> names(["a", "b", "c", "d"], most=3)
    'a, b and 2 others'
    """
    parts = [policy_name(policy) for policy in policies]
    if len(parts) > most:
        parts = [*parts[: most - 1], f"{len(parts) - most + 1} others"]
    return listed(parts)


def listed(parts: Sequence[str]) -> str:
    """Return parts joined with commas and "and"."""
    return parts[0] if len(parts) == 1 else f"{', '.join(parts[:-1])} and {parts[-1]}"


def plural(n: int, word: str) -> str:
    """Return a count with its noun: ``1 rollout``, ``8 rollouts``, ``10,000 rollouts``."""
    ending = "" if n == 1 else "es" if word.endswith("ss") else "s"
    return f"{n:,} {word}{ending}"


def rollouts_each(counts: Sequence[int]) -> str:
    """Return how many rollouts each policy has: ``8 rollouts each``, or ``8 to 12 rollouts each``."""
    low, high = min(counts), max(counts)
    return f"{plural(low, 'rollout')} each" if low == high else f"{low:,} to {high:,} rollouts each"


def percent(share: float) -> str:
    """Return a share as whole percent; one decimal where rounding would claim all or nothing."""
    rounded = f"{100 * share:.0f}"
    exact = share in (0.0, 1.0) or rounded not in ("0", "100")
    return f"{rounded} %" if exact else f"{100 * share:.1f} %"


def points(share: float) -> str:
    """Return a difference or error as points of a hundred."""
    return f"{100 * share:.0f}" if share >= 0.1 else f"{100 * share:.1f}"


def interval_text(estimate: Estimate) -> str:
    """Return the 95 % interval, or why there is none."""
    if math.isnan(estimate.lo):
        return f"no interval: {estimate.method}"
    return f"95 % interval {100 * estimate.lo:.0f} to {100 * estimate.hi:.0f} %"
