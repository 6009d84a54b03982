"""Verdicts on ordered subgoals."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from stepscore.errors import OptionError
from stepscore.metrics.subgoals import (
    conditional_success,
    conditional_success_indicator,
    first_failed_subgoal,
    first_failure_histogram,
    order_violation_indicator,
    order_violations,
    success_vector,
    verdict_coverage,
)

NAN = math.nan
GRASP_LIFT_PLACE = np.array(
    [
        [1, 1, 1],
        [1, 1, 0],
        [1, 0, 0],
        [1, NAN, 1],
        [0, 1, 0],
        [1, 1, NAN],
    ]
)
matrices = hnp.arrays(
    np.float64, st.tuples(st.integers(0, 8), st.integers(1, 4)), elements=st.sampled_from([0.0, 1.0, NAN])
)


def completions(row):
    """Every row that the known entries allow."""
    choices = [[0.0, 1.0] if math.isnan(v) else [v] for v in row]
    return list(itertools.product(*choices))


def naive_first_failure(row):
    return next((k for k, v in enumerate(row) if v == 0), len(row))


def naive_violation(row):
    return any(row[i] == 0 and row[j] == 1 for i, j in itertools.combinations(range(len(row)), 2))


def test_success_vector_is_the_rate_among_known_verdicts():
    vector = success_vector(GRASP_LIFT_PLACE)
    assert vector.rate == pytest.approx([5 / 6, 4 / 5, 2 / 5])
    assert vector.n.tolist() == [6, 5, 5]
    assert vector.coverage == pytest.approx([1, 5 / 6, 5 / 6])


def test_conditional_success_asks_only_episodes_that_arrived():
    given_previous = conditional_success(GRASP_LIFT_PLACE)
    # Five episodes grasped: lift is known in four of them, reached in three. Four lifted, one place unknown.
    assert given_previous.rate == pytest.approx([5 / 6, 3 / 4, 1 / 3])
    assert given_previous.n.tolist() == [6, 4, 3]
    assert given_previous.coverage == pytest.approx([1, 4 / 5, 3 / 4])


@given(matrices)
def test_conditional_rates_are_the_means_of_their_indicators(matrix):
    rates = conditional_success(matrix)
    for k in range(matrix.shape[1]):
        indicator = conditional_success_indicator(matrix, k)
        known = indicator[~np.isnan(indicator)]
        assert rates.n[k] == len(known)
        assert rates.rate[k] == pytest.approx(known.mean() if len(known) else NAN, nan_ok=True)


def test_conditional_success_finds_the_step_that_loses_episodes():
    chain = np.array([[1, 1, 0, 0]] * 8 + [[1, 1, 1, 1]] * 2)
    assert success_vector(chain).rate.tolist() == [1.0, 1.0, 0.2, 0.2]
    assert conditional_success(chain).rate.tolist() == [1.0, 1.0, 0.2, 1.0]


def test_a_subgoal_nobody_arrived_at_has_no_conditional_rate():
    rates = conditional_success([[0, 0], [0, 1]])
    assert math.isnan(rates.rate[1])
    assert math.isnan(rates.coverage[1])
    assert rates.n[1] == 0


def test_first_failures_are_counted_with_none_and_unknown():
    histogram = first_failure_histogram(GRASP_LIFT_PLACE)
    assert histogram.counts.tolist() == [1, 1, 1]
    assert (histogram.none, histogram.unknown, histogram.n) == (1, 2, 6)
    assert histogram.shares == pytest.approx([1 / 6, 1 / 6, 1 / 6, 1 / 6, 2 / 6])


@pytest.mark.parametrize(
    ("row", "expected"),
    [([1, 0, NAN], 1), ([NAN, 0, 1], NAN), ([1, NAN, 1], NAN), ([1, 1, 1], 3), ([0, NAN, NAN], 0)],
)
def test_an_unknown_before_the_first_failure_leaves_it_unknown(row, expected):
    np.testing.assert_array_equal(first_failed_subgoal([row]), [expected])


@given(matrices)
def test_first_failure_is_known_where_every_completion_agrees(matrix):
    found = first_failed_subgoal(matrix)
    for row, at in zip(matrix, found, strict=True):
        possible = {naive_first_failure(c) for c in completions(row)}
        assert at == possible.pop() if len(possible) == 1 else math.isnan(at)
    assert first_failure_histogram(matrix).n == len(matrix)


def test_order_violations_name_the_pairs():
    found = order_violations(GRASP_LIFT_PLACE)
    # Lifted without a grasp: a violation. Placed, the lift unknown: perhaps one. The rest: none.
    assert order_violation_indicator(GRASP_LIFT_PLACE)[[0, 1, 2, 4, 5]].tolist() == [0, 0, 0, 1, 0]
    assert math.isnan(order_violation_indicator(GRASP_LIFT_PLACE)[3])
    assert (found.rate, found.n) == (1 / 5, 5)
    assert found.coverage == pytest.approx(5 / 6)
    assert found.pairs.tolist() == [[0, 1, 0], [0, 0, 0], [0, 0, 0]]


@given(matrices)
def test_a_violation_is_known_where_every_completion_agrees(matrix):
    found = order_violation_indicator(matrix)
    for row, violated in zip(matrix, found, strict=True):
        possible = {naive_violation(c) for c in completions(row)}
        assert violated == possible.pop() if len(possible) == 1 else math.isnan(violated)


@given(matrices)
def test_violating_pairs_are_the_counted_ones(matrix):
    pairs = order_violations(matrix).pairs
    k = matrix.shape[1]
    for i, j in itertools.product(range(k), range(k)):
        assert pairs[i, j] == (sum((r[i] == 0) and (r[j] == 1) for r in matrix) if i < j else 0)


@given(matrices)
def test_coverage_is_the_known_share_of_each_subgoal(matrix):
    shares = verdict_coverage(matrix)
    np.testing.assert_array_equal(shares, success_vector(matrix).coverage)
    for k in range(matrix.shape[1]):
        assert shares[k] == pytest.approx(
            np.mean([not math.isnan(v) for v in matrix[:, k]]) if len(matrix) else NAN, nan_ok=True
        )


def test_without_episodes_all_is_unknown():
    empty = np.empty((0, 2))
    assert np.isnan(success_vector(empty).rate).all()
    assert np.isnan(first_failure_histogram(empty).shares).all()
    assert math.isnan(order_violations(empty).rate)


def test_bad_matrices_are_refused():
    with pytest.raises(OptionError, match=r"holds 0\.5"):
        success_vector([[1, 0.5]])
    with pytest.raises(OptionError, match="2 dimension"):
        success_vector([1, 0])
    with pytest.raises(OptionError, match="no subgoals"):
        success_vector(np.empty((3, 0)))
    with pytest.raises(OptionError, match=r"must be in 0\.\.1, got 2"):
        conditional_success_indicator([[1, 0]], 2)
