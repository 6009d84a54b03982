from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stepscore.episodes import Stage
from stepscore.errors import EpisodeError, OptionError, UnknownNameError
from stepscore.procedures.robust_progress import robust_progress, usual_change, visits

THIRDS = {"reach": 1 / 3, "grasp": 1 / 3, "lift": 1 / 3}
TIMES = np.arange(61) / 10
MOVING = np.append(0.0, np.ones(60))
USUAL = {"reach": 20.0, "grasp": 20.0, "lift": 20.0}


def spans(*named: tuple[str, float, float]) -> list[Stage]:
    return [Stage(*one) for one in named]


WHOLE = spans(("reach", 0, 2), ("grasp", 2, 4), ("lift", 4, 6))


def test_a_steady_success_rises_evenly_from_0_to_1() -> None:
    progress = robust_progress(WHOLE, THIRDS, TIMES, MOVING, succeeded=True)
    assert progress[0] == 0
    assert progress[-1] == 1
    assert np.all(np.diff(progress) >= 0)
    assert np.abs(progress - TIMES / 6).max() < 0.02


def test_what_is_frozen_earns_nothing() -> None:
    change = np.where((TIMES > 2) & (TIMES < 3), 0.0, MOVING)
    progress = robust_progress(WHOLE, THIRDS, TIMES, change, succeeded=True)
    earned = (progress[29] - progress[20]) / (1 / 3)
    assert earned < 0.11  # the one frame that still moved as the stage began
    change[20] = 0.0
    progress = robust_progress(WHOLE, THIRDS, TIMES, change, succeeded=True)
    assert progress[29] == progress[20] == pytest.approx(1 / 3)


def test_undoing_a_stage_lowers_progress() -> None:
    undone = spans(("reach", 0, 1), ("grasp", 1, 2), ("lift", 2, 3), ("grasp", 3, 4.5), ("reach", 4.5, 6))
    progress = robust_progress(undone, THIRDS, TIMES, MOVING, succeeded=False)
    assert progress[19] == pytest.approx(2 / 3)
    assert progress[30] <= 2 / 3
    assert np.all(np.diff(progress[30:]) <= 1e-12)
    assert progress[-1] < 1 / 3


def test_undoing_a_finished_task_lowers_progress_from_1() -> None:
    undone = [*spans(("reach", 0, 1), ("grasp", 1, 2), ("lift", 2, 3)), Stage("lift", 4, 6)]
    progress = robust_progress(undone, THIRDS, TIMES, MOVING, succeeded=False, reached=True, usual=USUAL)
    assert progress[30:40].tolist() == [1.0] * 10
    assert np.all(np.diff(progress[39:]) <= 0)
    assert progress[-1] < 0.9


def test_a_task_done_and_undone_within_its_last_stage_rises_to_1_and_sinks() -> None:
    undone = spans(("reach", 0, 1), ("grasp", 1, 2), ("lift", 2, 5), ("grasp", 5, 6))
    progress = robust_progress(
        undone, THIRDS, TIMES, MOVING, succeeded=False, reached=True, usual={"lift": 10.0}
    )
    assert progress.argmax() == 29
    assert progress[29] == pytest.approx(1)
    assert np.all(np.diff(progress[29:]) <= 0)
    assert progress[50] <= 2 / 3
    never = robust_progress(undone, THIRDS, TIMES, MOVING, succeeded=False, usual={"lift": 10.0})
    assert never.max() < 0.91
    still = robust_progress(undone, THIRDS, TIMES, np.zeros(61), succeeded=False, reached=True)
    assert still.max() < 0.7  # nothing shows when it would have been


def test_a_repeated_stage_keeps_its_place() -> None:
    again = spans(("reach", 0, 1), ("grasp", 1, 2), ("lift", 2, 3), ("grasp", 3, 4), ("lift", 4, 6))
    progress = robust_progress(again, THIRDS, TIMES, MOVING, succeeded=True, usual=USUAL)
    first, second = progress[10:20], progress[30:40]
    for part in (first, second):
        assert 1 / 3 <= part.min() <= part.max() <= 2 / 3 + 1e-12
    # It sinks for half of its change, which is a quarter of the usual one, before it is done again.
    assert second.argmin() == 4
    assert second.min() == pytest.approx(1 / 3 + np.exp(-0.25) / 3)
    assert progress[40:].min() >= 2 / 3
    assert progress[-1] == 1


