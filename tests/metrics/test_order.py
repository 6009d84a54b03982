"""Rank agreement, agreement of level, and resolution."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
import scipy.stats
from hypothesis import assume, given
from hypothesis import strategies as st

from stepscore.errors import OptionError
from stepscore.metrics.order import average_ranks, ccc, epr, kendall_tau, voc
from stepscore.metrics.validation import known_share

NAN = math.nan
# Rewards of 15 prefixes of one Open X-Embodiment episode, published with TOPReward's prefix cache.
UNCACHED = [-18.75, -17.125, -11.0, -12.0, -11.625, -12.125, -10.75, -11.25, -9.5, -9.0, -9.25, -8.75, -8.0]
UNCACHED += [-7.625, -6.375]
CACHED = [-18.75, -17.125, -12.125, -12.875, -12.25, -12.5, -11.5, -12.125, -9.625, -9.75, -9.75, -9.875]
CACHED += [-9.0, -8.625, -6.25]

coarse = st.integers(0, 6).map(lambda i: i / 10)
paired_lists = st.lists(st.tuples(coarse, coarse), min_size=2, max_size=25)


def naive_tau(a, b, variant):
    concordant = discordant = tied_a = tied_b = 0
    for (x1, y1), (x2, y2) in itertools.combinations(zip(a, b, strict=True), 2):
        product = np.sign(x1 - x2) * np.sign(y1 - y2)
        concordant += product > 0
        discordant += product < 0
        tied_a += x1 == x2
        tied_b += y1 == y2
    pairs = len(a) * (len(a) - 1) / 2
    if variant == "a":
        return (concordant - discordant) / pairs
    return (concordant - discordant) / math.sqrt((pairs - tied_a) * (pairs - tied_b))


def naive_ranks(values, tolerance):
    ranks = []
    for v in values:
        below = sum(v - w > tolerance + 1e-12 for w in values)
        tied = sum(abs(v - w) <= tolerance + 1e-12 for w in values)
        ranks.append(0.5 + below + tied / 2)
    return ranks


def published_epr(percents, tau=0.5, k_max=1000):
    """ProcVLM's definition, step by step."""
    for k in range(k_max, 0, -1):
        delta = 1.0 / k
        if delta * len({math.floor(p / 100 / delta) for p in percents}) >= tau:
            return -math.log2(delta)
    return None


class TestVOC:
    def test_gives_the_published_values(self):
        assert voc(UNCACHED) == pytest.approx(0.942857, abs=5e-7)
        assert voc(CACHED) == pytest.approx(0.930234, abs=5e-7)

    @given(paired_lists)
    def test_is_spearman_with_ties_averaged(self, points):
        values, order = zip(*points, strict=True)
        assume(len(set(values)) > 1 and len(set(order)) > 1)
        assert voc(values, order) == pytest.approx(scipy.stats.spearmanr(values, order).statistic, abs=1e-12)

    @pytest.mark.parametrize("values", [[], [0.3], [0.3, NAN], [0.3] * 9, [NAN, NAN]])
    def test_is_unknown_without_two_different_values(self, values):
        assert math.isnan(voc(values))

    def test_is_unknown_where_the_order_is_constant(self):
        assert math.isnan(voc([0.1, 0.2], [3.0, 3.0]))

    def test_drops_unknown_points_and_known_share_counts_them(self):
        values = [0.1, NAN, 0.2, 0.15, NAN]
        assert voc(values) == voc([0.1, 0.2, 0.15], [0, 2, 3]) == 0.5
        assert known_share(values) == 0.6

    def test_ranks_infinite_log_probabilities(self):
        assert voc([-math.inf, -3.0, -1.0]) == 1.0
        assert voc([-math.inf, -math.inf, -1.0], tolerance=0.5) == voc([0, 0, 1])

    @pytest.mark.parametrize("plateau", [0.8, 0.5, 0.3])
    def test_does_not_see_that_a_failure_stops_short(self, plateau):
        time = np.linspace(0, 1, 50)
        rises_and_stays = plateau * (1 - np.exp(-6 * time))
        assert voc(rises_and_stays) == 1.0
        assert voc(np.minimum(time, plateau)) > 0.8
        assert ccc(np.minimum(time, 0.3), time) < ccc(np.minimum(time, 0.8), time) < 1

    def test_negated_values_give_the_negated_correlation(self):
        values = np.random.default_rng(0).random(40)
        for tolerance in (0.0, 0.05, 0.3):
            assert voc(-values, tolerance=tolerance) == pytest.approx(-voc(values, tolerance=tolerance))


