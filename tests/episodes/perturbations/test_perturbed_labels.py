"""Labels after a change: kept where they are still known, unknown where they are not."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stepscore.episodes import Episode, Label, Labels, Subgoal
from stepscore.episodes.labels.label_intervals import success_truth
from stepscore.episodes.labels.labels import check_stages
from stepscore.episodes.perturbations.perturb import (
    cut,
    darken,
    freeze,
    opposite_instruction,
    other_instruction,
    pause,
    reverse,
    slow_down,
)
from tests.fakes import episode

HOLDS, EVER = Label("success", "holds", value=1.0), Label("success", "ever", value=1.0)
FAILED, NEVER = Label("success", "holds", value=0.0), Label("success", "ever", value=0.0)


def labelled(*rows: Label, subgoals: tuple[Subgoal, ...] = ()) -> Episode:
    """Five seconds at 10 frames a second: the last frame is at 4.9 s."""
    return episode(labels=Labels(rows), subgoals=subgoals)


def potential(*points: tuple[float, float], name: str = "potential") -> list[Label]:
    return [Label("progress", name, t, value=v) for t, v in points]


def every_frame(values: np.ndarray, name: str = "potential") -> list[Label]:
    return potential(*((i / 10, float(v)) for i, v in enumerate(values)), name=name)


def progress(changed: Episode) -> list[tuple[float, float]]:
    return [(round(float(t), 6), float(v)) for t, v in zip(*changed.labels.progress(), strict=True)]


UNDONE = np.concatenate([np.linspace(0, 0.9, 20), np.ones(10), np.full(20, 0.4)])
DONE = np.concatenate([np.linspace(0, 0.9, 20), np.ones(30)])


def test_a_success_of_which_only_the_end_is_known_is_unknown_when_cut() -> None:
    assert cut(labelled(HOLDS), 3.0).labels.success is None
    assert cut(labelled(EVER), 3.0).labels.success is None
    assert cut(labelled(FAILED), 3.0).labels.success is None
    assert cut(labelled(HOLDS), 5.0).labels.success is True
    assert cut(labelled(HOLDS), 4.95).labels.success is True


def test_what_was_never_true_is_not_true_in_a_part() -> None:
    for change in (lambda e: cut(e, 1.0), reverse, freeze, lambda e: freeze(e, "last")):
        assert change(labelled(NEVER)).labels.success is False


@pytest.mark.parametrize(
    ("to_s", "held"), [(1.9, False), (2.0, False), (2.1, True), (3.0, True), (3.1, False)]
)
def test_a_part_holds_what_is_true_at_its_last_frame(to_s: float, held: bool) -> None:
    spans = labelled(Label("success", "holds", 2.0, 3.0, 1.0), FAILED)
    by_potential = labelled(FAILED, *every_frame(UNDONE))
    for made in (cut(spans, to_s), cut(by_potential, to_s)):
        assert made.labels.success is held
        assert made.labels.success_mode == "holds"


def test_a_part_of_an_ever_success_succeeds_from_its_first_true_frame_on() -> None:
    both = labelled(FAILED, EVER, *every_frame(UNDONE))
    assert [cut(both, s).labels.success for s in (2.0, 2.1, 4.0)] == [False, True, True]
    swapped = labelled(EVER, FAILED, *every_frame(UNDONE))
    assert [cut(swapped, s).labels.success for s in (2.0, 2.1, 4.0)] == [False, True, False]


def test_progress_that_contradicts_the_success_label_or_is_no_potential_decides_nothing() -> None:
    assert cut(labelled(HOLDS, *every_frame(UNDONE)), 1.0).labels.success is None
    assert cut(labelled(NEVER, *every_frame(DONE)), 3.0).labels.success is False
    linear = every_frame(np.linspace(0, 1, 50), "linear")
    assert cut(labelled(HOLDS, *linear), 1.0).labels.success is None
    assert cut(labelled(*every_frame(DONE)), 3.0).labels.success is None


def test_between_sparse_labels_that_differ_success_is_unknown() -> None:
    sparse = labelled(HOLDS, *potential((0.0, 0.0), (2.0, 0.8), (3.0, 1.0), (4.9, 1.0)))
    assert [cut(sparse, s).labels.success for s in (1.0, 2.1, 2.5, 3.1, 4.0)] == [
        False,
        False,
        None,
        True,
        True,
    ]


def test_a_span_without_an_end_says_only_that_it_happened() -> None:
    subgoals = (Subgoal("grasp"), Subgoal("shut", mode="holds"))
    rows = (Label("subgoal", "grasp", 2.0, value=1.0), Label("subgoal", "shut", 2.0, value=1.0))
    late, early = (cut(labelled(*rows, subgoals=subgoals), s).labels for s in (3.0, 1.0))
    assert (late.subgoal("grasp"), late.subgoal("shut")) == (True, None)
    assert (early.subgoal("grasp"), early.subgoal("shut")) == (False, False)


def test_subgoals_follow_their_mode() -> None:
    subgoals = (Subgoal("grasp", mode="ever"), Subgoal("lifted", mode="holds"), Subgoal("seen"))
    rows = [Label("subgoal", name, 1.0, 2.0, 1.0) for name in ("grasp", "lifted")]
    whole = labelled(*rows, Label("subgoal", "seen", value=1.0), subgoals=subgoals)
    part = cut(whole, 4.0).labels
    assert [part.subgoal(n) for n in ("grasp", "lifted", "seen")] == [True, False, None]
    back = reverse(whole).labels
    assert [back.subgoal(n) for n in ("grasp", "lifted", "seen")] == [None, False, None]
    assert (3.0, 4.0, 1.0) in [(r.start_s, r.end_s, r.value) for r in back.rows if r.name == "lifted"]


def test_a_frozen_episode_stays_where_it_was() -> None:
    done = labelled(HOLDS, Label("stage", "push", 0.0, 5.0), *every_frame(DONE))
    first, last = freeze(done), freeze(done, "last")
    assert (first.labels.success, last.labels.success) == (False, True)
    assert progress(first) == [(0.0, 0.0), (4.9, 0.0)]
    assert progress(last) == [(0.0, 1.0), (4.9, 1.0)]
    assert first.labels.stages == last.labels.stages == ()
    assert freeze(labelled(HOLDS)).labels.success is None
    assert freeze(labelled(HOLDS), "last").labels.success is True
    assert freeze(labelled(EVER), "last").labels.success is None


def test_backwards_progress_falls_and_success_is_that_of_the_first_frame() -> None:
    back = reverse(labelled(HOLDS, Label("stage", "push", 0.0, 5.0), *every_frame(DONE)))
    assert progress(back)[0] == (0.0, 1.0)
    assert progress(back)[-1] == (4.9, 0.0)
    assert [v for _, v in progress(back)] == DONE[::-1].tolist()
    assert back.labels.success is False
    assert back.labels.stages == ()
    assert reverse(labelled(EVER, *every_frame(DONE))).labels.success is None
    assert reverse(labelled(HOLDS)).labels.success is None


def test_stages_are_cut_where_the_outcome_is_known_and_go_where_it_is_not() -> None:
    stages = [Label("stage", "reach", 0.0, 2.0), Label("stage", "push", 2.0, 4.0)]
    known = cut(labelled(*stages, NEVER), 3.0).labels.stages
    assert [(s.name, s.start_s, s.end_s) for s in known] == [("reach", 0.0, 2.0), ("push", 2.0, 3.0)]
    assert check_stages(known, "here")
    assert cut(labelled(*stages, HOLDS), 3.0).labels.stages == ()


def test_slow_and_paused_episodes_keep_all_labels_at_their_new_times() -> None:
    rows = [HOLDS, Label("stage", "reach", 0.0, 2.0), Label("stage", "push", 2.0, 4.0)]
    whole = labelled(*rows, *potential((0.0, 0.0), (1.0, 0.5), (4.0, 1.0)))
    slow = slow_down(whole, 2.0)
    assert slow.labels.success is True
    assert [s.end_s for s in slow.labels.stages] == [4.0, 8.0]
    assert progress(slow) == [(0.0, 0.0), (2.0, 0.5), (8.0, 1.0)]
    rested = pause(whole, 2.0, 1.0)
    assert rested.labels.success is True
    assert [(s.start_s, s.end_s) for s in rested.labels.stages] == [(0.0, 2.0), (2.0, 5.0)]
    level = 0.5 + 0.5 / 3
    expected = [(0.0, 0.0), (1.0, 0.5), (2.0, level), (3.0, level), (5.0, 1.0)]
    assert progress(rested) == [pytest.approx(point) for point in expected]


def test_a_change_of_images_leaves_all_labels() -> None:
    whole = labelled(HOLDS, *every_frame(DONE))
    assert darken(whole).labels == whole.labels


def test_under_another_instruction_nothing_is_known_and_under_the_opposite_only_that_it_is_not_done() -> None:
    whole = labelled(EVER, HOLDS, Label("subgoal", "grasp", value=1.0), *every_frame(DONE))
    assert other_instruction(whole, "wash up").labels == Labels()
    assert opposite_instruction(whole).labels == Labels((replace(HOLDS, value=0.0),))
    for row in (EVER, FAILED, NEVER, Label("success", "holds")):
        assert opposite_instruction(labelled(row)).labels.success is None


def test_authors_stay() -> None:
    said = labelled(replace(NEVER, author="ann", created="2026-01-01"))
    assert cut(said, 1.0).labels.rows == (replace(NEVER, author="ann", created="2026-01-01"),)


RUNS_OF_TRUTH = st.lists(st.integers(1, 25), min_size=1, max_size=6).map(
    lambda runs: [number % 2 == 1 for number, run in enumerate([*runs, 50]) for _ in range(run)][:50]
)


@given(
    truth=RUNS_OF_TRUTH,
    kept=st.integers(1, 49),
    ever=st.booleans(),
    by_spans=st.booleans(),
)
def test_a_part_is_labelled_as_if_it_had_been_recorded_alone(
    truth: list[bool], kept: int, ever: bool, by_spans: bool
) -> None:
    flags = np.array(truth)
    name = "ever" if ever else "holds"
    verdict = Label("success", name, value=float(flags.any() if ever else flags[-1]))
    edges = np.flatnonzero(np.diff(np.concatenate([[0], flags, [0]]))).reshape(-1, 2) / 10
    spans = [Label("success", name, float(a), float(b), 1.0) for a, b in edges]
    # A failure without spans is unknown unless it never succeeded; the potential then decides.
    rows = [*spans, verdict] if by_spans and spans else [verdict, *every_frame(np.where(flags, 1.0, 0.5))]
    part = cut(labelled(*rows), kept / 10)
    assert part.labels.success is bool(flags[:kept].any() if ever else flags[kept - 1])
    again = success_truth(part.labels, (kept - 1) / 10)
    assert [again.held(i / 10) for i in range(kept)] == truth[:kept]
    back = reverse(labelled(*rows)).labels
    expected = (False if not flags.any() else None) if ever else bool(flags[0])
    assert back.success is expected


def test_unknown_rows_stay_unknown() -> None:
    row = Label("success", "holds")
    assert math.isnan(cut(labelled(row), 1.0).labels.rows[0].value)
    assert Labels((row,)).success is None