def test_a_second_attempt_goes_on_where_the_first_stopped() -> None:
    tried = spans(("reach", 0, 2), ("grasp", 2, 3), ("grasp", 4, 5), ("lift", 5, 6))
    progress = robust_progress(tried, THIRDS, TIMES, MOVING, succeeded=True, usual=USUAL)
    assert 1 / 3 < progress[29] < 2 / 3
    assert progress[30:40].tolist() == pytest.approx([progress[29]] * 10)
    assert np.all(np.diff(progress) >= -1e-12)


def test_a_failure_stays_where_it_stopped() -> None:
    stopped = spans(("reach", 0, 2), ("grasp", 2, 6))
    change = np.where(TIMES > 3, 0.0, MOVING)
    progress = robust_progress(stopped, THIRDS, TIMES, change, succeeded=False, usual=USUAL)
    assert 1 / 3 < progress[30] < 2 / 3
    assert progress[30:].tolist() == [progress[30]] * 31
    unknown = robust_progress(stopped, THIRDS, TIMES, change, succeeded=False)
    assert unknown[-1] == pytest.approx(1 / 3)  # nothing says how much of a grasp was done


def test_an_unfinished_stage_never_arrives() -> None:
    progress = robust_progress(WHOLE, THIRDS, TIMES, 10 * MOVING, succeeded=False, usual=USUAL)
    assert 2 / 3 + 0.6 / 3 < progress[-1] < 2 / 3 + 0.7 / 3
    slow = robust_progress(WHOLE, THIRDS, TIMES, MOVING / 10, succeeded=False, usual=USUAL)
    assert slow[-1] == pytest.approx(2 / 3 + 0.1 / 3, abs=0.005)  # at first as a completed one does


def test_the_last_frame_of_a_success_is_1_even_where_stages_were_skipped_or_nothing_moved() -> None:
    still = np.zeros(61)
    assert robust_progress(WHOLE, THIRDS, TIMES, still, succeeded=True)[-1] == 1
    assert robust_progress(spans(("reach", 0, 3)), THIRDS, TIMES, MOVING, succeeded=True)[-1] == 1


@settings(max_examples=80, deadline=None)
@given(
    st.lists(
        st.tuples(st.sampled_from(list(THIRDS)), st.integers(1, 12), st.sampled_from([0, 0, 3])), min_size=1
    ),
    st.booleans(),
    st.booleans(),
    st.integers(0, 99),
)
def test_progress_is_always_in_0_to_1_and_within_the_stages_place(
    runs: list[tuple[str, int, int]], succeeded: bool, reached: bool, seed: int
) -> None:
    made, at = [], 0
    for name, length, gap in runs:
        made.append(Stage(name, at / 10, (at + length) / 10))
        at += length + gap
    change = np.random.default_rng(seed).exponential(1, at + 1)
    times = np.arange(at + 1) / 10
    progress = robust_progress(made, THIRDS, times, change, succeeded=succeeded, reached=reached, usual=USUAL)
    assert np.all((progress >= 0) & (progress <= 1))
    assert not succeeded or progress[-1] == 1
    for span in made:
        inside = progress[(times >= span.start_s - 1e-9) & (times < span.end_s - 1e-9)]
        low = list(THIRDS).index(span.name) / 3
        assert np.all((inside >= low - 1e-9) & (inside <= low + 1 / 3 + 1e-9))


def test_the_usual_change_is_the_median_of_completed_first_runs() -> None:
    seen = [visits(WHOLE, list(THIRDS), TIMES, succeeded=done) for done in (True, True, False)]
    found = usual_change(seen, [MOVING, 3 * MOVING, 2 * MOVING], list(THIRDS))
    assert found == pytest.approx({"reach": 38, "grasp": 40, "lift": 40})


def test_wrong_input_is_named() -> None:
    with pytest.raises(UnknownNameError, match="stage 'hop'"):
        robust_progress(spans(("hop", 0, 1)), THIRDS, TIMES, MOVING, succeeded=True)
    with pytest.raises(EpisodeError, match="no stages"):
        robust_progress([], THIRDS, TIMES, MOVING, succeeded=True)
    for change in (MOVING[:5], -MOVING, np.full(61, np.nan)):
        with pytest.raises(OptionError, match="61 numbers of at least 0"):
            robust_progress(WHOLE, THIRDS, TIMES, change, succeeded=True)