class TestTolerance:
    def test_drift_of_a_frozen_video_is_no_order(self):
        drift = 0.40 + np.linspace(0, 0.04, 30)
        assert voc(drift) == 1.0
        assert math.isnan(voc(drift, tolerance=0.05))

    def test_values_exactly_the_tolerance_apart_are_tied_whatever_their_floats(self):
        for low, high in [(0.7, 0.8), (0.1, 0.2), (0.2, 0.3), (0.9, 1.0)]:
            assert math.isnan(voc([low, high], tolerance=0.1))
        assert voc([0.7, 0.8], tolerance=0.0999) == 1.0

    def test_a_real_rise_is_kept(self):
        rise = np.linspace(0, 1, 30)
        assert voc(rise, tolerance=0.05) > 0.99

    def test_a_slow_drift_does_not_chain_its_ends_together(self):
        assert voc(np.arange(100) * 0.01, tolerance=0.05) > 0.99

    def test_compares_pair_by_pair_where_ties_are_not_transitive(self):
        assert average_ranks([0.0, 0.04, 0.08], tolerance=0.05).tolist() == [1.5, 2.0, 2.5]

    @given(st.lists(st.integers(0, 40).map(lambda i: i / 20), min_size=1, max_size=20), st.integers(0, 6))
    def test_ranks_are_the_naive_ones(self, values, steps):
        tolerance = steps / 20
        assert average_ranks(values, tolerance=tolerance) == pytest.approx(naive_ranks(values, tolerance))

    @given(st.lists(coarse, min_size=1, max_size=20))
    def test_without_tolerance_ranks_are_scipys(self, values):
        assert average_ranks(values).tolist() == scipy.stats.rankdata(values).tolist()

    def test_unknown_values_have_no_rank(self):
        np.testing.assert_array_equal(average_ranks([0.2, NAN, 0.1]), [2, NAN, 1])

    @pytest.mark.parametrize("tolerance", [-0.1, NAN, math.inf])
    def test_a_senseless_tolerance_is_refused(self, tolerance):
        with pytest.raises(OptionError, match="tolerance must be"):
            voc([0.1, 0.2], tolerance=tolerance)


class TestKendall:
    @given(paired_lists)
    def test_tau_a_counts_pairs(self, points):
        a, b = zip(*points, strict=True)
        assert kendall_tau(a, b, "a") == pytest.approx(naive_tau(a, b, "a"), abs=1e-12)

    @given(paired_lists)
    def test_tau_b_is_scipys(self, points):
        a, b = zip(*points, strict=True)
        expected = scipy.stats.kendalltau(a, b).statistic
        assert kendall_tau(a, b) == pytest.approx(expected, abs=1e-12, nan_ok=True)

    def test_tau_b_is_the_naive_one_on_long_series(self):
        rng = np.random.default_rng(3)
        a, b = rng.integers(0, 50, 300), rng.random(300)
        assert kendall_tau(a, b, "b") == pytest.approx(naive_tau(a, b, "b"), abs=1e-12)

    def test_ties_cost_in_tau_a_and_not_in_tau_b(self):
        truth, coarse_curve = [0, 0, 1, 1], [0.2, 0.2, 0.9, 0.9]
        assert kendall_tau(truth, coarse_curve, "b") == 1.0
        assert kendall_tau(truth, coarse_curve, "a") == pytest.approx(4 / 6)

    def test_a_constant_has_no_tau_b_and_a_tau_a_of_nothing(self):
        assert math.isnan(kendall_tau([1, 2, 3], [5, 5, 5], "b"))
        assert kendall_tau([1, 2, 3], [5, 5, 5], "a") == 0.0

    def test_is_unknown_below_two_known_points(self):
        assert math.isnan(kendall_tau([1, NAN], [1, 2], "a"))

    def test_another_variant_is_refused(self):
        with pytest.raises(OptionError, match="must be 'a' or 'b'"):
            kendall_tau([1, 2], [1, 2], "c")  # type: ignore[arg-type]


