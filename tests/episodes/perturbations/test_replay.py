"""Episodes played forth and back, again, in another order, with other cameras or in other words."""

from __future__ import annotations

import numpy as np
import pytest

from stepscore.episodes import Episode, Label, Labels, Subgoal
from stepscore.episodes.perturbations import (
    blank,
    negate,
    paraphrase,
    repeat,
    retry,
    round_trip,
    shuffle,
    swap_cameras,
    twice,
)
from stepscore.episodes.perturbations.image_perturbations import Blank, LowResolution, Noisy
from stepscore.errors import OptionError, UnknownNameError
from stepscore.types import Frames
from tests.fakes import FakeView, episode

TEN = {"top": FakeView(n=10, fps=10.0)}


def shown(changed: Episode, view: str = "top") -> list[int]:
    read = changed.view(view)
    return [int(frame[0, 0, 0]) for frame in read.read(range(read.info().n_frames))]


def test_a_round_trip_shows_the_last_frame_once_and_ends_where_it_began() -> None:
    made = round_trip(episode(views=TEN))
    assert shown(made) == [*range(10), *range(8, -1, -1)]
    assert made.view().timestamps() == pytest.approx(np.arange(19) / 10)


def test_a_retry_goes_back_and_on_from_there() -> None:
    made = retry(episode(views={"top": FakeView(n=11, fps=10.0)}), to=0.6, back_to=0.2)
    assert shown(made) == [0, 1, 2, 3, 4, 5, 6, 5, 4, 3, 2, 3, 4, 5, 6, 7, 8, 9, 10]


def test_a_repeated_episode_begins_again() -> None:
    made = repeat(episode(views=TEN), 3)
    assert shown(made) == [*range(10)] * 3
    assert made.view().timestamps() == pytest.approx(np.arange(30) / 10)


def test_to_be_done_twice_half_is_done_when_the_first_view_recurs() -> None:
    values = [0.0, 0.2, 0.5, 1.0, 1.0]
    rows = [Label("progress", "potential", i / 10, value=value) for i, value in enumerate(values)]
    five = {"top": FakeView(n=5, fps=10.0)}
    done = Labels((Label("success", "holds", value=1.0), *rows))
    made = twice(episode(views=five, instruction="Open the drawer.", labels=done))
    assert made.instruction == "Do this twice: open the drawer."
    assert shown(made) == [*range(5)] * 2
    times, progress = made.labels.progress()
    assert times == pytest.approx(np.arange(10) / 10)
    assert progress.tolist() == [0.0, 0.1, 0.25, 0.5, 0.5, 0.5, 0.6, 0.75, 1.0, 1.0]
    assert made.labels.success is True
    failed = Labels((Label("success", "holds", value=0.0), *rows[:3]))
    other = twice(episode(views=five, labels=failed)).labels
    assert (other.success, other.potentials) == (False, ())
    assert twice(episode(views=five)).labels == Labels()


def test_blocks_are_shuffled_by_id_and_seed_alone_and_none_is_lost() -> None:
    many = {"top": FakeView(n=64, fps=10.0)}
    made = shuffle(episode(views=many), blocks=8)
    frames = shown(made)
    assert frames != sorted(frames)
    assert set(frames) == set(range(64))
    assert frames == shown(shuffle(episode(views=many), blocks=8))
    assert frames != shown(shuffle(episode("other", views=many), blocks=8))
    assert frames != shown(shuffle(episode(views=many), blocks=8, seed=1))
    assert shown(shuffle(episode(views=TEN), blocks=2))[0] == 4  # never the recorded order


def test_progress_follows_the_frames_and_success_is_what_the_last_one_shows() -> None:
    rises = [Label("progress", "potential", i / 10, value=i / 9) for i in range(10)]
    done = episode(views=TEN, labels=Labels((Label("success", "holds", value=1.0), *rises)))
    back = round_trip(done)
    times, values = back.labels.progress()
    assert times == pytest.approx(np.arange(19) / 10)
    assert values == pytest.approx(np.concatenate([np.arange(10), np.arange(8, -1, -1)]) / 9)
    assert back.labels.success is False
    assert repeat(done).labels.success is True
    ever = episode(views=TEN, labels=Labels((Label("success", "ever", value=1.0), *rises)))
    assert round_trip(ever).labels.success is True


