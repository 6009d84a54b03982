"""Laws of hops: what a perfect judge obeys exactly, held against a naive account of each law."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stepscore.errors import OptionError
from stepscore.metrics import (
    confirmed_order,
    curve_gap,
    hop_between,
    opposite_signs,
    partition_gap,
    triple_residual,
)
from stepscore.metrics.pair_consistency import MIN_REMAINDER

NAN = math.nan
potentials = st.integers(0, 100).map(lambda i: i / 100)
hops = st.one_of(st.integers(-100, 100).map(lambda i: i / 100), st.just(NAN))
triples = st.lists(st.tuples(hops, hops, hops), max_size=30)


def naive_hop(p: float, q: float) -> float:
    if q == p:
        return 0.0
    return (q - p) / (1 - p) if q > p else (q - p) / p


def naive_residual(pq: float, qr: float, pr: float) -> float:
    three = (pq, qr, pr)
    if any(math.isnan(h) for h in three):
        return NAN
    if all(h >= 0 for h in three):
        left = [max(1 - h, MIN_REMAINDER) for h in three]
    elif all(h <= 0 for h in three):
        left = [max(1 + h, MIN_REMAINDER) for h in three]
    else:
        return NAN
    return abs(math.log(left[2]) - math.log(left[0]) - math.log(left[1]))


def naive_order(pq: float, qr: float, pr: float) -> float:
    if any(math.isnan(h) for h in (pq, qr, pr)) or pq * qr <= 0:
        return NAN
    return 0.5 if pr == 0 else float(pr * pq > 0)


@given(potentials, potentials)
def test_a_hop_is_a_share_of_what_was_left_or_of_what_was_done(p: float, q: float) -> None:
    hop = float(hop_between(p, q))
    assert hop == pytest.approx(naive_hop(p, q))
    assert -1 <= hop <= 1
    assert np.isnan(hop_between(NAN, q))
    assert np.isnan(hop_between(p, NAN))


@given(triples)
def test_residual_and_order_are_those_of_a_loop_over_triples(rows: list[tuple[float, float, float]]) -> None:
    columns = [[row[i] for row in rows] for i in range(3)]
    for function, naive in ((triple_residual, naive_residual), (confirmed_order, naive_order)):
        expected = np.array([naive(*row) for row in rows])
        np.testing.assert_allclose(function(*columns), expected, atol=1e-12)


@given(st.lists(potentials, min_size=3, max_size=3, unique=True))
def test_a_perfect_judge_obeys_the_multiplicative_laws_in_both_directions(found: list[float]) -> None:
    for p, q, r in (sorted(found), sorted(found)[::-1]):
        pq, qr, pr = (hop_between([a], [b]) for a, b in ((p, q), (q, r), (p, r)))
        if max(abs(pq[0]), abs(qr[0]), abs(pr[0])) < 1 - MIN_REMAINDER:
            assert triple_residual(pq, qr, pr)[0] == pytest.approx(0, abs=1e-9)
        assert confirmed_order(pq, qr, pr)[0] == 1
        assert opposite_signs(pq, hop_between([q], [p]))[0] == 1


def test_the_raw_pair_score_is_not_additive_and_differences_are_not_hops() -> None:
    pq, qr, pr = (hop_between([a], [b]) for a, b in ((0.0, 0.5), (0.5, 1.0), (0.0, 1.0)))
    assert [pq[0], qr[0], pr[0]] == [0.5, 1.0, 1.0]
    assert pq[0] + qr[0] != pr[0]
    assert (1 - pr[0]) == (1 - pq[0]) * (1 - qr[0])
    # 0.2 to 0.4 to 0.6 by differences: they add up, and what is left does not multiply.
    assert triple_residual([0.2], [0.2], [0.4])[0] == pytest.approx(abs(math.log(0.6) - 2 * math.log(0.8)))


def test_differences_of_any_curve_keep_their_order_whatever_the_curve_is() -> None:
    rng = np.random.default_rng(0)
    p, q, r = rng.uniform(size=(3, 500))
    order = confirmed_order(q - p, r - q, r - p)
    assert np.all(order[~np.isnan(order)] == 1)
    assert np.all(opposite_signs(q - p, p - q) == 1)


def test_signs_there_and_back() -> None:
    found = opposite_signs([0.2, 0.2, 0.0, 0.2, NAN, 0.2], [-0.9, 0.1, 0.0, 0.0, 0.1, NAN])
    np.testing.assert_array_equal(found, [1, 0, 1, 0, NAN, NAN])


@given(st.lists(st.tuples(hops, hops), max_size=20))
def test_the_gap_of_two_curves_is_the_mean_over_points_that_both_know(
    rows: list[tuple[float, float]],
) -> None:
    known = [abs(a - b) for a, b in rows if not math.isnan(a + b)]
    expected = sum(known) / len(known) if known else NAN
    assert curve_gap([a for a, _ in rows], [b for _, b in rows]) == pytest.approx(expected, nan_ok=True)


def test_a_curve_at_half_the_points_is_compared_where_both_have_one() -> None:
    fine_at = np.arange(1, 9) / 2
    fine = fine_at / 4
    coarse = fine[1::2] + np.array([0.1, -0.1, 0.2, 0.0])
    mean, end = partition_gap(fine_at[1::2], coarse, fine_at, fine)
    assert mean == pytest.approx(0.1)
    assert end == 0
    assert partition_gap(fine_at, fine, fine_at, fine) == (0, 0)
    assert all(math.isnan(one) for one in partition_gap([], [], fine_at, fine))
    nothing_shared, end = partition_gap([0.3], [0.5], [0.7], [0.75])
    assert math.isnan(nothing_shared)
    assert end == 0.25


def test_series_of_different_lengths_are_refused() -> None:
    with pytest.raises(OptionError):
        triple_residual([0.1], [0.1, 0.2], [0.3])
    with pytest.raises(OptionError):
        partition_gap([1, 2], [0.5], [1], [0.5])
