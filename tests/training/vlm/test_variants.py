"""Variants of a video: other frames at other times, and every label is that of the frame shown."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from stepscore.training.vlm import setup as vlm_setup
from stepscore.training.vlm.data import variants
from stepscore.training.vlm.data.answer_key import EpisodeTruth
from stepscore.training.vlm.data.clips import TWICE, completion_log_odds, sample_clip, sample_statements
from stepscore.training.vlm.data.dataset import LabelledVideo, read_videos
from stepscore.training.vlm.data.image_batches import _at_other_times
from stepscore.training.vlm.data.prompt_tree import Question
from stepscore.types import IntArray
from tests.paths import TINY_SIM


@pytest.fixture(scope="module")
def videos(tmp_path_factory: pytest.TempPathFactory) -> list[LabelledVideo]:
    return read_videos(TINY_SIM, 32, tmp_path_factory.mktemp("frames"))


def drawn(video: LabelledVideo, name: str, seed: int) -> tuple[LabelledVideo, IntArray]:
    order = variants.ORDERS[name](video, np.random.default_rng(seed))
    times = variants._timestamps(len(order), 0.1, np.random.default_rng(seed))
    return variants.shown_as(video, order, times), order


@pytest.mark.parametrize("name", variants.ORDERS)
def test_labels_of_a_variant_are_those_of_the_frames_shown(videos: list[LabelledVideo], name: str) -> None:
    for seed, video in enumerate(videos[::2]):
        shown, order = drawn(video, name, seed)
        truth = EpisodeTruth(shown.episode)
        view = shown.episode.main_view
        assert (shown.views[view] == video.views[view][order]).all()
        assert (shown.episode.views[view].timestamps() == shown.times).all()
        assert truth.progress_at(shown.times) == pytest.approx(video.potential[order])
        for number, subgoal in enumerate(shown.subgoals):
            so_far = np.maximum.accumulate(video.subgoals_true[order, number])
            expected = so_far if subgoal.mode == "ever" else video.subgoals_true[order, number]
            assert [truth.reached(number, float(t)) for t in shown.times] == expected.astype(bool).tolist()


def test_a_variant_reads_the_frames_it_names(videos: list[LabelledVideo]) -> None:
    """What a judge of the varied episode would be shown is what training shows."""
    shown, order = drawn(videos[0], "there and back", 1)
    view = shown.episode.main_view
    read = shown.episode.clip(view, indices=range(len(order))).frames
    recorded = videos[0].episode.clip(view, indices=order.tolist()).frames
    assert (read == recorded).all()


def test_the_length_of_a_video_says_nothing_of_success(videos: list[LabelledVideo]) -> None:
    """Successes are cut early and held long: neither outcome has the longer videos."""
    rng = np.random.default_rng(0)
    success = next(v for v in videos if v.success[-1] == 1.0)
    shown = [variants.vary(success, rng) for _ in range(300)]
    lengths = np.array([len(v) for v in shown])
    assert lengths.min() < len(success) / 2
    assert lengths.max() > 1.5 * len(success)
    ends = np.array([v.success[-1] for v in shown])
    assert 0.2 < ends.mean() < 0.9
    assert ends[lengths > len(success)].mean() < 1.0


def test_timestamps_begin_at_0_and_rise() -> None:
    for seed in range(50):
        times = variants._timestamps(20, 0.1, np.random.default_rng(seed))
        assert times[0] == 0.0
        assert (np.diff(times) > 0).all()


def test_one_frame_has_no_variant(videos: list[LabelledVideo], tmp_path: Path) -> None:
    alone = variants.shown_as(videos[0], np.array([0]), np.array([0.0]))
    rng = np.random.default_rng(0)
    assert all(variants.vary(alone, rng) is alone for _ in range(20))


def test_a_success_played_twice_is_half_done_after_the_first_time(videos: list[LabelledVideo]) -> None:
    success = next(v for v in videos if v.success[-1] == 1.0)
    n, texts, rng = len(success), vlm_setup.texts_of(videos, {}), np.random.default_rng(0)
    again = replace(
        variants.shown_as(success, np.tile(np.arange(n), 2), np.linspace(0.0, 0.1 * (2 * n - 1), 2 * n)),
        again_from=n,
    )
    said: list[tuple[int, float]] = []
    for _ in range(40):
        clip = sample_clip(again, 8, rng)
        made = sample_statements(clip, texts, rng, max_prefixes=8)
        twice = {texts.fill(text.format(success.instruction)) for text in TWICE}
        said += [(clip.last_frame(one.blocks), one.log_odds) for one in made if one.text in twice]
    assert len(said) > 20
    for frame, log_odds in said:
        at, second = frame % n, frame >= n
        done = second and success.success[at] == 1.0
        expected = completion_log_odds((success.potential[at] + second) / 2, done=bool(done))
        assert log_odds == pytest.approx(expected)
    assert not [
        one
        for _ in range(20)
        for one in sample_statements(sample_clip(success, 8, rng), texts, rng, max_prefixes=8)
        if "twice" in one.text
    ]


def test_timestamps_in_questions_are_changed_all_alike_unless_an_answer_names_one() -> None:
    asked = Question(("Frame 1, 0.50 s: ", None, "\nFrame 2, 1.50 s, camera left: ", None, "?"), "yes")
    found = set()
    for seed in range(200):
        (changed,) = _at_other_times([asked], np.random.default_rng(seed))
        times = [float(t) for part in changed.parts if part for t in re.findall(r", (\d+\.\d\d) s", part)]
        kind = "absent" if not times else "as stated" if times == [0.5, 1.5] else "changed"
        found.add(kind)
        assert len(times) in (0, 2)
        assert "camera left" in str(changed.parts[2])
    assert found == {"absent", "as stated", "changed"}
    timed = Question(asked.parts, '{"answer": "yes", "when": 0.50}')
    assert all(_at_other_times([timed], np.random.default_rng(s)) == [timed] for s in range(50))
