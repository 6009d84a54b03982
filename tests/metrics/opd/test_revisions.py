"""OPD in its three published revisions: the published numbers, for every prefix, in one pass."""

from __future__ import annotations

import csv
import itertools
import json
import math
import statistics
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.speed.opd_prefixes import doubling, measure
from stepscore.errors import OptionError, UnknownNameError
from stepscore.metrics.opd import compute_opd, opd_prefixes
from stepscore.metrics.opd.revisions import OPD_KEYS, OPD_V15_KEYS, REVISIONS

CSV_COLUMNS = {
    "MC25": "M25",
    "MC50": "M50",
    "MC75": "M75",
    "MC100": "M100",
    "MP": "MP",
    "PPL": "PPL",
    "CRA": "CRA",
    "STR": "STR",
}
CENT = 0.005 + 1e-9  # published values are percent, rounded to two decimals
EXACT: dict[str, Any] = {"abs": 1e-12, "nan_ok": True}
CURVES = st.lists(st.integers(0, 200).map(lambda k: k / 200) | st.floats(0, 1), min_size=1, max_size=40)
RAW = st.lists(st.integers(-400, 400).map(lambda k: k / 200), min_size=1, max_size=40)
SETTINGS = [("paper", None), ("v1.0", None), ("v1.5", None), ("v1.5", "published"), ("robust", None)]


def golden(data: Path) -> dict[str, dict]:
    return json.loads((data / "opd_golden.json").read_text(encoding="utf-8"))


# The obvious implementations, sample by sample.


def naive_v10(p: list[float], extra: int = 0) -> dict[str, float]:
    series = [0.0, *p]
    steps = [abs(b - a) for a, b in itertools.pairwise(series)]
    regret, peak = 0.0, 0.0
    for value in p:
        peak = max(peak, value)
        regret += peak - value
    values = {f"MC{q}": float(max(p) >= q / 100) for q in (25, 50, 75, 100)}
    values["MC"] = max(q for q in (0, 0.25, 0.5, 0.75, 1) if q == 0 or max(p) >= q)
    values |= {"MP": max(p), "PPL": p[-1] ** 2 / sum(steps) if sum(steps) > 1e-9 else 0.0, "coverage": 1.0}
    values["CRA"] = regret / (len(p) + extra)
    values["STR"] = sum(round(step, 9) < 0.005 for step in steps) / len(p)
    return values


def naive_clean(p: list[float]) -> list[float]:
    clean = list(p)
    if len(p) >= 5:
        for i in range(2, len(p) - 2):
            median = statistics.median([p[i - 2], p[i - 1], p[i + 1], p[i + 2]])
            clean[i] = median if abs(p[i] - median) > 0.35 else p[i]
    smooth = []
    for i in range(len(p)):
        near = [(w, i + k - 2) for k, w in enumerate((0.1, 0.2, 0.4, 0.2, 0.1)) if 0 <= i + k - 2 < len(p)]
        # One by one, because sum() of newer versions of Python is exact to another last digit.
        total = weight = 0.0
        for w, j in near:
            total += w * clean[j]
            weight += w
        smooth.append(total / weight)
    return [min(1.0, max(0.0, value)) for value in smooth]


def naive_v15(p: list[float]) -> dict[str, float]:
    values, best = naive_v10(p), max(p)
    path = sum(abs(b - a) for a, b in zip([0.0, *p], p, strict=False))
    values["PPL"] = min(1.0, best**2 / path) if path > 1e-9 else 0.0
    values["CRA"] = values["CRA"] / best if best > 0 else 0.0
    values["STR"] = sum(abs(b - a) < 0.005 for a, b in zip([0.0, *p], p, strict=False)) / len(p)
    drops = [max(p[: i + 1]) - p[i] for i in range(len(p))]
    at = drops.index(max(drops))
    values["DRR"] = min(1.0, (max(p[at:]) - p[at] + 1e-6) / (drops[at] + 1e-6)) if drops[at] > 1e-12 else 1.0
    success = best >= 0.99
    quality = 0.5 * values["PPL"] + 0.3 * (1 - values["CRA"]) + 0.2 * (1 - values["STR"])
    values["SQS"] = quality if success else math.nan
    values["FNS"] = math.nan if success else 0.5 * best + 0.3 * values["MC75"] + 0.2 * values["MC50"]
    return values


