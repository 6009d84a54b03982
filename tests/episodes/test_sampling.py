"""Which frames are taken: by index, by time, and from every view at the same time."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stepscore.episodes import (
    TIME_TOLERANCE_S,
    first_frame_from,
    frame_at,
    sample_by_index,
    sample_by_time,
    sample_frames,
    sample_indices,
)
from stepscore.episodes.sampling import check_indices
from stepscore.errors import EpisodeError, OptionError
from tests.fakes import FakeView, episode

TWO = {"top": FakeView(50, 10.0), "wrist": FakeView(150, 30.0)}

TIMES = st.lists(st.floats(0.001, 2.0), min_size=0, max_size=30).map(lambda gaps: np.cumsum([0.0, *gaps]))


@given(TIMES, st.lists(st.floats(-1.0, 60.0), min_size=1, max_size=10))
def test_the_frame_at_a_time_is_the_last_that_began(at: np.ndarray, times: list[float]) -> None:
    begun = [sum(bool(t <= time + TIME_TOLERANCE_S) for t in at) for time in times]
    assert frame_at(at, times).tolist() == [max(0, count - 1) for count in begun]
    before = [sum(bool(t < time - TIME_TOLERANCE_S) for t in at) for time in times]
    assert first_frame_from(at, times).tolist() == before


def test_sums_of_a_frame_duration_meet_the_frame() -> None:
    at = np.arange(300) / 29.97
    summed = np.cumsum(np.full(300, 1 / 29.97)) - 1 / 29.97
    assert frame_at(at, summed).tolist() == first_frame_from(at, summed).tolist() == list(range(300))
    assert int(frame_at(at, float(at[3]))) == 3
    assert frame_at(at, at[:4].reshape(2, 2)).shape == (2, 2)


def test_index_and_time_samplers_are_two_halves_of_one() -> None:
    at = np.arange(30) / 10
    assert sample_by_index(30, "e", count=4).tolist() == sample_indices(at, "e", count=4).tolist()
    assert sample_by_index(30, "e", indices=np.array([3, 0])).tolist() == [3, 0]  # type: ignore[arg-type]
    assert sample_by_time(at, "e", fps=2.0).tolist() == sample_indices(at, "e", fps=2.0).tolist()
    assert sample_by_time(at, "e", times=[0.35]).tolist() == [3]


@given(TIMES, st.integers(1, 40))
def test_a_count_spreads_evenly_from_first_to_last(at: np.ndarray, count: int) -> None:
    picked = sample_indices(at, "e", count=count)
    assert len(picked) == min(count, len(at))
    assert picked[0] == 0
    assert count == 1 or picked[-1] == len(at) - 1
    gaps = np.diff(picked)
    assert len(gaps) == 0 or (gaps.min() >= 1 and gaps.max() - gaps.min() <= 2)


@given(TIMES, st.lists(st.floats(0.0, 1.0), min_size=1, max_size=10))
def test_a_time_picks_the_frame_shown_then(at: np.ndarray, shares: list[float]) -> None:
    wanted = [share * float(at[-1]) for share in shares]
    picked = sample_indices(at, "e", times=wanted)
    shown = [max((i for i, t in enumerate(at) if t <= time + 5e-7), default=0) for time in wanted]
    assert picked.tolist() == shown


@pytest.mark.parametrize(
    ("n", "native", "fps"), [(30, 10.0, 10.0), (31, 30.0, 10.0), (7, 5.0, 2.0), (9, 29.97, 29.97)]
)
def test_a_rate_picks_the_frame_at_each_of_its_ticks(n: int, native: float, fps: float) -> None:
    at = np.arange(n) / native
    ticks = [k / fps for k in range(10 * n) if k / fps <= at[-1] + 1e-6]
    shown = [int(np.floor(tick * native + 1e-5)) for tick in ticks]
    assert sample_indices(at, "e", fps=fps).tolist() == shown


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        ({}, "exactly one of count, indices, times and fps .got none"),
        ({"count": 2, "fps": 1.0}, "got count, fps"),
        ({"count": 0}, "count must be at least 1, got 0"),
        ({"indices": [0, 5]}, r"frames 0\.\.4; index 5"),
        ({"indices": [-1]}, "index -1"),
        ({"times": [0.6]}, r"runs from 0 to 0\.500 s; 0\.6 s"),
        ({"times": [-0.1]}, "-0.1 s is not in it"),
        ({"times": [float("nan")]}, "must be finite"),
        ({"fps": 0.0}, "fps must be above 0 and finite, got 0.0"),
        ({"fps": float("inf")}, "fps must be above 0 and finite, got inf"),
        ({"fps": float("nan")}, "fps must be above 0 and finite, got nan"),
    ],
)
def test_frames_that_cannot_be_had_are_refused(asked: dict[str, object], message: str) -> None:
    with pytest.raises(OptionError, match=message):
        sample_indices(np.arange(5) / 10, "episode e", **asked)  # type: ignore[arg-type]


def test_the_time_at_which_the_last_frame_ends_is_still_its() -> None:
    assert sample_indices(np.arange(5) / 10, "e", times=[0.5]).tolist() == [4]
    assert sample_indices(np.zeros(1), "e", times=[7.0]).tolist() == [0]
    with pytest.raises(EpisodeError, match="no frames"):
        sample_indices(np.zeros(0), "e", count=1)


class TestSampledFrames:
    def test_are_spread_evenly_from_the_first_frame_to_the_last(self) -> None:
        sampled = sample_frames(episode(), count=5)
        assert sampled.indices["top"].tolist() == [0, 12, 24, 37, 49]
        assert sampled.times.tolist() == pytest.approx([0.0, 1.2, 2.4, 3.7, 4.9])

    def test_by_rate_end_with_the_last_frame(self) -> None:
        assert sample_frames(episode(), fps=1.0).times.tolist() == pytest.approx([0, 1, 2, 3, 4, 4.9])

    def test_by_rate_are_thinned_evenly_to_the_cap(self) -> None:
        capped = sample_frames(episode(), fps=10.0, most=4)
        assert capped.indices["top"].tolist() == sample_frames(episode(), count=4).indices["top"].tolist()

    def test_a_single_one_is_the_last(self) -> None:
        assert sample_frames(episode(), count=1).indices["top"].tolist() == [49]

    def test_are_all_frames_of_a_short_episode(self) -> None:
        assert len(sample_frames(episode(views={"top": FakeView(3)}), count=16)) == 3

    def test_show_the_same_second_in_every_camera(self) -> None:
        sampled = sample_frames(episode(views=TWO), count=7)
        at = {view: TWO[view].timestamps()[sampled.indices[view]] for view in TWO}
        assert np.all(np.abs(at["top"] - at["wrist"]) < 1 / 30 + 1e-9)
        assert np.all(at["wrist"] <= at["top"] + 1e-9)

    def test_of_a_camera_that_ended_early_are_refused(self) -> None:
        with pytest.raises(EpisodeError, match=r"'wrist' ends at 0.90 s.*--views top"):
            sample_frames(episode(views={"top": FakeView(50), "wrist": FakeView(10)}), count=4)

    def test_need_a_video_and_a_sane_number(self) -> None:
        with pytest.raises(EpisodeError, match="no video"):
            sample_frames(episode(views={}), count=4)
        with pytest.raises(OptionError):
            sample_frames(episode(), count=0)

    def test_by_index_are_frames_of_the_main_view(self) -> None:
        sampled = sample_frames(episode(views=TWO), indices=[7, 3, 3])
        assert sampled.views == ("top", "wrist")
        assert sampled.indices["top"].tolist() == [3, 7]
        times = TWO["top"].timestamps()[[3, 7]].tolist()
        by_time = sample_frames(episode(views=TWO), times=times)
        assert sampled.times.tolist() == by_time.times.tolist() == times
        assert all(sampled.indices[view].tolist() == by_time.indices[view].tolist() for view in TWO)
        with pytest.raises(OptionError, match="index 50"):
            sample_frames(episode(), indices=[50])


def test_indices_become_whole_numbers() -> None:
    np.testing.assert_array_equal(check_indices([2, 0], 3, "here"), [2, 0])
    with pytest.raises(OptionError, match=r"here has frames 0..2; index 3"):
        check_indices([3], 3, "here")
