"""The robust revision: of time rather than samples, unmoved by small noise, and hiding nothing."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.tables.opd_robust import (
    METRICS,
    found,
    movement,
    rank_agreement,
    real_curves,
    stagnation_under_noise,
    synthetic_curves,
)
from stepscore.errors import OptionError
from stepscore.metrics.opd import compute_opd, opd_prefixes
from stepscore.metrics.opd.robust import curve_profile

TIMED = ("PPL", "CRA", "STR")
NEARLY: dict[str, Any] = {"abs": 1e-9, "nan_ok": True}
CURVES = st.lists(st.integers(0, 100).map(lambda k: k / 100), min_size=2, max_size=25)


@st.composite
def timed_curves(draw):
    curve = draw(CURVES)
    gaps = draw(st.lists(st.floats(0.1, 5.0), min_size=len(curve), max_size=len(curve)))
    return np.array(curve), np.cumsum(gaps)


# The obvious implementation: a mean is an integral over a fine net, everything else a loop.


def mean_between(curve, times, start, end):
    start, end = max(start, times[0]), min(end, times[-1])
    inside = times[(times > start) & (times < end)]
    knots = np.concatenate([[start], inside, [end]])
    return np.trapezoid(np.interp(knots, times, curve), knots) / (end - start)


def naive_cut(curve, probability=None, done_at=0.99):
    """The last sample that CRA and STR look at: where the task was done for the last time, if it stayed done."""
    values, enter, leave = (
        (curve, done_at, done_at - 0.05) if probability is None else (probability, 0.5, 0.4)
    )
    start = None
    for i, value in enumerate(values):
        if value < leave:
            start = None
        elif value >= enter and start is None:
            start = i
    return len(curve) - 1 if start is None else start


def naive_robust(curve, times, **done):
    cut = naive_cut(curve, **done) + 1
    nothing = {"PPL": math.nan, "CRA": math.nan, "STR": math.nan}
    until_done = naive_uncut(curve[:cut], times[:cut]) if cut > 1 else nothing
    return {**until_done, "PPL": naive_uncut(curve, times)["PPL"]}


def naive_uncut(curve, times):
    length = times[-1] - times[0]
    at = [times[0] + length * j / 100 for j in range(101)]
    level = [mean_between(curve, times, x - 0.02 * length, x + 0.02 * length) for x in at]
    lazy, fall = level[0] - 0.03, 0.0
    for q in level:
        moved = min(max(lazy, q - 0.03), q + 0.03)
        fall += max(0.0, lazy - moved)
        lazy = moved
    regret, peak = 0.0, -1.0
    for k in range(100):
        mean = mean_between(curve, times, at[k], at[k + 1])
        sustained = mean_between(curve, times, at[k + 1] - 0.1 * length, at[k + 1])
        peak = max(peak, min(mean, sustained + 0.04))
        regret += max(0.0, peak - mean - 0.01)
    still = 0.0
    for k in range(100):
        for width, fully in ((4, 0.0), (8, 0.01)):
            starts = range(max(0, k - width + 1), min(k, 100 - width) + 1)
            ranges = [max(level[s : s + width + 1]) - min(level[s : s + width + 1]) for s in starts]
            still += min(1.0, max(0.0, (0.02 - min(ranges)) / (0.02 - fully))) / 2
    final = level[-1]
    way = final + 2 * fall
    return {"PPL": final**2 / way if way > 0 else 0.0, "CRA": regret / 100, "STR": still / 100}


@given(timed_curves())
def test_it_equals_the_naive_implementation(timed):
    curve, times = timed
    ours = compute_opd(curve, "robust", times)
    assert {name: ours[name] for name in TIMED} == pytest.approx(naive_robust(curve, times), **NEARLY)


@given(timed_curves(), st.sampled_from([0.2, 0.6, 0.95, 1.0]))
def test_it_equals_the_naive_implementation_wherever_the_task_counts_as_done(timed, done_at):
    curve, times = timed
    ours = compute_opd(curve, "robust", times, done_at=done_at)
    naive = naive_robust(curve, times, done_at=done_at)
    assert {name: ours[name] for name in TIMED} == pytest.approx(naive, **NEARLY)


@given(timed_curves(), st.data())
def test_it_equals_the_naive_implementation_with_a_success_probability(timed, data):
    curve, times = timed
    levels = st.sampled_from([0.1, 0.39, 0.4, 0.45, 0.5, 0.9])
    probability = np.array(data.draw(st.lists(levels, min_size=len(curve), max_size=len(curve))))
    ours = compute_opd(curve, "robust", times, success_probability=probability)
    naive = naive_robust(curve, times, probability=probability)
    assert {name: ours[name] for name in TIMED} == pytest.approx(naive, **NEARLY)
    assert ours["MC100"] == (curve.max() >= 0.75 and probability.max() >= 0.5)
    assert ours["MC"] == pytest.approx(np.mean([ours[f"MC{q}"] for q in (25, 50, 75, 100)]))


# What it is defined on


@given(timed_curves(), st.floats(0.01, 100.0), st.floats(-50.0, 50.0))
def test_the_unit_and_the_origin_of_time_do_not_matter(timed, unit, origin):
    curve, times = timed
    expected = compute_opd(curve, "robust", times)
    moved_clock = compute_opd(curve, "robust", origin + unit * times)
    assert moved_clock == pytest.approx(expected, abs=1e-7, nan_ok=True)


@given(timed_curves())
def test_samples_that_add_nothing_change_nothing(timed):
    curve, times = timed
    denser = np.sort(np.concatenate([times, (times[1:] + times[:-1]) / 2]))
    filled = np.interp(denser, times, curve)
    # Done is seen at samples. Between two samples that are not both 1 there is no 1, so that no new one is done.
    assert compute_opd(filled, "robust", denser, done_at=1.0) == pytest.approx(
        compute_opd(curve, "robust", times, done_at=1.0), **NEARLY
    )
    if naive_cut(curve) == len(curve) - 1 and naive_cut(filled) == len(filled) - 1:
        assert compute_opd(filled, "robust", denser) == pytest.approx(
            compute_opd(curve, "robust", times), **NEARLY
        )


@given(CURVES)
def test_without_times_the_samples_are_evenly_spaced(curve):
    evenly = np.linspace(3.0, 8.0, len(curve))
    expected = compute_opd(curve, "robust", evenly)
    assert compute_opd(curve, "robust") == pytest.approx(expected, abs=1e-7, nan_ok=True)


def test_nothing_is_prepended():
    found_values = compute_opd([0.5, 0.5, 0.5], "robust", [0.0, 1.0, 2.0])
    assert {name: found_values[name] for name in TIMED} == pytest.approx({"PPL": 0.5, "CRA": 0.0, "STR": 1.0})
    assert compute_opd([0.9, 0.8], "robust", [0.0, 1.0])["MP"] == 0.9


def test_one_sample_has_no_duration():
    single = compute_opd([0.6], "robust", [4.0])
    assert (single["MP"], single["MC"], single["coverage"]) == (0.6, 0.5, 1.0)
    assert all(math.isnan(single[name]) for name in TIMED)


@pytest.mark.parametrize("wrong", [-0.01, 1.2])
def test_progress_outside_the_range_is_refused_by_name(wrong):
    with pytest.raises(OptionError, match=f"{wrong:g} at sample 1 .*v1.0"):
        compute_opd([0.5, wrong, 0.6], "robust")
    with pytest.raises(OptionError, match="sample 0"):
        curve_profile([wrong, 0.6])


def test_a_steady_rise_has_no_regret_no_pause_and_all_of_its_path():
    values = compute_opd(np.linspace(0, 1, 50), "robust")
    assert (values["CRA"], values["STR"]) == (0.0, 0.0)
    assert values["PPL"] == pytest.approx(0.99)  # the last 2 % of the time average to .99


def test_reaching_the_goal_in_the_last_frame_alone_is_reaching_it():
    assert compute_opd([0.0, 0.2, 0.4, 0.6, 0.8, 1.0], "robust")["MC"] == 1.0


def test_a_fall_counts_beyond_the_dead_band_and_small_ones_do_not():
    flat, rise = np.full(200, 0.6), np.linspace(0, 0.6, 200)
    small = np.concatenate([rise, flat, flat - 0.05, flat])
    large = np.concatenate([rise, flat, flat - 0.26, flat])
    assert compute_opd(small, "robust")["PPL"] == pytest.approx(0.6)
    assert compute_opd(large, "robust")["PPL"] == pytest.approx(0.36 / (0.6 + 2 * 0.2), abs=1e-3)


def test_a_spike_of_one_sample_does_not_make_the_rest_of_the_rollout_regret():
    curve = np.full(100, 0.3)
    curve[20] = 0.9
    assert compute_opd(curve, "v1.0")["CRA"] > 0.4
    assert compute_opd(curve, "robust")["CRA"] < 0.1


def test_prefixes_of_a_curve_longer_than_a_chunk_are_right_on_both_sides_of_it():
    curve = np.clip(np.random.default_rng(0).normal(0.001, 0.02, 1100).cumsum(), 0, 1)
    prefixes = opd_prefixes(curve, "robust")
    for end in (1, 2, 1023, 1024, 1025, 1026, 1099):
        whole = compute_opd(curve[: end + 1], "robust")
        assert {name: values[end] for name, values in prefixes.items()} == pytest.approx(whole, abs=1e-12)


@pytest.mark.parametrize("curve", [[0.5], [0.5, math.nan], [[0.1, 0.2]]])
def test_a_profile_needs_a_known_curve(curve):
    with pytest.raises(OptionError, match="two or more known samples"):
        curve_profile(curve)


def test_a_profile_shows_where_the_metrics_come_from():
    curve = np.concatenate([np.linspace(0, 0.8, 50), np.full(50, 0.5)])
    seen = curve_profile(curve)
    values = compute_opd(curve, "robust")
    assert seen.drawdown.mean() == values["CRA"]
    assert seen.stillness.mean() == values["STR"]
    assert seen.stillness[60:95].min() == pytest.approx(1.0)
    assert seen.drawdown[55:].min() > 0.25


# What it must do for a user, on recorded curves and on synthetic ones


def moved(curves):
    old, new = movement(curves, "v1.0", seeds=4), movement(curves, "robust", seeds=4)
    return {m: {kind: new[m][kind] / old[m][kind] for kind in ("thinned", "noise")} for m in METRICS}


def test_on_recorded_curves_sampling_and_noise_move_it_far_less_than_v10(shared_data):
    ratio = moved(real_curves(shared_data))
    assert ratio["PPL"]["thinned"] <= 1 / 3
    assert max(ratio["CRA"]["thinned"], ratio["STR"]["thinned"]) <= 0.6
    assert max(ratio["MP"]["thinned"], ratio["MC"]["thinned"]) <= 1.0
    assert max(ratio["PPL"]["noise"], ratio["STR"]["noise"]) <= 0.5


def test_on_recorded_curves_it_ranks_as_v10_does(shared_data):
    curves = real_curves(shared_data)
    assert len(curves) == 12
    assert min(rank_agreement(curves).values()) >= 0.8


def test_on_synthetic_curves_sampling_and_noise_move_it_far_less_than_v10():
    ratio = moved(synthetic_curves(40))
    assert ratio["PPL"]["thinned"] <= 0.45
    assert max(ratio["CRA"]["thinned"], ratio["STR"]["thinned"]) <= 0.65
    assert max(ratio["MP"]["thinned"], ratio["MC"]["thinned"]) <= 1.0
    assert max(ratio["PPL"]["noise"], ratio["STR"]["noise"]) <= 0.5


@pytest.mark.parametrize("thinned", [False, True])
@pytest.mark.parametrize("noise", [0.0, 0.01])
@pytest.mark.parametrize("metric", ["CRA", "STR"])
def test_planted_drops_and_stalls_are_found(metric, noise, thinned):
    assert found(metric, 200, noise=noise, thinned=thinned, count=100) >= 0.95


@pytest.mark.parametrize("metric", ["CRA", "STR"])
def test_planted_drops_and_stalls_are_found_in_sparse_curves(metric):
    assert found(metric, 50, noise=0.0, thinned=True, count=100) >= 0.95


@pytest.mark.parametrize("steps", [16, 64])
@pytest.mark.parametrize("noise", [0.005, 0.01, 0.02])
def test_under_judge_noise_its_str_ranks_traces_as_without_noise_better_than_that_of_v10(steps, noise):
    robust = stagnation_under_noise("robust", steps, noise)
    assert robust > stagnation_under_noise("v1.0", steps, noise) + 0.1
    assert robust > (0.85 if noise <= 0.01 else 0.45)