# Published numbers


def test_every_prefix_of_every_recorded_rollout_has_its_published_value(shared_data):
    cells = 0
    for path in shared_data.glob("rollouts/*/*/step_metrics.csv"):
        with path.open(encoding="utf-8") as lines:
            rows = list(csv.DictReader(lines))
        found = opd_prefixes([float(row["StepProgress"]) for row in rows], "v1.0")
        for ours, theirs in CSV_COLUMNS.items():
            published = np.array([float(row[theirs]) for row in rows])
            assert np.abs(100 * found[ours] - published).max() <= CENT, (path.parent.name, ours)
            cells += len(rows)
    assert cells == 8 * 523


def test_v10_of_the_golden_curves_is_the_published_code(shared_data):
    for name, entry in golden(shared_data).items():
        found = compute_opd(entry["progress"], "v1.0")
        for ours, theirs in CSV_COLUMNS.items():
            assert 100 * found[ours] == pytest.approx(entry["code"][theirs], abs=CENT), (name, ours)


@pytest.mark.parametrize(("smoothing", "entry_name"), [(None, "v15_raw"), ("published", "v15_processed")])
def test_v15_of_the_golden_curves_is_the_published_code(shared_data, smoothing, entry_name):
    for name, entry in golden(shared_data).items():
        found = compute_opd(entry["progress"], "v1.5", smoothing=smoothing)
        for theirs, value in entry[entry_name].items():
            ours = (
                theirs.replace("M", "MC")
                if theirs in CSV_COLUMNS.values() and theirs[1].isdigit()
                else theirs
            )
            assert found[ours] == pytest.approx(value, abs=1e-9), (name, ours)


def test_the_published_toy_curves():
    success = compute_opd([0.02, 0.15, 0.35, 0.55, 0.76, 0.94, 1.0, 1.0, 1.0], "v1.0")
    assert (success["PPL"], success["CRA"]) == (pytest.approx(1.0), 0.0)
    assert success["STR"] == pytest.approx(2 / 9)
    recovery = [0.05, 0.32, 0.62, 0.28, 0.46, 0.68, 0.71]
    found = compute_opd(recovery, "v1.0")
    assert found["PPL"] == pytest.approx(0.362662, abs=5e-7)
    assert found["CRA"] == pytest.approx(0.071429, abs=5e-7)
    assert found["STR"] == 0.0
    # The published smoothing turns a fall from .62 to .28 into a steady rise; that is what it does.
    smoothed = compute_opd(recovery, "v1.5", smoothing="published")
    assert (smoothed["CRA"], smoothed["DRR"]) == (0.0, 1.0)


# Edge cases of the published code


def test_a_constant_zero_is_all_stagnation():
    assert compute_opd([0.0] * 4, "v1.0") == {**dict.fromkeys(OPD_KEYS, 0.0), "STR": 1.0, "coverage": 1.0}


def test_a_constant_half_is_reached_in_one_step():
    found = compute_opd([0.5] * 4, "v1.0")
    assert (found["PPL"], found["STR"], found["CRA"], found["MC"]) == (0.5, 0.75, 0.0, 0.5)


def test_v10_computes_on_raw_values_outside_the_range():
    below = compute_opd([-0.1, -0.3], "v1.0")
    assert below["MP"] == -0.1
    assert below["PPL"] == pytest.approx(0.3)
    assert below["CRA"] == pytest.approx(0.2)
    assert compute_opd([0.5, 1.6], "v1.0")["PPL"] == pytest.approx(1.6)


def test_v15_clips_and_reads_values_over_one_and_a_half_as_percent():
    assert compute_opd([-0.2, 1.2], "v1.5")["MP"] == 1.0
    assert compute_opd([20.0, 80.0], "v1.5") == pytest.approx(compute_opd([0.2, 0.8], "v1.5"), nan_ok=True)


