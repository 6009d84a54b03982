from __future__ import annotations

import json
import math
from dataclasses import asdict, replace

import numpy as np
import pytest

from stepscore.types import Curve, Estimate


def test_a_curve_refuses_times_that_do_not_rise() -> None:
    with pytest.raises(ValueError, match="strictly increasing"):
        Curve(np.array([0.0, 0.0]), np.array([0.1, 0.2]))


def test_a_curve_refuses_progress_out_of_range_and_names_the_raw_channel() -> None:
    with pytest.raises(ValueError, match="raw"):
        Curve(np.array([0.0, 1.0]), np.array([0.1, 1.2]))


def test_a_curve_refuses_a_channel_of_another_length() -> None:
    with pytest.raises(ValueError, match="raw"):
        Curve(np.array([0.0, 1.0]), np.array([0.1, 0.2]), {"raw": np.array([1.0])})


def test_unknown_progress_counts_against_coverage() -> None:
    assert Curve(np.arange(4.0), np.array([0.0, np.nan, 0.5, 1.0])).coverage == 0.75
    assert np.isnan(Curve(np.empty(0), np.empty(0)).coverage)


def test_a_curve_reads_as_its_points_times_range_and_channels() -> None:
    times = np.linspace(0.0, 7.5, 16)
    progress = np.linspace(0.02, 0.98, 16)
    progress[[3, 4]] = np.nan
    channels = {"raw": np.zeros(16), "margin": np.zeros(16)}
    expected = "Curve(16 points, 0.00-7.50 s, progress 0.02-0.98, 2 unknown, channels: raw, margin)"
    assert repr(Curve(times, progress, channels)) == str(Curve(times, progress, channels)) == expected


def test_a_curve_reads_well_when_it_is_short_or_unknown() -> None:
    assert repr(Curve(np.empty(0), np.empty(0))) == "Curve(0 points)"
    assert repr(Curve(np.array([2.0]), np.array([np.nan]))) == "Curve(1 point, 2.00-2.00 s, 1 unknown)"
    curve = Curve(np.arange(2.0), np.array([0.0, 1.0]), calibrated=True, time_source="inferred")
    assert repr(curve) == "Curve(2 points, 0.00-1.00 s, progress 0.00-1.00, calibrated, inferred times)"


def test_an_estimate_reads_as_its_value_interval_and_sample() -> None:
    estimate = Estimate(7 / 9, 0.4526, 0.9368, n=9, clusters=9, coverage=0.9, method="wilson 95%")
    assert repr(estimate) == "Estimate(0.778 [0.453, 0.937], n=9, coverage 90%, wilson 95%)"
    clustered = Estimate(0.5, 0.4, 0.6, n=20, clusters=10, coverage=1.0, method="cluster-robust t 95%")
    assert repr(clustered) == (
        "Estimate(0.5 [0.4, 0.6], n=20 in 10 clusters, coverage 100%, cluster-robust t 95%)"
    )


def test_an_estimate_without_an_interval_reads_as_why() -> None:
    nan = float("nan")
    few = Estimate(0.25, nan, nan, n=3, clusters=3, coverage=1.0, method="too few episodes (3 < 5)")
    assert repr(few) == "Estimate(0.25, n=3, coverage 100%, too few episodes (3 < 5))"
    none = Estimate(nan, nan, nan, n=0, clusters=0, coverage=nan, method="no known values")
    assert repr(none) == "Estimate(nan, n=0, coverage unknown, no known values)"


def test_a_repr_leaves_equality_and_fields_as_they_are() -> None:
    estimate = Estimate(0.5, 0.4, 0.6, 4, 4, 1.0, "wilson 95%")
    assert estimate == Estimate(0.5, 0.4, 0.6, 4, 4, 1.0, "wilson 95%")
    assert estimate != replace(estimate, hi=0.6000001)
    assert asdict(estimate)["hi"] == 0.6
    assert hash(estimate) == hash(replace(estimate))


def test_an_estimate_is_written_as_json_values_and_read_back() -> None:
    known = Estimate(0.5, 0.25, 0.75, 8, 4, 1.0, "wilson 95%")
    assert Estimate.of_values(**json.loads(json.dumps(known.to_dict()))) == known
    unknown = Estimate(math.nan, math.nan, math.inf, 0, 0, math.nan, "no labels")
    stored = json.loads(json.dumps(unknown.to_dict(), allow_nan=False))
    assert stored == {
        **dict.fromkeys(("value", "lo", "hi", "coverage")),
        "n": 0,
        "clusters": 0,
        "method": "no labels",
    }
    read = Estimate.of_values(**stored)
    assert all(math.isnan(number) for number in (read.value, read.lo, read.hi, read.coverage))
