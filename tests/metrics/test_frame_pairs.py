"""Pairs of timestamps, judged by the sign of the change."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
import sklearn.metrics
from hypothesis import given
from hypothesis import strategies as st

from stepscore.errors import OptionError
from stepscore.metrics import TRUE_CHANGE_BINS, make_pairs, pair_scores

NAN = math.nan
changes = st.integers(-60, 60).map(lambda i: i / 100)
pair_lists = st.lists(st.tuples(changes, st.one_of(changes, st.just(NAN))), max_size=40)


def naive_row(pairs, lo, hi):
    """Count every pair by hand; a tie is half right and half a call of falling."""
    inside = [(t, j) for t, j in pairs if t != 0 and lo <= abs(t) < hi]
    known = [(t, j) for t, j in inside if not math.isnan(j)]
    credit: dict[bool, list[float]] = {True: [], False: []}
    calls = hits = 0.0
    for t, j in known:
        called_falling = 0.5 if j == 0 else float(j < 0)
        credit[t > 0].append(1 - called_falling if t > 0 else called_falling)
        calls += called_falling
        hits += called_falling if t < 0 else 0.0
    rising, falling = credit[True], credit[False]
    both = rising and falling
    return {
        "n": len(known),
        "rising": len(rising),
        "falling": len(falling),
        "coverage": len(known) / len(inside) if inside else NAN,
        "accuracy": np.mean(rising + falling) if known else NAN,
        "balanced_accuracy": (np.mean(rising) + np.mean(falling)) / 2 if both else NAN,
        "falling_f1": 2 * hits / (calls + len(falling)) if falling else NAN,
        "tie_share": np.mean([j == 0 for _, j in known]) if known else NAN,
        "auroc": sklearn.metrics.roc_auc_score([t > 0 for t, _ in known], [j for _, j in known])
        if both
        else NAN,
    }


class TestPairScores:
    @given(pair_lists)
    def test_are_the_naive_ones(self, pairs):
        true, judged = [t for t, _ in pairs], [j for _, j in pairs]
        for row, (lo, hi) in zip(pair_scores(true, judged), TRUE_CHANGE_BINS, strict=True):
            expected = naive_row(pairs, lo, hi)
            found = {name: getattr(row, name) for name in expected}
            assert found == pytest.approx(expected, nan_ok=True)

    @given(pair_lists)
    def test_falling_f1_is_scikit_learns_where_nothing_ties(self, pairs):
        pairs = [(t, j) for t, j in pairs if t != 0 and j != 0 and not math.isnan(j)]
        if not any(t < 0 for t, _ in pairs):
            return
        true, judged = np.array(pairs).T
        row = pair_scores(true, judged, bins=[(0, math.inf)])[0]
        assert row.falling_f1 == pytest.approx(sklearn.metrics.f1_score(true < 0, judged < 0))

    def test_bins_are_half_open_whatever_the_floats(self):
        edges = [0.3 - 0.2, 0.4 - 0.3, 0.9 - 0.6, 0.03, 0.029]
        rows = pair_scores(edges, [1] * 5)
        assert [row.n for row in rows] == [1, 2, 1]
        assert [(row.lo, row.hi) for row in rows] == list(TRUE_CHANGE_BINS)

    def test_calling_everything_rising_earns_nothing_balanced(self):
        row = pair_scores([0.2] * 9 + [-0.2], [0.1] * 10)[1]
        assert (row.accuracy, row.balanced_accuracy, row.falling_f1) == (0.9, 0.5, 0.0)

    def test_a_constant_judge_ties_and_is_at_chance(self):
        row = pair_scores([0.2, 0.2, -0.2], [0.0, -0.0, 0.0])[1]
        assert (row.tie_share, row.accuracy, row.balanced_accuracy, row.auroc) == (1, 0.5, 0.5, 0.5)

    def test_ties_may_be_wider_than_zero(self):
        true, judged = [0.2, -0.2, 0.2], [0.01, 0.005, 0.2]
        assert pair_scores(true, judged)[1].tie_share == 0
        row = pair_scores(true, judged, tie=0.01)[1]
        assert row.tie_share == pytest.approx(2 / 3)
        assert row.accuracy == pytest.approx(2 / 3)

    def test_one_direction_alone_has_no_balanced_accuracy(self):
        row = pair_scores([0.2, 0.2], [0.1, -0.1])[1]
        assert row.accuracy == 0.5
        assert math.isnan(row.balanced_accuracy)
        assert math.isnan(row.falling_f1)
        assert math.isnan(row.auroc)

    def test_an_empty_bin_is_unknown(self):
        row = pair_scores([], [])[0]
        assert row.n == 0
        assert all(math.isnan(x) for x in (row.coverage, row.accuracy, row.tie_share))

    def test_unknown_changes_cost_coverage_and_not_accuracy(self):
        row = pair_scores([0.2, 0.2, NAN], [0.1, NAN, 0.1])[1]
        assert (row.n, row.coverage, row.accuracy) == (1, 0.5, 1.0)

    def test_no_true_change_is_no_pair(self):
        assert pair_scores([0.0], [0.1], bins=[(0, 1)])[0].n == 0

    def test_bad_options_are_refused(self):
        with pytest.raises(OptionError, match=r"bin \(0\.3, 0\.1\)"):
            pair_scores([0.2], [0.1], bins=[(0.3, 0.1)])
        with pytest.raises(OptionError, match=r"tie must be .*got -1"):
            pair_scores([0.2], [0.1], tie=-1)
        with pytest.raises(OptionError, match="true_delta has 1 values and judged_delta 2"):
            pair_scores([0.2], [0.1, 0.2])


class TestMakePairs:
    TIMES = np.array([0.0, 0.5, 1.0, 2.0, 2.1])
    TRUTH = np.array([0.0, 0.2, 0.5, 0.4, 1.0])
    JUDGED = np.array([0.1, 0.1, NAN, 0.6, 0.9])

    def test_takes_every_pair_once_and_forward(self):
        pairs = make_pairs(self.TIMES, self.TRUTH, self.JUDGED)
        listed = list(zip(pairs.first.tolist(), pairs.second.tolist(), strict=True))
        assert listed == list(itertools.combinations(range(5), 2))
        np.testing.assert_allclose(pairs.true_delta, [self.TRUTH[j] - self.TRUTH[i] for i, j in listed])
        np.testing.assert_allclose(pairs.judged_delta, [self.JUDGED[j] - self.JUDGED[i] for i, j in listed])

    @given(st.integers(0, 12), st.integers(0, 25))
    def test_keeps_pairs_far_enough_apart(self, n, tenths):
        times = np.cumsum(np.arange(n) % 3 + 1) / 10
        pairs = make_pairs(times, times, times, min_gap_s=tenths / 10)
        expected = [
            (i, j)
            for i, j in itertools.combinations(range(n), 2)
            if times[j] - times[i] >= tenths / 10 - 1e-9
        ]
        assert list(zip(pairs.first.tolist(), pairs.second.tolist(), strict=True)) == expected

    def test_a_draw_is_seeded_and_without_repeats(self):
        times = np.arange(5000) / 10
        a, b, c = (make_pairs(times, times, times, max_pairs=300, seed=s) for s in (1, 1, 2))
        assert len(set(zip(a.first, a.second, strict=True))) == 300
        assert (a.first < a.second).all()
        assert (np.diff(a.first) >= 0).all()  # in the order of the full list
        np.testing.assert_array_equal(a.second, b.second)
        assert not np.array_equal(a.second, c.second)

    def test_a_draw_reaches_every_pair_evenly(self):
        times = np.arange(6.0)
        counts = np.zeros((6, 6))
        for seed in range(600):
            pairs = make_pairs(times, times, times, max_pairs=5, seed=seed)
            counts[pairs.first, pairs.second] += 1
        drawn = counts[np.triu_indices(6, 1)]
        assert drawn.sum() == 3000
        assert (np.abs(drawn - 200) < 60).all()  # 15 pairs, sd 11.5

    def test_asking_for_more_than_there_are_gives_all(self):
        assert len(make_pairs(self.TIMES, self.TRUTH, self.JUDGED, max_pairs=99).first) == 10

    def test_feed_pair_scores_with_unknown_points_counted(self):
        pairs = make_pairs(self.TIMES, self.TRUTH, self.JUDGED)
        small, medium, large = pair_scores(pairs.true_delta, pairs.judged_delta)
        assert small.n == 0
        # Judged 0.1 -> 0.1 and 0.1 -> 0.6 where the truth rises by 0.2; unknown where it falls by 0.1.
        assert (medium.n, medium.accuracy, medium.tie_share) == (2, 0.75, 0.5)
        assert medium.coverage == pytest.approx(2 / 3)
        assert (large.n, large.accuracy) == (4, 1.0)
        assert large.coverage == pytest.approx(4 / 7)

    def test_bad_options_are_refused(self):
        with pytest.raises(OptionError, match=r"max_pairs must be .*got 0"):
            make_pairs([0, 1], [0, 1], [0, 1], max_pairs=0)
        with pytest.raises(OptionError, match=r"min_gap_s must be .*got -1"):
            make_pairs([0, 1], [0, 1], [0, 1], min_gap_s=-1)
        with pytest.raises(OptionError, match="expected strictly increasing"):
            make_pairs([1, 0], [0, 1], [0, 1])
