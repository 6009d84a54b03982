"""Curves against annotated stages."""

from __future__ import annotations

import json
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stepscore.errors import OptionError
from stepscore.metrics import (
    boundary_f1,
    boundary_rise,
    plateau_error,
    stage_boundaries,
    stage_truth,
    trace_error,
    truth_error,
    truth_trace,
)
from stepscore.metrics.order import ccc

NAN = math.nan
# A second of rest, a reach, a grasp, two seconds of waiting, a place, a second of rest.
SPANS = [("reach", 1.0, 3.0), ("grasp", 3.0, 4.0), ("place", 6.0, 10.0)]
TIMES = np.linspace(0, 11, 111)


def naive_trace(spans, t, weights):
    value = 0.0
    for (_, start, end), weight in zip(spans, weights, strict=True):
        if t >= end:
            value += weight
        elif t >= start:
            value += weight * (t - start) / (end - start)
    return value


@st.composite
def stage_spans(draw):
    edges = sorted(draw(st.lists(st.integers(0, 100), min_size=2, max_size=10)))
    edges = edges[: len(edges) // 2 * 2]
    return [(f"s{i}", a / 10, b / 10) for i, (a, b) in enumerate(zip(edges[::2], edges[1::2], strict=True))]


class TestTruthTrace:
    def test_is_stage_plus_fraction_over_the_number_of_stages(self):
        assert truth_trace(SPANS, [2.0, 3.5, 8.0]) == pytest.approx([0.5 / 3, 1.5 / 3, 2.5 / 3])

    def test_is_zero_before_one_after_and_still_in_a_gap(self):
        assert truth_trace(SPANS, [0.0, 1.0, 4.0, 5.0, 6.0, 10.0, 99.0]) == pytest.approx(
            [0, 0, 2 / 3, 2 / 3, 2 / 3, 1, 1]
        )

    def test_weights_are_shares_of_the_task(self):
        # LeRobot's example: shares .1, .3, .6 and half of the second stage give .25.
        assert truth_trace(SPANS, [3.5], weights=[0.1, 0.3, 0.6]) == pytest.approx([0.25])

    @given(stage_spans(), st.lists(st.integers(-10, 110).map(lambda i: i / 10), min_size=1, max_size=20))
    def test_is_the_naive_one(self, spans, times):
        weights = np.arange(1, len(spans) + 1) / sum(range(1, len(spans) + 1))
        for given_weights, used in [(None, [1 / len(spans)] * len(spans)), (weights, weights)]:
            expected = [naive_trace(spans, t, used) for t in times]
            assert truth_trace(spans, times, given_weights) == pytest.approx(expected, abs=1e-9)

    @given(stage_spans())
    def test_rises_from_zero_to_exactly_one(self, spans):
        trace = truth_trace(spans, np.linspace(-1, 11, 200))
        assert (np.diff(trace) >= -1e-12).all()
        assert (trace[0], trace[-1], trace.max()) == (0.0, 1.0, 1.0)

    def test_ten_tenths_end_at_one(self):
        spans = [(str(k), float(k), k + 1.0) for k in range(10)]
        assert truth_trace(spans, [10.0], weights=[0.1] * 10)[0] == 1.0

    def test_a_stage_without_duration_is_passed_at_its_start(self):
        assert truth_trace([("reach", 0, 2), ("click", 2, 2)], [1.9, 2.0]) == pytest.approx([0.475, 1.0])

    def test_an_unknown_time_has_unknown_truth(self):
        np.testing.assert_array_equal(truth_trace([("click", 2, 2)], [NAN, 3.0]), [NAN, 1.0])

    @pytest.mark.parametrize(
        ("spans", "message"),
        [
            ([], "no stage spans"),
            (
                [("reach", 0, 2), ("grasp", 1.5, 3)],
                r"Stage 1 'grasp' starts at 1\.5 s, before stage 0 'reach'",
            ),
            ([("grasp", 2, 3), ("reach", 0, 1)], "Stage 1 'reach' starts at 0 s, before stage 0 'grasp'"),
            ([("reach", 2, 1)], "Stage 0 'reach' runs from 2 to 1 s"),
            ([("reach", 0, NAN)], "Stage 0 'reach' runs from 0 to nan s"),
        ],
    )
    def test_bad_spans_are_named(self, spans, message):
        with pytest.raises(OptionError, match=message):
            truth_trace(spans, [0.0])

    @pytest.mark.parametrize(
        ("weights", "message"),
        [([0.5, 0.5], "2 weights for 3 stages"), ([1, 2, 3], "sum to 6"), ([1.5, -0.5, 0], "at least 0")],
    )
    def test_bad_weights_are_refused(self, weights, message):
        with pytest.raises(OptionError, match=message):
            truth_trace(SPANS, [0.0], weights=weights)

    def test_follows_the_annotation_of_a_real_episode(self, shared_data):
        path = shared_data / "multiview" / "episode_001" / "annotated_keyframes.json"
        rows = json.loads(path.read_text())
        spans = [(r["anotation"], r["start_frame_id"] / 30, r["end_frame_id"] / 30) for r in rows]
        ends = [end for _, _, end in spans]
        assert truth_trace(spans, ends) == pytest.approx((np.arange(16) + 1) / 16)
        assert len(stage_boundaries(spans)) == 17


class TestTraceError:
    def test_a_faithful_curve_has_none(self):
        found = trace_error(TIMES, truth_trace(SPANS, TIMES), SPANS)
        assert (found.mae, found.rmse, found.coverage, found.n) == (0, 0, 1, 111)
        assert found.ccc == pytest.approx(1)

    def test_is_taken_over_known_points(self):
        truth = truth_trace(SPANS, TIMES)
        curve = np.clip(truth + np.where(TIMES < 5, 0.1, -0.3), 0, 1)
        curve[::2] = NAN
        found = trace_error(TIMES, curve, SPANS)
        distance = (curve - truth)[1::2]
        assert found.mae == pytest.approx(np.abs(distance).mean())
        assert found.rmse == pytest.approx(math.sqrt((distance**2).mean()))
        assert found.ccc == pytest.approx(ccc(curve[1::2], truth[1::2]))
        assert (found.n, found.coverage) == (55, 55 / 111)

    def test_follows_the_weights(self):
        weights = [0.1, 0.3, 0.6]
        curve = truth_trace(SPANS, TIMES, weights)
        assert trace_error(TIMES, curve, SPANS, weights).mae == 0
        assert trace_error(TIMES, curve, SPANS).mae > 0.1

    def test_is_unknown_where_nothing_is_known(self):
        assert math.isnan(trace_error([0, 1], [NAN, NAN], SPANS).mae)
        assert trace_error([0, 1], [NAN, NAN], SPANS).coverage == 0
        assert math.isnan(trace_error([], [], SPANS).coverage)


class TestBoundaryRise:
    def test_boundaries_shared_by_two_stages_stand_once(self):
        assert stage_boundaries(SPANS).tolist() == [1, 3, 4, 6, 10]

    def test_a_faithful_curve_rises_as_the_truth_does(self):
        found = boundary_rise(TIMES, truth_trace(SPANS, TIMES), SPANS)
        assert found.rise == pytest.approx(found.truth_rise)
        assert found.rise == pytest.approx([0.25 / 3, 0.75 / 3, 0.5 / 3, 0.125 / 3, 0.125 / 3])
        assert found.share == pytest.approx(found.truth_share)

    def test_a_judge_that_jumps_at_stage_ends_rises_there_alone(self):
        jumps = np.select([TIMES >= 10, TIMES >= 4, TIMES >= 3], [1.0, 2 / 3, 1 / 3], 0.0)
        found = boundary_rise(TIMES, jumps, SPANS)
        assert found.rise == pytest.approx([0, 1 / 3, 1 / 3, 0, 1 / 3])
        assert found.share == pytest.approx(1)
        assert found.truth_share < 0.7

    def test_a_judge_blind_to_stages_rises_as_time_passes(self):
        found = boundary_rise(TIMES, TIMES / 11, SPANS)
        assert found.rise == pytest.approx([1 / 11] * 5)
        assert found.share == pytest.approx(5 / 11)

    def test_overlapping_windows_count_once_in_the_share(self):
        spans = [("a", 1.0, 1.2), ("b", 1.2, 1.4)]
        times = np.linspace(0, 4, 41)
        assert boundary_rise(times, times / 4, spans).share == pytest.approx(1.4 / 4)

    def test_windows_are_cut_to_the_curve_and_values_interpolated(self):
        found = boundary_rise([0.0, 2.0], [0.0, 1.0], [("all", 0.25, 5.0)])
        assert found.rise[0] == pytest.approx(0.375)
        assert math.isnan(found.rise[1])

    def test_nothing_is_interpolated_across_unknown_points(self):
        curve = TIMES / 11
        curve[35] = NAN  # 3.5 s: the end of the second window and the start of the third
        found = boundary_rise(TIMES, curve, SPANS)
        assert np.isnan(found.rise).tolist() == [False, True, True, False, False]

    def test_has_no_share_where_the_curve_does_not_rise(self):
        assert math.isnan(boundary_rise(TIMES, np.full(111, 0.5), SPANS).share)
        assert np.isnan(boundary_rise([1.0], [0.5], SPANS).rise).all()
        with pytest.raises(OptionError, match=r"window_s must be .*got 0"):
            boundary_rise(TIMES, TIMES / 11, SPANS, window_s=0)


class TestPlateauError:
    def test_a_curve_that_waits_has_none(self):
        found = plateau_error(TIMES, truth_trace(SPANS, TIMES), SPANS)
        assert found.error == 0
        assert found.plateaus == pytest.approx(np.array([[0, 1], [4, 6], [10, 11]]))
        assert (found.n, found.coverage) == (40, 1)

    def test_a_curve_that_follows_time_moves_on(self):
        found = plateau_error(TIMES, TIMES / 11, SPANS)
        half_way = [
            np.arange(1, 11).mean() / 110,
            np.arange(1, 21).mean() / 110,
            np.arange(1, 11).mean() / 110,
        ]
        assert found.errors == pytest.approx(half_way)
        assert found.error == pytest.approx(np.average(half_way, weights=[10, 20, 10]))

    def test_a_fall_counts_like_a_rise(self):
        times = np.arange(6.0)
        falls = plateau_error(times, [0, 1, 1, 0.8, 0.8, 0.8], [("only", 0, 1)])
        assert falls.error == pytest.approx(0.6 / 4)

    def test_a_stage_of_weight_zero_is_flat(self):
        spans = [("reach", 0, 2), ("wait", 2, 4), ("place", 4, 6)]
        times = np.linspace(0, 6, 61)
        assert math.isnan(plateau_error(times, times / 6, spans).error)
        found = plateau_error(times, times / 6, spans, weights=[0.5, 0, 0.5])
        assert found.plateaus.tolist() == [[2, 4]]

    def test_without_plateaus_it_is_unknown(self):
        found = plateau_error([0, 1, 2], [0, 0.5, 1], [("all", 0, 2)])
        assert math.isnan(found.error)
        assert math.isnan(found.coverage)
        assert found.plateaus.shape == (0, 2)
        assert math.isnan(plateau_error([], [], SPANS).error)

    def test_unknown_points_and_starts_cost_coverage(self):
        curve = np.full(111, 0.5)
        curve[45] = NAN
        curve[100] = NAN  # the last plateau's start
        found = plateau_error(TIMES, curve, SPANS)
        assert (found.n, found.coverage) == (29, 29 / 40)
        assert np.isnan(found.errors).tolist() == [False, False, True]


class TestBoundaryF1:
    def test_matches_one_to_one_within_the_tolerance(self):
        found = boundary_f1([1.0, 5.0, 9.0], [1.3, 1.4, 5.6, 9.5])
        assert (found.matched, found.n_true, found.n_found) == (2, 3, 4)
        assert (found.precision, found.recall, found.f1) == (2 / 4, 2 / 3, 4 / 7)

    def test_a_distance_of_exactly_the_tolerance_matches_whatever_its_floats(self):
        assert boundary_f1([0.6], [1.1]).matched == 1

    def test_keeps_matches_that_the_least_total_distance_would_lose(self):
        from scipy.optimize import linear_sum_assignment

        true, found = [1.0, 2.0, 3.0], [0.0, 1.1, 2.1]  # one false boundary first, the last one missed
        distance = np.abs(np.subtract.outer(true, found))
        assert (distance[linear_sum_assignment(distance)] <= 0.5).sum() == 0
        assert boundary_f1(true, found).matched == 2

    @given(
        st.lists(st.integers(0, 40).map(lambda i: i / 10), max_size=7),
        st.lists(st.integers(0, 40).map(lambda i: i / 10), max_size=7),
    )
    def test_makes_as_many_matches_as_possible(self, true, found):
        from scipy.sparse import csr_array
        from scipy.sparse.csgraph import maximum_bipartite_matching

        result = boundary_f1(true, found)
        if not true or not found:
            assert result.matched == 0
            return
        close = np.abs(np.subtract.outer(true, found)) <= 0.5 + 1e-9
        best = (maximum_bipartite_matching(csr_array(close.astype(int)), perm_type="column") >= 0).sum()
        assert result.matched == best

    def test_is_unknown_without_boundaries_and_zero_when_all_are_missed(self):
        assert math.isnan(boundary_f1([], []).f1)
        missed = boundary_f1([1.0, NAN], [NAN])
        assert (missed.f1, missed.recall, missed.n_true) == (0, 0, 1)
        assert math.isnan(missed.precision)

    def test_refuses_a_negative_tolerance(self):
        with pytest.raises(OptionError, match=r"tolerance_s must be .*got -1"):
            boundary_f1([1], [1], tolerance_s=-1)


def test_times_must_increase():
    with pytest.raises(OptionError, match=r"times\[2\] is 1, after 1"):
        trace_error([0, 1, 1], [0, 0, 0], SPANS)
    with pytest.raises(OptionError, match=r"times\[1\] is nan"):
        trace_error([0, NAN, 1], [0, 0, 0], SPANS)
    with pytest.raises(OptionError, match="times has 2 values and progress 1"):
        trace_error([0, 1], [0], SPANS)


class TestStageTruth:
    PROCEDURE = ("reach", "grasp", "place")

    @given(stage_spans(), st.lists(st.integers(-10, 110).map(lambda i: i / 10), min_size=1, max_size=20))
    def test_is_the_truth_trace_where_every_stage_was_done_once_and_the_task_succeeded(self, spans, times):
        names = [name for name, *_ in spans]
        assert stage_truth(spans, names, times, done=True) == pytest.approx(
            truth_trace(spans, times), abs=1e-9
        )

    def test_divides_by_the_stages_of_the_procedure_not_by_those_of_the_episode(self):
        only_reach = [("reach", 0.0, 2.0), ("grasp", 2.0, 4.0)]
        found = stage_truth(only_reach, self.PROCEDURE, [1.0, 2.0], done=False)
        assert found == pytest.approx([1 / 6, 1 / 3])

    def test_a_failures_unfinished_stage_is_unknown(self):
        spans = [("reach", 0.0, 2.0), ("grasp", 2.0, 4.0)]
        found = stage_truth(spans, self.PROCEDURE, [1.9, 2.0, 2.1, 4.0, 9.0], done=False)
        assert found[:2] == pytest.approx([0.95 / 3, 1 / 3])
        assert np.isnan(found[2:]).all()

    def test_a_failure_that_never_left_its_first_stage_has_no_truth_but_its_start(self):
        found = stage_truth([("reach", 0.0, 5.0)], self.PROCEDURE, [0.0, 1.0, 5.0], done=False)
        assert found[0] == 0.0
        assert np.isnan(found[1:]).all()

    def test_an_undone_stage_falls_and_its_own_height_is_unknown(self):
        spans = [("reach", 0, 1), ("grasp", 1, 2), ("place", 2, 3), ("grasp", 3, 4), ("place", 4, 5)]
        found = stage_truth(spans, self.PROCEDURE, [1.5, 2.5, 3.0, 3.5, 4.5, 5.0], done=True)
        np.testing.assert_allclose(found, [1.5 / 3, NAN, 1 / 3, 1.5 / 3, 2.5 / 3, 1.0])

    def test_a_stage_with_a_pause_rises_with_the_time_worked(self):
        spans = [("reach", 0, 1), ("reach", 3, 4), ("grasp", 4, 5), ("place", 5, 6)]
        found = stage_truth(spans, self.PROCEDURE, [0.5, 2.0, 3.5, 4.0], done=True)
        assert found == pytest.approx([0.25 / 3, 0.5 / 3, 0.75 / 3, 1 / 3])

    def test_a_skipped_stage_is_passed_at_once(self):
        spans = [("reach", 0, 1), ("place", 1, 2)]
        assert stage_truth(spans, self.PROCEDURE, [0.5, 1.0, 1.5, 2.0], done=True) == pytest.approx(
            [0.5 / 3, 2 / 3, 2.5 / 3, 1.0]
        )

    def test_what_is_before_a_later_stage_is_unknown(self):
        found = stage_truth([("grasp", 1, 2), ("place", 2, 3)], self.PROCEDURE, [0.5, 1.5], done=True)
        assert np.isnan(found[0])
        assert found[1] == pytest.approx(1.5 / 3)

    def test_a_stage_outside_the_procedure_is_unknown_and_so_is_the_one_before_it(self):
        spans = [("reach", 0, 1), ("recover", 1, 2), ("grasp", 2, 3), ("place", 3, 4)]
        found = stage_truth(spans, self.PROCEDURE, [0.5, 1.5, 2.5], done=True)
        assert np.isnan(found[:2]).all()
        assert found[2] == pytest.approx(1.5 / 3)

    def test_weights_are_shares_of_the_task(self):
        spans = [("reach", 0, 1), ("grasp", 1, 2), ("place", 2, 3)]
        assert stage_truth(spans, self.PROCEDURE, [1.5], done=True, weights=[0.1, 0.3, 0.6]) == pytest.approx(
            [0.25]
        )

    def test_an_empty_procedure_is_refused(self):
        with pytest.raises(OptionError, match="no stages"):
            stage_truth([("reach", 0, 1)], [], [0.5], done=True)


class TestTruthError:
    def test_only_points_known_on_both_sides_enter(self):
        found = truth_error([0.1, 0.5, NAN, 0.9], [0.2, NAN, 0.5, 0.9])
        assert (found.n, found.coverage) == (2, 0.5)
        assert found.mae == pytest.approx(0.05)

    def test_nothing_in_common_is_unknown(self):
        assert math.isnan(truth_error([0.1, NAN], [NAN, 0.5]).mae)
