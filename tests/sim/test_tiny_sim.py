"""The checked-in dataset, made by ``stepscore sim``: simulated truth without a simulator.

Made by::

    stepscore sim --tasks drawer-open,pick-place,peg-insert-side --policies expert,noisy:0.8,freeze,undo \
        --episodes-per-task 8 --views corner,gripper --size 128 --fps 10 --crf 24 -o tests/data/tiny_sim
"""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest

from stepscore.episodes import Episodes, length_auc, match_lengths, open_episodes
from tests.paths import TINY_SIM


@pytest.fixture(scope="module")
def episodes() -> Episodes:
    return open_episodes(TINY_SIM, labels=TINY_SIM / "labels.parquet", subgoals=TINY_SIM / "subgoals.yaml")


def test_it_is_small() -> None:
    assert sum(path.stat().st_size for path in TINY_SIM.rglob("*") if path.is_file()) < 3 * 2**20


def test_four_policies_meet_the_same_two_scenes_of_three_tasks(episodes: Episodes) -> None:
    assert episodes.reader == "lerobot"
    assert not episodes.problems
    assert Counter(episode.policy for episode in episodes) == {
        "expert": 6,
        "noisy:0.8": 6,
        "freeze": 6,
        "undo": 6,
    }
    assert set(Counter(episode.pair for episode in episodes).values()) == {4}
    assert len({episode.instruction for episode in episodes}) == 3


def test_every_frame_has_an_image_and_a_progress(episodes: Episodes) -> None:
    for episode in episodes:
        clip = episode.clip("corner", count=3)
        assert clip.frames.shape == (3, 128, 128, 3)
        assert clip.frames.std() > 20
        times, progress = episode.labels.progress()
        assert times == pytest.approx(episode.view("corner").timestamps(), abs=1e-6)
        assert ((progress >= 0) & (progress <= 1)).all()


def test_policies_of_a_pair_begin_with_the_same_image(episodes: Episodes) -> None:
    first, second = (episode.clip("corner", indices=[0]).frames.astype(int) for episode in list(episodes)[:2])
    assert np.abs(first - second).mean() < 4, "but for what the codec makes of them"


def test_progress_ends_at_1_exactly_on_successes(episodes: Episodes) -> None:
    ends = {episode.id: episode.labels.progress()[1][-1] for episode in episodes}
    assert {name for name, end in ends.items() if end == 1.0} == {
        episode.id for episode in episodes if episode.labels.success
    }
    assert {episode.labels.success for episode in episodes} == {True, False}


def test_what_was_undone_had_been_done(episodes: Episodes) -> None:
    undone = [episode for episode in episodes if episode.policy == "undo"]
    assert len(undone) == 6
    for episode in undone:
        ever = [row.value for row in episode.labels.rows if row.kind == "success" and row.name == "ever"]
        _, progress = episode.labels.progress()
        assert ever[-1] == 1.0
        assert episode.labels.success is False
        assert progress.max() == 1.0 > progress[-1]


def test_every_subgoal_of_every_episode_is_answered(episodes: Episodes) -> None:
    for episode in episodes:
        assert len(episode.subgoals) >= 3
        assert {episode.labels.subgoal(subgoal.name) for subgoal in episode.subgoals} <= {True, False}
        assert episode.labels.stages[0].start_s == 0.0


def test_length_gives_success_away_until_lengths_are_matched(episodes: Episodes) -> None:
    assert length_auc(episodes) > 0.6
    matched = match_lengths(episodes)
    assert len(matched.pairs) >= 3
    assert 0.45 <= length_auc(matched.episodes) <= 0.55