def test_a_step_of_exactly_the_threshold_is_movement():
    assert compute_opd([0.167, 0.172], "v1.0")["STR"] == 0.0
    assert compute_opd([0.172, 0.167], "v1.0")["STR"] == 0.0
    assert compute_opd([0.167, 0.171], "v1.0")["STR"] == 0.5


def test_v15_compares_such_a_step_as_its_source_does_without_rounding():
    assert abs(0.177 - 0.172) >= 0.005 > abs(0.172 - 0.167)
    assert compute_opd([0.172, 0.177], "v1.5")["STR"] == 0.0
    assert compute_opd([0.167, 0.172], "v1.5")["STR"] == 0.5
    assert compute_opd([0.167, 0.172], "v1.0")["STR"] == 0.0


def test_the_paper_counts_the_start_among_the_terms_of_regret():
    curve = [0.4, 0.2, 0.6]
    assert compute_opd(curve, "paper")["CRA"] == pytest.approx(compute_opd(curve, "v1.0")["CRA"] * 3 / 4)
    assert compute_opd(curve, "paper")["PPL"] == compute_opd(curve, "v1.0")["PPL"]


@pytest.mark.parametrize(
    ("best", "level"),
    [(0.24, 0.0), (0.25, 0.25), (0.6, 0.5), (0.99, 0.75), (1.0, 1.0), (-1.0, 0.0), (1.5, 1.0)],
)
def test_mc_is_the_furthest_milestone(best, level):
    assert compute_opd([best, best - 0.1], "v1.0")["MC"] == level


def test_nearness_is_for_failures_and_quality_for_successes():
    failure, success = compute_opd([0.5, 0.8], "v1.5"), compute_opd([0.5, 0.99], "v1.5")
    assert failure["FNS"] == pytest.approx(0.9)
    assert math.isnan(failure["SQS"])
    assert math.isnan(success["FNS"])
    assert success["SQS"] == pytest.approx(0.5 * 0.99 + 0.3 + 0.2)


# Against the naive implementations


@given(RAW)
def test_v10_and_paper_equal_the_naive_loops(p):
    assert compute_opd(p, "v1.0") == pytest.approx(naive_v10(p), abs=1e-9)
    assert compute_opd(p, "paper") == pytest.approx(naive_v10(p, extra=1), abs=1e-9)


@given(CURVES)
def test_v15_equals_the_naive_loops(p):
    assert compute_opd(p, "v1.5") == pytest.approx(naive_v15(p), abs=1e-9, nan_ok=True)


@given(st.lists(st.integers(0, 1000).map(lambda k: k / 1000), min_size=1, max_size=40))
def test_published_smoothing_equals_the_naive_loops(p):
    expected = naive_v15(naive_clean(p))
    assert compute_opd(p, "v1.5", smoothing="published") == pytest.approx(expected, abs=1e-9, nan_ok=True)


@pytest.mark.parametrize(("revision", "smoothing"), SETTINGS)
@given(curve=CURVES)
def test_a_prefix_is_measured_as_a_curve_of_its_own(revision, smoothing, curve):
    prefixes = opd_prefixes(curve, revision, smoothing=smoothing)
    for end in range(1, len(curve) + 1):
        whole = compute_opd(curve[:end], revision, smoothing=smoothing)
        assert {name: values[end - 1] for name, values in prefixes.items()} == pytest.approx(whole, **EXACT)


@pytest.mark.parametrize(("revision", "smoothing"), SETTINGS)
def test_many_curves_at_once_are_the_same_as_one_by_one(revision, smoothing):
    batch = np.random.default_rng(0).uniform(0, 1, (3, 12))
    batch[1, 7] = math.nan
    together = opd_prefixes(batch, revision, smoothing=smoothing)
    for row, curve in enumerate(batch):
        for name, values in opd_prefixes(curve, revision, smoothing=smoothing).items():
            np.testing.assert_array_equal(together[name][row], values, err_msg=name)


@given(CURVES)
def test_every_value_of_a_valid_curve_lies_in_0_to_1(p):
    for revision in REVISIONS:
        for name, value in compute_opd(p, revision).items():
            assert math.isnan(value) or 0.0 <= value <= 1.0 + 1e-12, (revision, name)


