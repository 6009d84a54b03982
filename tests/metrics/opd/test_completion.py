"""When a task counts as done, and what that changes in the robust revision."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stepscore.errors import OptionError
from stepscore.metrics.opd import compute_opd, opd_prefixes
from stepscore.metrics.opd.completion import find_completion, fit_done_at
from stepscore.metrics.success import balanced_accuracy

LEVELS = st.lists(st.sampled_from([0.0, 0.3, 0.93, 0.94, 0.96, 0.98, 0.99, 1.0]), min_size=1, max_size=30)
RISE = np.linspace(0, 1, 40)
WITH_PAUSE = np.concatenate([np.linspace(0, 0.5, 20), np.full(20, 0.5), np.linspace(0.5, 1, 20)])
CUT_METRICS = ("CRA", "STR")


def naive_states(values: list[float], enter: float, leave: float) -> list[bool]:
    done, states = False, []
    for value in values:
        done = value >= enter or (done and value >= leave)
        states.append(done)
    return states


@given(LEVELS)
def test_done_holds_until_progress_falls_by_more_than_five_hundredths(values):
    found = find_completion(np.array(values))
    states = naive_states(values, 0.99, 0.99 - 0.05)
    for t, done in enumerate(states):
        start = t
        while done and start and states[start - 1]:
            start -= 1
        assert found.end[t] == start
        assert found.reached[t] == (max(values[: t + 1]) >= 0.99)


@pytest.mark.parametrize("curve", [RISE, WITH_PAUSE], ids=["rise", "pause"])
@pytest.mark.parametrize("extra", [1, 7, 200])
def test_how_long_the_video_runs_on_after_the_task_is_done_changes_neither_cra_nor_str(curve, extra):
    longer = np.concatenate([curve, np.full(extra, 1.0)])
    short, long = compute_opd(curve, "robust"), compute_opd(longer, "robust")
    assert [long[name] for name in CUT_METRICS] == [short[name] for name in CUT_METRICS]
    assert compute_opd(longer, "v1.0")["STR"] > compute_opd(curve, "v1.0")["STR"]


def test_wavering_within_five_hundredths_after_the_end_is_not_regret():
    wavering = np.concatenate([RISE, np.tile([1.0, 0.95], 50)])
    assert compute_opd(wavering, "robust")["CRA"] == compute_opd(RISE, "robust")["CRA"]


def test_work_that_is_undone_at_the_end_counts_in_full():
    undone = np.concatenate([RISE, np.full(20, 1.0), np.linspace(1, 0.2, 20)])
    values = compute_opd(undone, "robust")
    never = compute_opd(undone * 0.98, "robust")  # does not reach .99, so it is measured uncut
    assert values["CRA"] == pytest.approx(never["CRA"], abs=0.01)
    assert values["CRA"] > 0.05
    assert values["MC100"] == 1.0  # reached; keeping it is success, PPL and CRA
    assert never["MC100"] == 0.0


def test_of_several_done_stretches_the_last_one_counts():
    dip = np.concatenate([RISE, np.full(10, 1.0), np.linspace(1, 0.5, 10), np.linspace(0.5, 1, 10)])
    longer = np.concatenate([dip, np.full(100, 1.0)])
    assert find_completion(longer).end[-1] == len(dip) - 1
    assert compute_opd(longer, "robust")["CRA"] == compute_opd(dip, "robust")["CRA"] > 0


def test_done_from_the_first_sample_on_leaves_nothing_to_measure():
    values = compute_opd([1.0, 1.0, 0.97], "robust")
    assert all(math.isnan(values[name]) for name in CUT_METRICS)
    assert values["PPL"] > 0.9
    assert (values["MC100"], values["MP"]) == (1.0, 1.0)


@given(st.lists(st.floats(0, 0.98), min_size=2, max_size=30))
def test_a_curve_that_never_reaches_the_threshold_does_not_depend_on_it(values):
    assert compute_opd(values, "robust") == compute_opd(values, "robust", done_at=1.0)


def test_a_calibrated_threshold_replaces_ninety_nine_hundredths():
    curve = np.concatenate([np.linspace(0, 0.9, 30), np.full(30, 0.9)])
    as_it_is, done = compute_opd(curve, "robust"), compute_opd(curve, "robust", done_at=0.88)
    assert (as_it_is["MC100"], done["MC100"]) == (0.0, 1.0)
    assert as_it_is["STR"] > 0.4
    assert done["STR"] == 0.0


def test_the_success_probability_decides_where_there_is_one():
    curve = np.concatenate([np.linspace(0, 0.9, 30), np.full(30, 0.9)])
    sure = np.where(np.arange(60) >= 29, 0.8, 0.1)
    unsure = np.full(60, 0.49)
    assert compute_opd(curve, "robust", success_probability=sure)["MC100"] == 1.0
    assert compute_opd(curve, "robust", success_probability=sure)["STR"] == 0.0
    full = compute_opd(np.concatenate([RISE, np.full(20, 1.0)]), "robust", success_probability=unsure)
    assert full["MC100"] == 0.0
    assert full["STR"] > 0.2


def test_a_probability_between_four_and_five_tenths_keeps_the_state_before_it():
    probability = np.array([0.1, 0.6, 0.45, 0.39, 0.45, 0.5, 0.41, 0.4])
    assert find_completion(np.linspace(0.5, 0.9, 8), probability).end.tolist() == [0, 1, 1, 3, 4, 5, 5, 5]


def test_a_success_probability_without_three_quarters_of_progress_is_no_mc100():
    values = compute_opd([0.1, 0.4, 0.7], "robust", success_probability=[0.1, 0.2, 0.9])
    assert (values["MC75"], values["MC100"], values["MC"]) == (0.0, 0.0, 0.5)


def test_from_the_first_unknown_probability_on_what_depends_on_it_is_unknown():
    probability = [0.1, 0.2, math.nan, 0.9]
    found = opd_prefixes([0.1, 0.4, 0.7, 1.0], "robust", success_probability=probability)
    for name in ("MC", "MC100", *CUT_METRICS):
        assert np.isnan(found[name][2:]).all(), name
    for name in ("MC25", "MC50", "MC75", "MP", "PPL", "coverage"):
        assert not np.isnan(found[name][2:]).any(), name
    assert found["MC100"][1] == 0.0


@given(LEVELS, st.data())
def test_prefixes_with_a_success_probability_are_curves_of_their_own(values, data):
    levels = st.sampled_from([0.2, 0.4, 0.45, 0.5, 0.8])
    probability = data.draw(st.lists(levels, min_size=len(values), max_size=len(values)))
    prefixes = opd_prefixes(values, "robust", success_probability=probability)
    for end in range(1, len(values) + 1):
        whole = compute_opd(values[:end], "robust", success_probability=probability[:end])
        here = {name: series[end - 1] for name, series in prefixes.items()}
        assert here == pytest.approx(whole, abs=1e-12, nan_ok=True)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"done_at": 0.0}, "above 0 and up to 1"),
        ({"done_at": 1.2}, "above 0 and up to 1"),
        ({"done_at": math.nan}, "above 0 and up to 1"),
        ({"revision": "v1.0", "done_at": 0.9}, "only 'robust'"),
        ({"revision": "v1.5", "success_probability": [0.1, 0.2]}, "only 'robust'"),
        ({"success_probability": [0.1]}, "one per sample"),
        ({"success_probability": [0.1, 1.1]}, r"outside 0\.\.1"),
        ({"success_probability": ["a", "b"]}, "numbers"),
    ],
)
def test_wrong_options_are_refused(options, message):
    with pytest.raises(OptionError, match=message):
        compute_opd([0.1, 0.2], **{"revision": "robust", **options})


@given(st.lists(st.tuples(st.floats(0.01, 1.0), st.booleans()), min_size=2, max_size=30))
def test_no_other_threshold_agrees_better_with_the_labels(episodes):
    progress, success = (np.array(column, dtype=float) for column in zip(*episodes, strict=True))
    found = fit_done_at(progress, success)
    if success.min() == success.max():
        assert found is None
    elif found is not None:
        best = max(balanced_accuracy(progress >= at, success) for at in [*progress, 1.1])
        assert balanced_accuracy(progress >= found, success) == pytest.approx(best)


def test_a_threshold_that_separates_lies_between_the_classes():
    assert fit_done_at([0.2, 0.6, 0.9, 1.0], [0, 0, 1, 1]) == pytest.approx(0.75)
    assert fit_done_at([0.9, 1.0, 0.2, 0.6], [0, 0, 1, 1]) is None