class TestCCC:
    @given(paired_lists)
    def test_is_pearson_shrunk_by_difference_of_level_and_scale(self, points):
        a, b = (np.array(x) for x in zip(*points, strict=True))
        assume(np.ptp(a) > 0 and np.ptp(b) > 0)
        pearson = np.corrcoef(a, b)[0, 1]
        expected = 2 * pearson * a.std() * b.std() / (a.var() + b.var() + (a.mean() - b.mean()) ** 2)
        assert ccc(a, b) == pytest.approx(expected, abs=1e-9)
        assert ccc(b, a) == pytest.approx(ccc(a, b))

    def test_is_one_for_equal_series_alone(self):
        truth = np.linspace(0, 1, 20)
        assert ccc(truth, truth) == pytest.approx(1.0)
        assert ccc(truth, truth * 0.5) < 0.7
        assert ccc(truth, truth + 0.3) < 0.7

    def test_a_constant_curve_has_no_concordance_with_a_rising_truth(self):
        assert ccc([0.1] * 10, np.linspace(0, 1, 10)) == 0.0

    def test_is_unknown_where_undefined(self):
        assert math.isnan(ccc([0.1] * 10, [0.1] * 10))
        assert math.isnan(ccc([0.1, NAN], [0.1, 0.2]))
        assert math.isnan(ccc([-math.inf, 0.1], [0.0, 0.2]))


class TestEPR:
    @given(st.lists(st.integers(0, 1000).map(lambda i: i / 10), min_size=2, max_size=40))
    def test_is_the_published_one(self, percents):
        assert epr(np.array(percents) / 100) == pytest.approx(published_epr(percents), abs=1e-12)

    def test_few_round_answers_have_low_resolution(self):
        time = np.linspace(0, 1, 200)
        assert epr(np.round(time * 4) / 4) < epr(np.round(time * 20) / 20) < epr(time)

    def test_floor_and_ceiling_are_as_documented(self):
        assert epr([0.4] * 50) == 1.0
        assert epr(np.linspace(0, 1, 50)) <= math.log2(50 / 0.5)
        assert epr(np.linspace(0, 1, 5000)) == math.log2(1000)

    def test_unknown_points_are_dropped(self):
        assert epr([0.1, NAN, 0.6, 0.9]) == epr([0.1, 0.6, 0.9])
        assert math.isnan(epr([0.1, NAN]))

    def test_refuses_what_is_not_progress(self):
        with pytest.raises(OptionError, match=r"spans 0\.2\.\.1\.4"):
            epr([0.2, 1.4])
        with pytest.raises(OptionError, match="threshold"):
            epr([0.2, 0.4], threshold=0)
        with pytest.raises(OptionError, match="finest"):
            epr([0.2, 0.4], finest=0)


class TestInput:
    def test_series_of_different_length_are_refused(self):
        with pytest.raises(OptionError, match="a has 2 values and b 3"):
            ccc([1, 2], [1, 2, 3])

    def test_a_matrix_is_refused(self):
        with pytest.raises(OptionError, match="one dimension"):
            voc(np.zeros((2, 3)))

    def test_text_is_refused(self):
        with pytest.raises(OptionError, match="values must be numbers"):
            voc(["high", "low"])

    def test_none_is_unknown(self):
        assert voc([0.1, None, 0.3]) == 1.0  # type: ignore[arg-type]

    def test_known_share_asks_every_series(self):
        assert known_share([1, NAN, 3, 4], [1, 2, NAN, 4]) == 0.5
        assert math.isnan(known_share([]))
        with pytest.raises(OptionError, match="series 1 3"):
            known_share([1, 2], [1, 2, 3])
