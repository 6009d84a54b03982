from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stepscore.episodes import Stage
from stepscore.errors import EpisodeError, OptionError, UnknownNameError
from stepscore.procedures.stage_progress import (
    breakpoints,
    linear_progress,
    procvlm_progress,
    procvlm_sub_tasks,
    sarm_progress,
    sarm_stage_tau,
    stage_tau_progress,
)
from tests.procedures import oracles

FPS = 10


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.tuples(st.sampled_from("abc"), st.integers(2, 30)), min_size=1, max_size=6),
    st.integers(0, 3),
    st.integers(0, 2**32 - 1),
)
def test_procvlm_labels_equal_the_definition(runs: list[tuple[str, int]], done: int, seed: int) -> None:
    names = [name for name, n in runs for _ in range(n)] + ["done"] * done
    similarity = 1 - np.random.default_rng(seed).integers(0, 20, len(names)) / 64
    assert procvlm_progress(names, similarity) == pytest.approx(oracles.procvlm(names, similarity), abs=1e-12)


def test_a_frozen_first_half_earns_43_percent_under_the_published_formula() -> None:
    similarity = np.where(np.arange(101) <= 50, 1.0, 1 - 10 / 64)  # then 10 of 64 bits change a frame
    progress = procvlm_progress(["grasp"] * 101 + ["done"], np.append(similarity, 1.0))
    assert progress[51] == pytest.approx(0.432, abs=5e-4)
    assert progress[-1] == 1.0


def test_at_the_camera_s_rate_procvlm_labels_are_linear_in_time() -> None:
    similarity = 1 - np.random.default_rng(0).uniform(0, 0.1, 300)
    progress = procvlm_progress(["a"] * 100 + ["b"] * 100 + ["c"] * 99 + ["done"], similarity)
    linear = np.interp(np.arange(100), [1, 100], [0, 1 / 3])
    assert np.abs(progress[:100] - linear).max() < 0.005


def test_without_a_frame_of_done_the_last_procvlm_label_is_below_one() -> None:
    assert procvlm_progress(["a"] * 100, np.full(100, 0.95))[-1] == pytest.approx(0.99, abs=5e-4)


def test_procvlm_weighs_long_and_short_stages_at_most_five_to_three() -> None:
    progress = procvlm_progress(["a"] * 10 + ["b"] * 190 + ["done"], np.full(201, 0.95))
    assert progress[10] == pytest.approx(0.75 / (0.75 + 1.25))
    same = procvlm_progress(["a"] * 50 + ["b"] * 50 + ["c"] * 50 + ["done"], np.full(151, 0.95))
    assert same[50] == pytest.approx(1 / 3)


def test_a_stage_of_one_frame_earns_nothing_in_procvlm_labels() -> None:
    progress = procvlm_progress(["a"] * 5 + ["b"] + ["c"] * 5 + ["done"], np.ones(12))
    assert progress[5] == progress[6] == pytest.approx(0.5)


def test_procvlm_without_stages_or_with_other_lengths() -> None:
    assert procvlm_progress(["not done"] * 4, np.ones(4)).tolist() == [0, 0, 0, 0]
    with pytest.raises(OptionError, match="4 frames and similarities"):
        procvlm_progress(["a"] * 4, np.ones(3))


def test_procvlm_fills_gaps_with_the_stage_that_follows() -> None:
    times = np.arange(10) / FPS
    spans = [Stage("a", 0.1, 0.3), Stage("b", 0.5, 0.8)]
    assert procvlm_sub_tasks(spans, times, done=True) == [*"aaabbbbb", "done", "done"]
    assert procvlm_sub_tasks(spans, times, done=False) == [*"aaabbbbbbb"]
    assert procvlm_sub_tasks([Stage("a", 0, 9)], times, done=True) == [*"aaaaaaaaa", "done"]
    with pytest.raises(EpisodeError, match="no stages"):
        procvlm_sub_tasks([], times, done=True)


ORDERS = st.permutations("abcd").flatmap(lambda names: st.integers(1, 4).map(lambda n: names[:n]))


@settings(max_examples=80, deadline=None)
@given(ORDERS, st.lists(st.integers(1, 9), min_size=8, max_size=8), st.data())
def test_sarm_labels_equal_lerobots_frame_by_frame(
    names: list[str], lengths: list[int], data: st.DataObject
) -> None:
    spans: list[oracles.Span] = []
    at = data.draw(st.integers(0, 3))
    for name, length in zip(names, lengths, strict=False):
        spans.append((name, at, at + length))
        at += length + data.draw(st.sampled_from([0, 0, 2]))
    n = at + data.draw(st.integers(1, 4))
    alphas = dict(zip("abcd", [0.1, 0.2, 0.3, 0.4], strict=True))
    stages = [Stage(name, start / FPS, end / FPS) for name, start, end in spans]
    found = sarm_progress(stages, alphas, np.arange(n) / FPS)
    assert found == pytest.approx([oracles.sarm(spans, alphas, i, n) for i in range(n)], abs=1e-12)


def test_shares_of_1_3_6_and_y_of_one_and_a_half_give_a_quarter() -> None:
    assert stage_tau_progress([1.5], [0.1, 0.3, 0.6])[0] == pytest.approx(0.25)
    spans = [Stage("a", 0, 1), Stage("b", 1, 3), Stage("c", 3, 4)]
    assert sarm_progress(spans, {"a": 0.1, "b": 0.3, "c": 0.6}, [2.0])[0] == pytest.approx(0.25)


def test_sarm_before_between_and_after_the_stages() -> None:
    spans = [Stage("a", 1, 2), Stage("b", 4, 5)]
    y = sarm_stage_tau(spans, ["a", "b"], [0.5, 1.5, 2.0, 3.0, 4.5, 5.0, 9.0])
    assert y.tolist() == [0, 0.5, 1.0, 1.0, 1.5, 1.999, 1.999]
    assert stage_tau_progress([-1, 2, 5], [0.5, 0.5]).tolist() == [0, 1, 1]


def test_sarm_with_a_single_stage_is_linear_in_time_whatever_was_annotated() -> None:
    y = sarm_stage_tau([Stage("task", 3, 4)], ["task"], np.arange(5.0))
    assert y.tolist() == [0, 0.25, 0.5, 0.75, 0.999]


def test_an_unknown_stage_is_not_taken_for_the_first() -> None:
    with pytest.raises(UnknownNameError, match=r"'bb'.*Did you mean 'b'"):
        sarm_progress([Stage("bb", 0, 1)], {"a": 0.5, "b": 0.5}, [0.5])


def test_breakpoints_end_at_one_and_refuse_what_is_no_share() -> None:
    assert breakpoints([0.1] * 10)[-1] == 1.0
    assert breakpoints([1, 3]).tolist() == [0, 0.25, 1]
    for shares in ([], [0, 0], [-1, 2]):
        with pytest.raises(OptionError, match="shares"):
            breakpoints(shares)


def test_linear_labels_know_nothing_but_time() -> None:
    assert linear_progress([0, 1, 2], 2).tolist() == [0, 0.5, 1]
    assert linear_progress([0.0], 0.0).tolist() == [0]
