"""Ranks are tied where intervals do not separate."""

from __future__ import annotations

import math
from itertools import permutations
from typing import Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stepscore.report.page.leaderboards.leaderboard import tied_ranks
from stepscore.types import Estimate

Better = Literal["higher", "lower"]


def made(lo: float, value: float, hi: float) -> Estimate:
    return Estimate(value, lo, hi, 10, 10, 1.0, "made")


ends = st.lists(st.integers(0, 12), min_size=3, max_size=3).map(sorted)
without_interval = st.integers(0, 12).map(lambda v: made(math.nan, float(v), math.nan))
groups = st.lists(
    ends.map(lambda e: made(*map(float, e))) | without_interval | st.none() | st.just(made(*[math.nan] * 3)),
    max_size=6,
)


def naive(estimates: list[Estimate | None], better: Better) -> list[tuple[int, int] | None]:
    """Places a group takes in any order of the groups that no pair of separate intervals contradicts."""
    known = {i: e for i, e in enumerate(estimates) if e is not None and not math.isnan(e.value)}

    def surely_better(a: Estimate, b: Estimate) -> bool:
        return a.lo > b.hi if better == "higher" else a.hi < b.lo

    places: dict[int, set[int]] = {i: set() for i in known}
    for order in permutations(known):
        pairs = [(order[j], order[i]) for i in range(len(order)) for j in range(i + 1, len(order))]
        if not any(surely_better(known[late], known[early]) for late, early in pairs):
            for place, i in enumerate(order, start=1):
                places[i].add(place)
    return [(min(places[i]), max(places[i])) if i in places else None for i in range(len(estimates))]


@given(groups, st.sampled_from(["higher", "lower"]))
def test_ranks_are_the_places_that_the_intervals_allow(
    estimates: list[Estimate | None], better: Better
) -> None:
    assert tied_ranks(estimates, better) == naive(estimates, better)


def test_touching_intervals_are_tied() -> None:
    assert tied_ranks([made(0.1, 0.2, 0.3), made(0.3, 0.4, 0.5)], "higher") == [(1, 2), (1, 2)]


@pytest.mark.parametrize(("better", "first"), [("higher", 1), ("lower", 0)])
def test_the_good_direction_comes_first(better: Better, first: int) -> None:
    found = tied_ranks([made(0.1, 0.2, 0.3), made(0.4, 0.5, 0.6)], better)
    assert found[first] == (1, 1)
    assert found[1 - first] == (2, 2)