def test_spans_of_a_subgoal_are_where_its_frames_are_shown() -> None:
    goals = (Subgoal("grasped", "Is it grasped?", "holds"),)
    spans = (Label("subgoal", "grasped", 0.5, 0.8, 1.0), Label("subgoal", "grasped", value=0.0))
    made = round_trip(episode(views=TEN, subgoals=goals, labels=Labels(spans)))
    moved = [(r.start_s, r.end_s) for r in made.labels.rows if r.value == 1.0]
    assert moved == [(pytest.approx(0.5), pytest.approx(0.8)), (pytest.approx(1.1), pytest.approx(1.4))]
    assert made.labels.subgoal("grasped") is False


def test_what_only_the_end_knows_is_unknown_after_a_round_trip() -> None:
    only_end = episode(views=TEN, labels=Labels((Label("success", "holds", value=1.0),)))
    assert round_trip(only_end).labels.success is None
    assert repeat(only_end).labels.success is True


@pytest.mark.parametrize("wrong", [{"to": 0.2, "back_to": 0.5}, {"to": 1.5}, {"back_to": -0.1}])
def test_a_retry_of_impossible_shares_is_refused(wrong: dict[str, float]) -> None:
    with pytest.raises(OptionError, match="back_to"):
        retry(episode(), **wrong)
    with pytest.raises(OptionError, match="blocks"):
        shuffle(episode(), blocks=1)
    with pytest.raises(OptionError, match="times"):
        repeat(episode(), 1)


def test_one_camera_or_all_can_be_black_and_cameras_can_be_swapped() -> None:
    two = episode(views={"top": FakeView(n=10), "wrist": FakeView(n=12, mark="wrist")})
    assert set(shown(blank(two))) == set(shown(blank(two), "wrist")) == {0}
    one = blank(two, "wrist")
    assert shown(one) == list(range(10))
    assert set(shown(one, "wrist")) == {0}
    swapped = swap_cameras(two)
    assert shown(swapped) == list(range(12))
    assert shown(swapped, "wrist") == list(range(10))
    assert len({e.fingerprint for e in (two, swapped, one, blank(two))}) == 4
    with pytest.raises(UnknownNameError, match="top, wrist"):
        blank(two, "left")
    with pytest.raises(OptionError, match="one camera"):
        swap_cameras(episode())


def picture() -> Frames:
    return np.random.default_rng(0).integers(0, 256, (48, 64, 3)).astype(np.uint8)


def test_noise_has_its_size_and_is_the_same_each_time() -> None:
    image = np.full((64, 64, 3), 128, np.uint8)
    noisy = Noisy(12.0).apply(image)
    assert np.std(noisy.astype(float) - 128) == pytest.approx(12.0, rel=0.05)
    assert np.array_equal(noisy, Noisy(12.0).apply(image))
    assert not np.array_equal(noisy, Noisy(12.0, seed=1).apply(image))


def test_a_lower_resolution_keeps_size_and_mean_and_loses_detail() -> None:
    image = picture()
    low = LowResolution(4.0).apply(image)
    assert low.shape == image.shape
    assert low.mean() == pytest.approx(image.mean(), abs=1.5)
    assert low.std() < 0.5 * image.std()
    assert not Blank().apply(image).any()


def test_a_paraphrase_asks_for_the_same_and_keeps_labels_and_subgoals() -> None:
    recorded = episode(
        instruction="Open the drawer.",
        subgoals=(Subgoal("grasped", "Is it grasped?"),),
        labels=Labels((Label("success", "holds", value=1.0),)),
    )
    made = paraphrase(recorded)
    assert made.instruction == "Please open the drawer."
    assert made.labels == recorded.labels
    assert made.subgoals == recorded.subgoals
    assert paraphrase(recorded, 1).instruction == "The robot has to open the drawer."
    assert paraphrase(recorded, paraphrases=["{0}, now"]).instruction == "open the drawer, now"
    with pytest.raises(OptionError, match="own instruction"):
        paraphrase(recorded, paraphrases=["Open the drawer."])


def test_a_negated_instruction_turns_success_around() -> None:
    won = episode(labels=Labels((Label("success", "holds", value=1.0),)))
    assert negate(won).instruction == "Do not open the drawer."
    assert negate(won).labels.success is False
    lost = episode(labels=Labels((Label("success", "holds", value=0.0),)))
    assert negate(lost).labels.success is True
    assert negate(episode(labels=Labels((Label("success", "ever", value=1.0),)))).labels.success is None
    assert negate(episode(instruction="LIBERO task")).instruction == "Do not LIBERO task."
