"""Who is better than whom, in sentences: tiers where every policy of one is better than every one of the next."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from stepscore.analysis.findings.phrases import names, rollouts_each

Policy = str | None
Beats = Collection[tuple[Policy, Policy]]
"""Pairs (better, worse) whose difference is shown."""

MOST_WINNERS = 3
"""Policies whose differences are listed one by one, where there are no clear tiers."""
MOST_CHAINED = 3
"""Tiers that one sentence chains with "which"; of more, they are listed."""


@dataclass(frozen=True)
class Verb:
    """How a sentence states that one policy is better: ``succeeds more often``, ``succeed more often``."""

    one: str
    several: str

    def of(self, n: int) -> str:
        """Return the form for ``n`` policies."""
        return self.one if n == 1 else self.several


SUCCEEDS = Verb("succeeds more often", "succeed more often")
GETS_FURTHER = Verb("gets further", "get further")


def tiers_of(order: Sequence[Policy], beats: Beats) -> list[tuple[Policy, ...]]:
    """Return the policies in tiers, best first: every policy of a tier beats every one of all later tiers.

    Policies stay in one tier where that does not hold for a single pair: of A, B and C with only A better than C
    shown, there is one tier.

    Args:
        order: The policies by value, best first.
        beats: The pairs whose difference is shown.
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
    """Return the sentences: the tiers, what is shown within the first, and what is not.

    Args:
        tiers: From :func:`tiers_of`.
        beats: The pairs whose difference is shown.
        counts: Rollouts of each policy.
        verb: How one is better.
    """
    sentences = [_tiers(tiers, verb)] if len(tiers) > 1 else []
    return sentences + ([_within(tiers[0], beats, counts, verb)] if len(tiers[0]) > 1 else [])


def later_ties(
    tiers: Sequence[tuple[Policy, ...]], beats: Beats, counts: Mapping[Policy, int], verb: Verb
) -> list[str]:
    """Return the same about the tiers after the first."""
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
    """Return what is shown among policies of one tier, and that the rest cannot be told apart."""
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
