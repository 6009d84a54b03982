"""Phrases for sentences: names, counts, shares, and who is better than whom."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from stepscore.types import Estimate

MOST_NAMES = 6
"""Most names in a sentence; the rest are counted."""


UNNAMED = "the unnamed policy"


def policy_name(policy: str | None) -> str:
    """Return a policy's name in a sentence."""
    return UNNAMED if policy is None else policy


def begun(sentence: str) -> str:
    """Capitalise a sentence, unless it begins with a policy's name."""
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
    """Return a share as whole percent; with one decimal if rounding would claim all or nothing."""
    rounded = f"{100 * share:.0f}"
    exact = share in (0.0, 1.0) or rounded not in ("0", "100")
    return f"{rounded} %" if exact else f"{100 * share:.1f} %"


def points(share: float) -> str:
    """Return a difference or error in points of 100."""
    return f"{100 * share:.0f}" if share >= 0.1 else f"{100 * share:.1f}"


def interval_text(estimate: Estimate) -> str:
    """Return the 95 % interval, or why there is none."""
    if math.isnan(estimate.lo):
        return f"no interval: {estimate.method}"
    return f"95 % interval {100 * estimate.lo:.0f} to {100 * estimate.hi:.0f} %"


Policy = str | None
Beats = Collection[tuple[Policy, Policy]]
"""Pairs (better, worse) with a significant difference."""

MOST_WINNERS = 3
"""Most policies whose differences are listed one by one, without clear tiers."""
MOST_CHAINED = 3
"""Most tiers that one sentence chains with "which"; more are listed."""


@dataclass(frozen=True)
class Verb:
    """How to say that one policy is better: ``succeeds more often``, ``succeed more often``."""

    one: str
    several: str

    def of(self, n: int) -> str:
        """Return the form for ``n`` policies."""
        return self.one if n == 1 else self.several


SUCCEEDS = Verb("succeeds more often", "succeed more often")
GETS_FURTHER = Verb("gets further", "get further")


def tiers_of(order: Sequence[Policy], beats: Beats) -> list[tuple[Policy, ...]]:
    """Return the policies (given best first) in tiers: every policy of a tier beats all of later tiers.

    A tier is only split if all pairs allow it: if only A beats C, then A, B and C are one tier.
    """
    tiers: list[tuple[Policy, ...]] = []
    start = 0
    for cut in range(1, len(order) + 1):
        if all((a, b) in beats for a in order[:cut] for b in order[cut:]):
            tiers.append(tuple(order[start:cut]))
            start = cut
    return tiers


def tier_sentences(
    tiers: Sequence[tuple[Policy, ...]], beats: Beats, counts: Mapping[Policy, int], verb: Verb
) -> list[str]:
    """Return the sentences: the tiers, and what is shown and not shown within the first."""
    sentences = [_tiers(tiers, verb)] if len(tiers) > 1 else []
    return sentences + ([_within(tiers[0], beats, counts, verb)] if len(tiers[0]) > 1 else [])


def later_ties(
    tiers: Sequence[tuple[Policy, ...]], beats: Beats, counts: Mapping[Policy, int], verb: Verb
) -> list[str]:
    """Return the same for the tiers after the first."""
    return [_within(tier, beats, counts, verb) for tier in tiers[1:] if len(tier) > 1]


def _tiers(tiers: Sequence[tuple[Policy, ...]], verb: Verb) -> str:
    if len(tiers) > MOST_CHAINED:
        ranked = "; ".join(names(tier) for tier in tiers)
        return f"Best first: {ranked}. Each {verb.one} than all after it."
    first, *others = tiers
    sentence = names(first)
    for better, worse in zip([first, *others], others, strict=False):
        sentence += f"{', which' if better is not first else ''} {verb.of(len(better))} than {names(worse)}"
    return f"{sentence}."


def _within(tier: tuple[Policy, ...], beats: Beats, counts: Mapping[Policy, int], verb: Verb) -> str:
    """Return what is shown among policies of one tier, and that the others cannot be told apart."""
    each = f"with {rollouts_each([counts[policy] for policy in tier])}"
    beaten = {a: tuple(b for b in tier if (a, b) in beats) for a in tier}
    winners = [a for a in tier if beaten[a]]
    if not winners:
        return f"{names(tier)} cannot be told apart {each}."
    alike: dict[tuple[Policy, ...], list[Policy]] = {}
    for a in winners[:MOST_WINNERS]:
        alike.setdefault(beaten[a], []).append(a)
    shown = ", ".join(f"{names(a)} {verb.of(len(a))} than {names(b)}" for b, a in alike.items())
    further = sum(len(beaten[a]) for a in winners[MOST_WINNERS:])
    more = f", with {further} further differences shown" if further else ""
    others = (
        "No other difference" if set(tier) == set(counts) else f"No other difference between {names(tier)}"
    )
    return f"{shown}{more}. {others} is shown {each}."
