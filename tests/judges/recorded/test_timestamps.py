from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stepscore.errors import CurveError
from stepscore.judges.recorded.formats import RecordedCurve
from stepscore.judges.recorded.timestamps import check_within, infer_interval, place_rows
from tests.judges.fake_view import rollout

FILE = Path("x.csv")


def rows(n: int, **stated: Any) -> RecordedCurve:
    return RecordedCurve(np.linspace(0, 1, n), rows=np.arange(1, n + 1), **stated)


def naive_interval(n: int, frames: int) -> int:
    """The rule in its own words: nearest count of rows, the smallest of equals."""
    counts = {k: -(-(frames - 1) // k) for k in range(1, frames)}
    return min(counts, key=lambda k: (abs(counts[k] - n), k))


@pytest.mark.parametrize("frames", range(2, 50))
def test_the_interval_is_that_of_the_plain_search(frames: int) -> None:
    for n in range(1, 60):
        assert infer_interval(n, frames) == naive_interval(n, frames)


@pytest.mark.parametrize(
    ("n", "frames", "interval"),
    [
        # Rows and frames of published rollouts; the last two were cut at the shortest of three cameras.
        (8, 79, 10),
        (21, 209, 10),
        (46, 47, 1),
        (80, 5759, 72),
        (48, 3455, 72),
        (18, 53, 3),
        (40, 122, 3),
        (77, 5615, 73),
    ],
)
def test_the_interval_of_published_rollouts_is_found(n: int, frames: int, interval: int) -> None:
    assert infer_interval(n, frames) == interval


def test_row_i_lies_at_frame_i_times_k_and_the_last_at_the_end() -> None:
    times, source = place_rows(rows(8), rollout(79, fps=10), None, FILE)
    np.testing.assert_allclose(times, [1, 2, 3, 4, 5, 6, 7, 7.8])
    assert source == "inferred"


def test_a_given_interval_is_used_as_given() -> None:
    times, source = place_rows(rows(8), rollout(79, fps=10), 5, FILE)
    np.testing.assert_allclose(times, np.arange(1, 9) * 0.5)
    assert source == "inferred"


@pytest.mark.parametrize(
    ("n", "frames", "interval"), [(50, 40, None), (8, 79, 12), (1, 1, None), (40, 100, None)]
)
def test_more_rows_than_the_video_has_room_for_are_an_error(
    n: int, frames: int, interval: int | None
) -> None:
    with pytest.raises(
        CurveError, match=rf"x\.csv has {n} rows without times.*{frames} frames of episode a/b"
    ):
        place_rows(rows(n), rollout(frames), interval, FILE)


@given(n=st.integers(1, 60), frames=st.integers(1, 90), interval=st.none() | st.integers(1, 20))
def test_reconstructed_times_increase_or_are_refused(n: int, frames: int, interval: int | None) -> None:
    try:
        times, _ = place_rows(rows(n), rollout(frames), interval, FILE)
    except CurveError:
        return
    assert len(times) == n
    assert np.all(np.diff(times) > 0)
    assert times[0] > 0
    assert times[-1] <= (frames - 1) / 10


def test_stated_frames_take_the_videos_own_times() -> None:
    times, source = place_rows(rows(3, frames=np.array([0, 5, 9])), rollout(10, fps=20), None, FILE)
    np.testing.assert_allclose(times, [0, 0.25, 0.45])
    assert source == "recorded"


def test_a_frame_after_the_videos_last_is_an_error_that_names_the_row() -> None:
    with pytest.raises(CurveError, match=r"x\.csv, row 3: frame 10 .*frames 0\.\.9"):
        place_rows(rows(3, frames=np.array([0, 5, 10])), rollout(10), None, FILE)


def test_stated_seconds_need_no_video() -> None:
    times, source = place_rows(rows(2, times=np.array([0.5, 99.0])), rollout(0), None, FILE)
    np.testing.assert_array_equal(times, [0.5, 99.0])
    assert source == "recorded"


def test_without_times_and_without_video_rows_cannot_be_placed() -> None:
    with pytest.raises(CurveError, match=r"no video.*Add a column 'time_s'"):
        place_rows(rows(2), rollout(0), None, FILE)
    with pytest.raises(CurveError, match="no video"):
        place_rows(rows(2, frames=np.array([0, 1])), rollout(0), None, FILE)


def test_a_time_after_the_videos_end_is_an_error_but_for_one_frame() -> None:
    place_rows(rows(2, times=np.array([0.5, 1.1])), rollout(10, fps=10), None, FILE)
    with pytest.raises(CurveError, match=r"row 2: time_s is 1.2, but episode a/b lasts 1\.000 s"):
        place_rows(rows(2, times=np.array([0.5, 1.2])), rollout(10, fps=10), None, FILE)
    check_within(float("nan"), "when_s", rollout(10))
