"""How fine answers are: levels, equal neighbours, noise of asking again."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stepscore.errors import OptionError
from stepscore.metrics import HOP_BINS, equal_neighbours, repeat_variance, value_levels

NAN = math.nan
values = st.lists(st.one_of(st.integers(0, 20).map(lambda i: i / 20), st.just(NAN)), max_size=40)


@given(values)
def test_levels_and_equal_neighbours_are_those_of_a_count_by_hand(given_values: list[float]) -> None:
    known = [v for v in given_values if not math.isnan(v)]
    distinct = sorted(set(known))
    step = min((b - a for a, b in itertools.pairwise(distinct)), default=NAN)
    found = value_levels(given_values)
    assert (found.n, found.distinct) == (len(known), len(distinct))
    assert found.step == pytest.approx(step, nan_ok=True)
    steps = [(a, b) for a, b in itertools.pairwise(given_values) if not math.isnan(a + b)]
    share = sum(a == b for a, b in steps) / len(steps) if steps else NAN
    assert equal_neighbours(given_values) == pytest.approx(share, nan_ok=True)


def test_sums_that_differ_by_binary_rounding_are_one_level() -> None:
    found = value_levels([0.3, 0.1 + 0.2])
    assert (found.n, found.distinct) == (2, 1)
    assert math.isnan(found.step)


def test_the_variance_of_repeats_is_numpys_over_the_known_answers() -> None:
    rng = np.random.default_rng(0)
    table = rng.normal(size=(50, 4))
    np.testing.assert_allclose(repeat_variance(table), table.var(axis=1, ddof=1))
    table[0, 1] = NAN
    table[1, 1:] = NAN
    found = repeat_variance(table)
    assert found[0] == pytest.approx(np.var(table[0, [0, 2, 3]], ddof=1))
    assert math.isnan(found[1])
    with pytest.raises(OptionError, match="dimensions"):
        repeat_variance([1.0, 2.0])


def test_bins_of_hops_leave_no_gap() -> None:
    assert all(a[1] == b[0] for a, b in itertools.pairwise(HOP_BINS))
    assert HOP_BINS[-1][1] == math.inf