# Unknown, empty, the sample at time 0, and wrong arguments


@pytest.mark.parametrize("revision", REVISIONS)
def test_one_unknown_sample_makes_every_metric_unknown_and_says_how_much_is_known(revision):
    found = compute_opd([0.1, math.nan, 0.4, 0.9], revision)
    assert found.pop("coverage") == 0.75
    assert all(math.isnan(value) for value in found.values())


@pytest.mark.parametrize("revision", REVISIONS)
def test_prefixes_are_known_up_to_the_first_unknown_sample(revision):
    found = opd_prefixes([0.1, 0.4, math.nan, 0.9], revision)
    np.testing.assert_allclose(found["coverage"], [1, 1, 2 / 3, 3 / 4])
    np.testing.assert_array_equal(found["MP"], [0.1, 0.4, math.nan, math.nan])
    assert found["PPL"][1] == compute_opd([0.1, 0.4], revision)["PPL"]


@pytest.mark.parametrize("revision", REVISIONS)
def test_no_samples_give_no_number(revision):
    assert all(math.isnan(value) for value in compute_opd([], revision).values())
    assert all(values.shape == (0,) for values in opd_prefixes([], revision).values())


@pytest.mark.parametrize("revision", ["paper", "v1.0", "v1.5"])
def test_a_sample_at_time_zero_is_dropped_and_leaves_a_gap(revision):
    times, curve = [0.0, 1.0, 2.0], [0.9, 0.2, 0.3]
    assert compute_opd(curve, revision, times) == pytest.approx(compute_opd(curve[1:], revision), nan_ok=True)
    prefixes = opd_prefixes(curve, revision, times)
    assert all(len(values) == 3 and math.isnan(values[0]) for values in prefixes.values())
    assert prefixes["MP"][1] == 0.2
    assert compute_opd(curve, revision, [0.1, 1.0, 2.0])["MP"] == 0.9
    assert math.isnan(compute_opd([0.5], revision, [0.0])["MP"])


@pytest.mark.parametrize("revision", REVISIONS)
def test_the_keys_are_those_promised(revision):
    assert set(compute_opd([0.1, 0.2], revision)) == set(OPD_V15_KEYS if revision == "v1.5" else OPD_KEYS)
    assert set(opd_prefixes([0.1, math.nan], revision)) == set(
        OPD_V15_KEYS if revision == "v1.5" else OPD_KEYS
    )


def test_an_unknown_revision_names_the_known_ones():
    with pytest.raises(UnknownNameError, match=r"Did you mean 'v1\.5'.*robust"):
        compute_opd([0.1], "v15")


@pytest.mark.parametrize("times", [[1, 2], [1, 3, 2], [1, 1, 2], [0, 1, math.nan], [[1, 2, 3]]])
def test_wrong_times_are_refused(times):
    with pytest.raises(OptionError, match="times"):
        compute_opd([0.1, 0.2, 0.3], "v1.0", times)


@pytest.mark.parametrize(
    ("progress", "options", "message"),
    [
        ([0.1, math.inf], {}, "infinite"),
        ([[[0.1]]], {}, "shape"),
        ([["a"]], {}, "numbers"),
        ([0.1], {"smoothing": "published"}, "v1.5"),
        ([0.1], {"revision": "v1.5", "smoothing": "mine"}, "published"),
        ([[0.1, 0.2]], {}, "opd_prefixes"),
    ],
)
def test_wrong_arguments_are_refused(progress, options, message):
    with pytest.raises(OptionError, match=message):
        compute_opd(progress, **options)


# Speed


def test_all_prefixes_take_a_two_hundredth_of_the_published_loops():
    best = max(
        found["loops"] / found["one call"] for found in (measure(1000, 200, 5, growth=False) for _ in "ab")
    )
    assert best >= 200


@pytest.mark.parametrize(("revision", "steps"), [("v1.0", 10_000), ("v1.5", 10_000), ("robust", 600)])
def test_twice_the_length_takes_about_twice_the_time(revision, steps):
    assert min(doubling(revision, steps, repeats=5) for _ in range(3)) < 2.8
