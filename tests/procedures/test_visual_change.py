from __future__ import annotations

import tracemalloc
from pathlib import Path

import numpy as np
import pytest

from stepscore.episodes import Stage, open_episodes
from stepscore.episodes.video.video_view import VideoView
from stepscore.procedures import visual_change as module
from stepscore.procedures.robust_progress import robust_progress
from stepscore.procedures.stage_progress import procvlm_progress
from stepscore.procedures.visual_change import phash, phash_similarity, visual_change
from stepscore.types import Frames
from tests.fakes import FakeView
from tests.media import decode_all, write_video
from tests.procedures import oracles


def scene(at: float, width: int = 128, height: int = 96) -> Frames:
    """A textured table with a bright box whose left edge is at a share of the width."""
    rng = np.random.default_rng(3)
    frame = np.kron(rng.integers(60, 110, (height // 8, width // 8)), np.ones((8, 8)))
    left = round(at * (width - 24))
    frame[30:60, left : left + 24] = 220
    return np.repeat(frame[..., None], 3, axis=2).astype(np.uint8)


@pytest.fixture(scope="module")
def half_frozen(tmp_path_factory: pytest.TempPathFactory) -> VideoView:
    """One stage of 60 frames: nothing moves in the first half, the box slides in the second."""
    ways = np.concatenate([np.zeros(30), np.linspace(0, 1, 31)])
    path = tmp_path_factory.mktemp("video") / "a.mp4"
    write_video(path, size=(128, 96), frames=(scene(way) for way in ways), options={"crf": "30"})
    return VideoView(path)


def test_the_hash_is_imagehashs(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    for _ in range(5):
        image = rng.integers(0, 256, (48, 64, 3), dtype=np.uint8)
        assert phash(image).tolist() == oracles.phash(image)


def test_similarity_is_the_share_of_equal_bits_and_unknown_for_the_first_frame(
    half_frozen: VideoView,
) -> None:
    frames = decode_all(half_frozen.path)
    found = phash_similarity(half_frozen)
    assert np.isnan(found[0])
    for i in (1, 20, 35, 50):
        bits = np.array(oracles.phash(frames[i])) == np.array(oracles.phash(frames[i - 1]))
        assert found[i] == bits.mean()


def test_the_hash_of_a_real_episode_is_imagehashs(shared_data: Path) -> None:
    (real,) = open_episodes(shared_data / "multiview")
    (frame,) = real.clip("cam_high", indices=[200]).frames
    assert phash(frame).tolist() == oracles.phash(frame)


def test_a_picture_at_rest_does_not_change_though_the_codec_flickers(half_frozen: VideoView) -> None:
    decoded = np.stack(decode_all(half_frozen.path)[:30]).astype(float)
    assert np.abs(np.diff(decoded, axis=0)).max() > 0  # it does flicker
    change = visual_change(half_frozen)
    assert change[:30].sum() == 0
    assert change[31:].sum() > 5


def test_a_frozen_first_half_earns_under_5_percent_where_the_published_formula_gives_over_40(
    half_frozen: VideoView,
) -> None:
    n = half_frozen.info().n_frames
    spans, times = [Stage("push", 0, n / 30)], half_frozen.timestamps()
    robust = robust_progress(spans, {"push": 1.0}, times, visual_change(half_frozen), succeeded=True)
    published = procvlm_progress(["push"] * n, phash_similarity(half_frozen))
    assert robust[30] < 0.05
    assert 0.40 < published[30] < 0.5


def test_slow_motion_changes_the_picture_as_much_as_fast_motion(tmp_path: Path) -> None:
    amounts = []
    for frames in (20, 100):
        path = tmp_path / f"{frames}.mp4"
        ways = np.linspace(0, 1, frames)
        write_video(path, size=(128, 96), frames=(scene(way) for way in ways))
        amounts.append(visual_change(VideoView(path)).sum())
    assert amounts[1] == pytest.approx(amounts[0], rel=0.15)


def test_noise_of_zero_counts_everything() -> None:
    grey = FakeView(n=5)
    assert visual_change(grey, noise=0.0).tolist() == pytest.approx([0, 1, 1, 1, 1])
    assert visual_change(grey).tolist() == [0] * 5
    fade = visual_change(FakeView(n=40))
    assert 39 - module.NOISE_LEVELS - 1 <= fade.sum() <= 39  # a fade is not lost, only counted late


def test_batches_give_what_the_whole_gives_in_memory_that_does_not_grow(
    half_frozen: VideoView, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole, alike = visual_change(half_frozen), phash_similarity(half_frozen)
    monkeypatch.setattr(module, "_BATCH_BYTES", 1)
    assert visual_change(half_frozen).tolist() == whole.tolist()
    assert phash_similarity(half_frozen)[1:].tolist() == alike[1:].tolist()
    peaks = []
    for n in (500, 5000):
        tracemalloc.start()
        visual_change(FakeView(n=n))
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
    assert peaks[1] - peaks[0] < 4500 * 8 * 3  # a few numbers a frame, no images
