from __future__ import annotations

import base64

import numpy as np
import pytest

from stepscore.episodes import Clip
from stepscore.models.api.frame_pairs import FramePair, frame_pairs
from stepscore.models.qwen3vl.inputs import time_text
from stepscore.types import Frames
from tests.models.api.template_server import decoded


def noise(n: int, height: int = 64, width: int = 96, seed: int = 0) -> Frames:
    return np.random.default_rng(seed).integers(0, 256, (n, height, width, 3), dtype=np.uint8)


def packed(pair: FramePair) -> bytes:
    head, _, content = pair.data_url().partition(",")
    assert head == "data:video/x-msvideo;base64"
    return base64.b64decode(content)


def test_a_server_decodes_the_very_pixels() -> None:
    frames = noise(4)
    pairs = frame_pairs(Clip(frames, np.arange(4) / 2, np.arange(4)))
    assert len(pairs) == 2
    for number, pair in enumerate(pairs):
        assert np.array_equal(decoded(packed(pair))[0], frames[2 * number : 2 * number + 2])


def test_the_same_pair_is_the_same_bytes() -> None:
    pair = FramePair(noise(2), "<1.5 seconds>")
    assert packed(pair) == packed(pair)


@pytest.mark.parametrize("tenths", [*range(40), 123, 999, 12345])
def test_the_frame_rate_makes_the_server_write_the_timestamp(tenths: int) -> None:
    text = time_text(tenths / 10)
    _, middle = decoded(packed(FramePair(noise(2, 32, 32), text)))
    assert time_text(middle) == text


def test_timestamps_are_rounded_as_in_process() -> None:
    times = np.array([0.0, 0.5, 0.75, 0.95, 2.05, 2.45])
    pairs = frame_pairs(Clip(noise(6), times, np.arange(6)))
    assert [pair.time for pair in pairs] == [time_text(t) for t in (0.25, 0.85, 2.25)]


def test_an_odd_last_frame_is_doubled_with_its_own_timestamp() -> None:
    frames = noise(3)
    pairs = frame_pairs(Clip(frames, np.array([0.0, 1.0, 2.0]), np.arange(3)))
    assert [pair.time for pair in pairs] == ["<0.5 seconds>", "<2.0 seconds>"]
    assert np.array_equal(pairs[1].frames, frames[[2, 2]])


def test_frames_are_sent_at_the_size_the_model_reads() -> None:
    (pair,) = frame_pairs(Clip(noise(2, 168, 224), np.arange(2) / 2, np.arange(2)))
    assert pair.frames.shape == (2, 160, 224, 3)
    assert pair.tokens == 5 * 7
    (small,) = frame_pairs(Clip(noise(2, 168, 224), np.arange(2) / 2, np.arange(2)), max_side=128)
    assert small.frames.shape == (2, 96, 128, 3)


def test_another_pixel_size_timestamp_or_salt_is_another_name() -> None:
    frames = noise(2)
    changed = frames.copy()
    changed[1, 5, 5, 0] ^= 1
    names = [
        FramePair(frames, "<0.5 seconds>").uuid("a"),
        FramePair(changed, "<0.5 seconds>").uuid("a"),
        FramePair(frames, "<0.6 seconds>").uuid("a"),
        FramePair(frames.reshape(2, 96, 64, 3), "<0.5 seconds>").uuid("a"),
        FramePair(frames, "<0.5 seconds>").uuid("b"),
    ]
    assert len(set(names)) == len(names)
    assert names[0] == FramePair(frames.copy(), "<0.5 seconds>").uuid("a")
