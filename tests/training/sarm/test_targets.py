"""SARM's targets follow the labels, and the targets of a window are those of the frames it shows."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from stepscore.episodes import Label, Labels, Stage, open_episodes
from stepscore.errors import EpisodeError, OptionError
from stepscore.models.sarm.config import Procedure
from stepscore.models.sarm.window import Window
from stepscore.procedures import success_from_stages
from stepscore.procedures.progress_labels import ProgressLabelOptions, label_progress
from stepscore.training.labelled_source import LabelledSource
from stepscore.training.sarm.batches import (
    PerturbationConfig,
    random_instructions,
    rewind_frames,
    sample_window,
    window_targets,
)
from stepscore.training.sarm.dataset import (
    TrainingEpisode,
    choose_progress,
    read_labelled,
    with_sparse_stages,
)
from stepscore.training.sarm.targets import (
    LabelledEpisode,
    Targets,
    find_procedure,
    head_targets,
    read_episode_labels,
    single_stage_targets,
    targets_of,
)
from tests import fakes
from tests.paths import TINY_SIM

PUCK = "pick up the puck and bring it to the mark"


@pytest.fixture(scope="module")
def labelled() -> list[LabelledEpisode]:
    return read_labelled(LabelledSource(TINY_SIM).episodes(), "potential", scheme=None, staged=True)[0]


def fake(name: str = "e", *, success: float | None = 1.0, stages: tuple[Stage, ...] = ()) -> LabelledEpisode:
    rows = [Label("stage", s.name, s.start_s, s.end_s) for s in stages]
    rows += [] if success is None else [Label("success", "holds", value=success)]
    episode = fakes.episode(name, labels=Labels(tuple(rows)))
    return read_episode_labels(episode, "stages" if stages else "linear", staged=bool(stages))


def training_episode(n: int = 60, task: str = "a") -> TrainingEpisode:
    """Return an episode at 10 frames a second whose target at frame i is stage i // 20 and share i % 20 / 20."""
    at = np.arange(n)
    own = Targets(at // 20, at % 20 / 20, at / n)
    one = LabelledEpisode(fakes.episode("e", task=task, instruction=f"do {task}"), at / 10, (), at / n, True)
    return TrainingEpisode(one, (np.zeros((n, 1, 2), np.float16),), np.zeros((n, 0)), {"dense": own})


def test_stages_are_ordered_by_the_progress_at_which_they_lie(labelled: list[LabelledEpisode]) -> None:
    found, _ = head_targets(labelled)
    # Some rollouts skip lifting and drop the puck later, so that lifting first shows after carrying.
    assert found[PUCK].stages == (
        "reach the puck",
        "grasp the puck",
        "lift the puck",
        "carry the puck to the mark",
    )


def test_stage_and_share_are_the_labelled_progress_again(labelled: list[LabelledEpisode]) -> None:
    procedures, rows = head_targets(labelled)
    for one, own in zip(labelled, rows, strict=True):
        points = np.array(procedures[one.task].breakpoints)
        again = points[own.stage] + own.share * (points[own.stage + 1] - points[own.stage])
        assert one.potential is not None
        np.testing.assert_allclose(again, one.potential, atol=1e-9, err_msg=one.episode.id)
        np.testing.assert_array_equal(own.progress, one.potential)


def test_unequal_stages_begin_where_their_labels_do() -> None:
    times = np.arange(100) / 10
    spans = (Stage("a", 0.0, 2.0), Stage("b", 2.0, 10.0))
    one = LabelledEpisode(fakes.episode(), times, spans, times / 10, None)
    found = find_procedure([one])
    assert found.breakpoints == pytest.approx((0.0, 0.2, 1.0), abs=0.03)
    own = targets_of(one, found)
    np.testing.assert_array_equal(own.stage, times >= 2.0)


def test_sarms_own_targets_are_those_of_its_labels() -> None:
    episodes = list(open_episodes(TINY_SIM, labels=TINY_SIM / "labels.parquet"))
    wanted = label_progress(episodes, ProgressLabelOptions("sarm")).progress
    mine = [read_episode_labels(episode, "stages") for episode in episodes]
    _, rows = head_targets(mine)
    assert sum((~np.isnan(own.progress)).sum() for own in rows) > 100
    for one, own in zip(mine, rows, strict=True):
        known = ~np.isnan(own.progress)
        np.testing.assert_allclose(own.progress[known], wanted[one.episode.id].progress[known], atol=2e-3)


def test_how_far_a_failed_stage_got_is_unknown_without_progress_labels() -> None:
    good = fake("a", stages=(Stage("reach", 0.0, 2.0), Stage("pull", 2.0, 5.0)))
    bad = fake("b", success=0.0, stages=(Stage("reach", 0.0, 1.0), Stage("pull", 1.0, 5.0)))
    procedure = find_procedure([good, bad])
    assert procedure == Procedure(("reach", "pull"), (0.0, 0.4, 1.0))
    own = targets_of(bad, procedure)
    assert np.isnan(own.share[bad.times >= 1.0]).all()
    assert (own.stage[bad.times > 1.0] == 1).all()
    assert not np.isnan(own.share[bad.times < 1.0]).any()
    done = targets_of(good, procedure)
    assert done.progress[-1] == pytest.approx(1.0, abs=0.02)


def test_how_far_the_last_stage_got_is_unknown_without_a_success_label() -> None:
    stages = (Stage("reach", 0.0, 2.0), Stage("pull", 2.0, 5.0))
    silent, good = fake("a", success=None, stages=stages), fake("b", stages=stages)
    for procedure in (find_procedure([silent, good]), find_procedure([silent])):
        own = targets_of(silent, procedure)
        assert np.isnan(own.share[silent.times >= 2.0]).all()
        assert np.isnan(own.progress[silent.times >= 2.0]).all()
        assert (own.stage[silent.times >= 2.0] == 1).all(), "which stage it is stays known"
    assert silent.done is None


def test_success_comes_from_stages_only_where_no_label_says_it() -> None:
    reach, pull = Stage("reach", 0.0, 2.0), Stage("pull", 2.0, 5.0)
    given = [
        fake("reached", success=None, stages=(reach, pull)),
        fake("stopped", success=None, stages=(reach,)),
        fake("failed", success=0.0, stages=(reach, pull)),
        fake("nothing", success=None),
    ]
    before = [one.episode for one in given]
    after = success_from_stages(before)
    assert [episode.labels.success for episode in before] == [None, None, False, None]
    assert [episode.labels.success for episode in after] == [True, False, False, None]
    assert (after[2], after[3]) == (before[2], before[3])
    assert after[0].labels.rows[-1].author == "stages"
    assert targets_of(read_episode_labels(after[0], "stages"), find_procedure(given)).progress[-1] > 0.9


def test_a_stage_no_trained_episode_shows_is_unknown() -> None:
    one = fake(stages=(Stage("reach", 0.0, 2.0), Stage("dance", 2.0, 5.0)))
    own = targets_of(one, Procedure(("reach", "pull"), (0.0, 0.5, 1.0)))
    assert (own.stage[one.times >= 2.0] == -1).all()
    assert np.isnan(own.share[one.times >= 2.0]).all()


def test_frame_index_labels_are_time_over_duration() -> None:
    one = read_episode_labels(fakes.episode(), "linear", staged=False)
    (own,) = single_stage_targets([one])
    np.testing.assert_allclose(own.share, np.arange(50) / 49)
    assert (own.stage == 0).all()


def test_progress_outside_of_its_labels_is_unknown() -> None:
    rows = tuple(Label("progress", "p", start_s=t, value=t / 4) for t in (1.0, 2.0, 3.0))
    one = read_episode_labels(fakes.episode(labels=Labels(rows)), "p", staged=False)
    assert one.potential is not None
    np.testing.assert_array_equal(
        np.isnan(one.potential), (one.times < 0.9 - 1e-9) | (one.times > 3.1 + 1e-9)
    )
    with pytest.raises(EpisodeError, match="it has: p"):
        read_episode_labels(fakes.episode(labels=Labels(rows)), "q", staged=False)


def test_one_of_several_progress_labels_must_be_named() -> None:
    rows = tuple(Label("progress", name, start_s=0.0, value=0.0) for name in ("robust", "sarm"))
    episode = fakes.episode(labels=Labels(rows))
    with pytest.raises(OptionError, match="-T progress"):
        choose_progress([episode], None)
    assert choose_progress([episode], "robust") == "robust"
    assert choose_progress([fakes.episode()], None) == "stages"


def test_sparse_stages_come_from_a_file_of_their_own(labelled: list[LabelledEpisode], tmp_path: Path) -> None:
    from stepscore.procedures.labels_table import write_labels

    halves = {
        one.episode.id: [
            Label("stage", "first", 0.0, 0.5),
            Label("stage", "second", 0.5, float(one.times[-1])),
        ]
        for one in labelled
    }
    write_labels(tmp_path / "sparse.parquet", halves)
    sparse = with_sparse_stages(labelled, tmp_path / "sparse.parquet")
    procedures, _ = head_targets(sparse)
    assert all(set(p.stages) <= {"first", "second"} for p in procedures.values())
    with pytest.raises(EpisodeError, match="-T sparse-labels"):
        with_sparse_stages(labelled, None)


@pytest.mark.parametrize("causal", [True, False])
def test_labels_of_a_rewound_window_are_those_of_the_frames_it_shows(*, causal: bool) -> None:
    one, window, rng = training_episode(), Window(4, 0.5, causal, 4), np.random.default_rng(0)
    rewinds = 0
    for _ in range(200):
        drawn = sample_window(0, one, window, PerturbationConfig(0.8, 0.0), {"a": ["do a"]}, ["x"], rng)
        stage, share = window_targets(drawn, one, "dense")
        for slot in range(window.slots):
            if drawn.valid[slot]:
                frame = int(drawn.frames[slot])
                assert (stage[slot], share[slot]) == (frame // 20, frame % 20 / 20)
            else:
                assert stage[slot] == -1
                assert np.isnan(share[slot])
        back = drawn.frames[5:][drawn.valid[5:]]
        if len(back):
            rewinds += 1
            last = drawn.frames[:5][drawn.valid[:5]].max()
            np.testing.assert_array_equal(back, last - 5 * np.arange(1, len(back) + 1))
    assert 100 < rewinds < 195


def test_an_episode_is_not_rewound_beyond_its_beginning() -> None:
    rng, window = np.random.default_rng(0), Window(4, 0.5, True, 4)
    times = np.arange(60) / 10
    assert len(rewind_frames(times, 4, window, rng)) == 0
    assert max(len(rewind_frames(times, 12, window, rng)) for _ in range(50)) == 2
    assert all(rewind_frames(times, 30, window, rng).min() >= 0 for _ in range(20))


def test_language_perturbation_is_drawn_for_every_window_and_nothing_of_it_is_done() -> None:
    episodes, rng = [training_episode(task="a"), training_episode(task="b")], np.random.default_rng(0)
    texts, random_texts = {"a": ["do a"], "b": ["do b"]}, random_instructions(0)
    window, perturbation = Window(4, 0.5, True, 2), PerturbationConfig(0.0, 0.2)
    sampled = [
        sample_window(i % 2, episodes[i % 2], window, perturbation, texts, random_texts, rng)
        for i in range(500)
    ]
    perturbed = [one for one in sampled if one.perturbed]
    assert 60 < len(perturbed) < 140
    assert {one.text for one in perturbed if one.text in ("do a", "do b")} == {"do a", "do b"}
    assert any(one.text in random_texts for one in perturbed)
    for one in sampled:
        assert (one.text == f"do {'ab'[one.episode]}") == (not one.perturbed)
        stage, share = window_targets(one, episodes[one.episode], "dense")
        if one.perturbed:
            assert (stage[one.valid] == 0).all()
            assert (share[one.valid] == 0).all()


def test_a_single_task_has_negatives_too() -> None:
    one, rng = training_episode(), np.random.default_rng(0)
    window, perturbation = Window(2, 0.5), PerturbationConfig(0, 1.0)
    sampled = [
        sample_window(0, one, window, perturbation, {"a": ["do a"]}, ["wash a shoe"], rng) for _ in range(5)
    ]
    assert {each.text for each in sampled} == {"wash a shoe"}


def test_the_labels_of_an_episode_are_not_those_of_another_task(labelled: list[LabelledEpisode]) -> None:
    procedures, _ = head_targets(labelled[:4])
    other = replace(labelled[-1])
    with pytest.raises(OptionError, match="not trained on"):
        head_targets([other], procedures)


def test_episodes_without_labels_are_all_counted_though_two_datasets_use_the_same_ids() -> None:
    episodes = LabelledSource(TINY_SIM).episodes()
    found, why = read_labelled([*episodes, *episodes], "robust", scheme=None, staged=False)
    assert not found
    assert len(why) == 2 * len(episodes)
