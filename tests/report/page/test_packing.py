"""Numbers come out of a page as they went in, and thresholds decide as they did."""

from __future__ import annotations

import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stepscore.metrics.opd import REVISIONS, opd_prefixes
from stepscore.report.page.packing import (
    dictionary,
    pack_floats,
    pack_progress,
    pack_range,
    pack_times,
    unpack,
)

decimals = st.integers(0, 9).flatmap(lambda d: st.integers(0, 10**d).map(lambda k: k / 10**d))


@given(st.lists(decimals | st.just(float("nan")), max_size=40))
def test_progress_of_up_to_nine_decimals_is_exact(values: list[float]) -> None:
    given_values = np.array(values, dtype=np.float64)
    assert np.array_equal(unpack(pack_progress(given_values)), given_values, equal_nan=True)


def test_progress_of_few_decimals_takes_two_bytes() -> None:
    assert pack_progress(np.array([0.005, 0.99, 1.0, np.nan]))["enc"] == "u16"
    assert pack_progress(np.array([1 / 3]))["enc"] == "u32"


@given(st.lists(st.floats(0, 1), min_size=2, max_size=60))
def test_any_progress_is_within_its_promise(values: list[float]) -> None:
    assert np.max(np.abs(unpack(pack_progress(np.array(values))) - values)) <= 1.3e-10


@pytest.mark.parametrize("revision", REVISIONS)
@pytest.mark.parametrize("points", [17, 41, 201])
def test_metrics_of_packed_curves_are_those_of_the_curves(revision: str, points: int) -> None:
    # 201 points of a straight line are steps of .005, on the very threshold of stagnation.
    times = np.arange(1, points + 1) / 30.0
    line = np.arange(points) / (points - 1)
    noise = np.random.default_rng(points).uniform(0, 1, points)
    packed_times, rate = pack_times(times, np.array([30.0]), [points])
    assert rate is not None
    seconds = unpack(packed_times) / unpack(rate)[0]
    for curve in (line, noise, np.round(noise, 3)):
        expected = opd_prefixes(curve, revision, times)
        for name, values in opd_prefixes(unpack(pack_progress(curve)), revision, seconds).items():
            np.testing.assert_allclose(values, expected[name], atol=1e-7, err_msg=name)


def test_frame_times_are_exact_and_small() -> None:
    times = np.concatenate([np.arange(0, 90, 7) / 29.97, np.arange(50) / 12.0])
    packed, rate = pack_times(times, np.array([29.97, 12.0]), [13, 50])
    assert rate is not None
    assert packed["enc"] == "u16"
    assert np.array_equal(unpack(packed) / np.repeat(unpack(rate), [13, 50]), times)


def test_other_times_are_kept_to_the_microsecond() -> None:
    times = np.array([0.25, 0.5833, 0.9167, 700.1234567])
    for rates in ([12.0], [np.nan]):
        packed, rate = pack_times(times, np.array(rates), [4])
        assert rate is None
        assert np.max(np.abs(unpack(packed) - times)) <= 5e-7


def test_times_past_an_hour_are_kept_whole() -> None:
    times = np.array([0.1, 5000.123456])
    packed, rate = pack_times(times, np.array([np.nan]), [2])
    assert rate is None
    assert np.array_equal(unpack(packed), times)


@given(st.lists(st.floats(-1e6, 1e6) | st.just(float("nan")), max_size=30))
def test_channels_are_kept_well_enough_to_draw(values: list[float]) -> None:
    array = np.array(values, dtype=np.float64)
    seen = unpack(pack_range(array))
    assert np.array_equal(np.isnan(seen), np.isnan(array))
    known = array[~np.isnan(array)]
    if len(known):
        assert np.max(np.abs(seen[~np.isnan(seen)] - known)) <= np.ptp(known) / 131_068 * 1.01 + 1e-9


def test_floats_are_kept_whole() -> None:
    values = np.array([np.nan, 1 / 3, -1e300])
    assert np.array_equal(unpack(pack_floats(values)), values, equal_nan=True)


def test_a_dictionary_keeps_each_string_once() -> None:
    packed = dictionary(["b", None, "a", "b"])
    assert packed == {"values": ["b", "a"], "codes": [0, -1, 1, 0]}
    assert json.loads(json.dumps(packed)) == packed
