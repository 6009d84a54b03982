"""A judge's few points become every frame, and nothing unknown becomes known."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stepscore.curation.interpolation import at_frames, curve_noise, step_changes
from stepscore.errors import OptionError

NAN = math.nan


def same(found: np.ndarray, expected: list[float]) -> bool:
    return bool(np.allclose(found, expected, equal_nan=True))


def test_frames_between_points_lie_on_the_line_between_them() -> None:
    assert same(at_frames(np.array([0.0, 0.4]), np.array([0.0, 1.0]), 5, 10.0), [0, 0.25, 0.5, 0.75, 1])


def test_before_the_first_point_and_after_the_last_nothing_is_known() -> None:
    assert same(
        at_frames(np.array([0.1, 0.3]), np.array([0.2, 0.4]), 6, 10.0), [NAN, 0.2, 0.3, 0.4, NAN, NAN]
    )


def test_an_unknown_point_makes_both_sides_unknown_and_leaves_its_neighbours() -> None:
    found = at_frames(np.array([0.0, 0.2, 0.4]), np.array([0.1, NAN, 0.3]), 5, 10.0)
    assert same(found, [0.1, NAN, NAN, NAN, 0.3])


def test_rounded_timestamps_still_lie_on_their_frames() -> None:
    found = at_frames(np.array([0.0, 0.0333, 0.0667]), np.array([0.1, NAN, 0.3]), 3, 30.0)
    assert same(found, [0.1, NAN, 0.3])


def test_no_curve_is_no_knowledge() -> None:
    assert same(at_frames(np.empty(0), np.empty(0), 2, 10.0), [NAN, NAN])
    with pytest.raises(OptionError, match=r"2 frames at 0\.0 fps"):
        at_frames(np.empty(0), np.empty(0), 2, 0.0)


@given(st.lists(st.floats(0, 1) | st.just(NAN), min_size=1, max_size=30), st.integers(1, 4))
def test_every_frame_agrees_with_interpolation_by_hand(values: list[float], gap: int) -> None:
    points = [i * gap for i in range(len(values))]
    n = points[-1] + 3
    found = at_frames(np.array(points) / 10.0, np.array(values), n, 10.0)
    for frame in range(n):
        k, rest = divmod(frame, gap)
        if k >= len(values) or (k == len(values) - 1 and rest):
            expected = NAN
        elif rest == 0:
            expected = values[k]
        else:
            expected = values[k] + rest / gap * (values[k + 1] - values[k])
        assert math.isnan(found[frame]) == math.isnan(expected)
        assert math.isnan(expected) or found[frame] == pytest.approx(expected, abs=1e-9)


def test_a_frame_has_the_change_of_the_step_it_lies_in_and_the_last_frame_of_the_last_step() -> None:
    found = step_changes(np.array([0.1, 0.3, 0.5]), np.array([0.0, 0.5, 0.4]), 7, 10.0)
    assert same(found, [NAN, 0.5, 0.5, -0.1, -0.1, -0.1, NAN])


def test_a_step_with_an_unknown_end_has_no_change() -> None:
    found = step_changes(np.array([0.0, 0.1, 0.2]), np.array([0.0, NAN, 0.4]), 3, 10.0)
    assert same(found, [NAN, NAN, NAN])
    assert same(step_changes(np.array([0.0]), np.array([0.3]), 2, 10.0), [NAN, NAN])


def test_noise_is_found_on_curves_that_rise_and_is_none_on_a_line() -> None:
    rng = np.random.default_rng(0)
    times = np.sort(rng.uniform(0, 100, 2000))
    rising = times / 100
    assert curve_noise([(times, rising + rng.normal(0, 0.03, 2000))]) == pytest.approx(0.03, rel=0.1)
    assert curve_noise([(times, rising)]) == pytest.approx(0, abs=1e-9)
    assert math.isnan(curve_noise([(times[:2], rising[:2])]))
