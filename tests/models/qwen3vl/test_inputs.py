"""What a Qwen-VL model reads, against the processors it comes with and against slow, obvious code."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from stepscore.episodes import Clip, resize_frames
from stepscore.errors import EpisodeError
from stepscore.models.media import DecodedMedia
from stepscore.models.qwen3vl.inputs import (
    Geometry,
    block_frames,
    fitted_size,
    geometry_of,
    patches,
    positions,
)
from stepscore.models.qwen3vl.prompts import QwenInputs
from tests.models import tiny

sides = st.integers(20, 900)


@settings(deadline=None)
@given(sides, sides)
def test_sizes_are_those_of_qwens_own_smart_resize(height: int, width: int) -> None:
    from transformers.models.qwen2_vl.image_processing_pil_qwen2_vl import smart_resize

    pixels = (256 * 256, 768 * 32 * 32)
    if round(height / 32) and round(width / 32):  # theirs makes nothing of sides below half a unit
        assert fitted_size(height, width, 32, pixels) == smart_resize(height, width, 32, *pixels)


def test_a_narrow_image_keeps_one_unit_and_one_too_narrow_is_refused() -> None:
    assert fitted_size(10, 640, 32, (1024, 10**7)) == (32, 640)
    with pytest.raises(EpisodeError, match="too narrow"):
        fitted_size(2, 640, 32, (1024, 10**7))


def obvious_patches(frames: Any, g: Geometry) -> Any:
    """Patch by patch, in the order of Qwen's processor."""
    rows = []
    for block in range(len(frames) // g.temporal):
        pair = frames[block * g.temporal : (block + 1) * g.temporal] / 255.0
        for top in range(0, frames.shape[1], g.unit):
            for left in range(0, frames.shape[2], g.unit):
                for y in range(top, top + g.unit, g.patch):
                    for x in range(left, left + g.unit, g.patch):
                        cell = pair[:, y : y + g.patch, x : x + g.patch]
                        cell = (cell - np.array(g.mean)) / np.array(g.std)
                        rows.append(cell.transpose(3, 0, 1, 2).ravel())
    return np.array(rows)


def test_patches_stand_in_the_order_of_the_tower() -> None:
    geometry = Geometry(mean=(0.4, 0.5, 0.6), std=(0.2, 0.3, 0.4))
    frames = tiny.clip(4, height=64, width=96).frames
    np.testing.assert_allclose(patches(frames, geometry), obvious_patches(frames, geometry), atol=1e-5)


@pytest.mark.parametrize(("height", "width"), [(64, 64), (75, 130), (300, 201)])
def test_stills_are_cut_as_qwens_image_processor_cuts_them(height: int, width: int) -> None:
    from PIL import Image
    from transformers.models.qwen2_vl.image_processing_pil_qwen2_vl import Qwen2VLImageProcessorPil

    half = [0.5, 0.5, 0.5]
    size = {"shortest_edge": 65536, "longest_edge": 16777216}
    theirs = Qwen2VLImageProcessorPil(patch_size=16, image_mean=half, image_std=half, size=size)
    clip = tiny.clip(1, height=height, width=width)
    made = theirs([Image.fromarray(clip.frames[0])], return_tensors="np")
    geometry = geometry_of({"patch_size": 16}, {"size": size})
    tokens = tiny.vision_tokens(tiny.tokenizer())
    ours = QwenInputs(lambda text: [], tokens, geometry).inputs([DecodedMedia(clip)])
    assert ours["image_grid_thw"].tolist() == made["image_grid_thw"].tolist()
    np.testing.assert_allclose(ours["pixel_values"].numpy(), made["pixel_values"], atol=1e-6)


def test_frames_that_fit_are_not_touched() -> None:
    frames = tiny.clip(2).frames
    assert resize_frames(frames, (64, 64)) is frames


def test_the_size_of_a_video_does_not_depend_on_its_length() -> None:
    prompts = QwenInputs(lambda text: [0] * len(text), tiny.vision_tokens(tiny.tokenizer()), Geometry())
    grids = [
        prompts.prefix(tiny.clip(n), n, "", "x")["video_grid_thw"][0, 1:].tolist() for n in (1, 2, 3, 40)
    ]
    assert grids == [[4, 4]] * 4


@pytest.mark.parametrize("n", [1, 2, 5, 8])
def test_a_video_stands_in_the_prompt_as_qwens_processor_writes_it(n: int) -> None:
    from transformers import Qwen3VLProcessor

    made = tiny.tokenizer()
    video = SimpleNamespace(merge_size=2, temporal_patch_size=2)
    theirs = SimpleNamespace(
        video_processor=video,
        vision_start_token="<|vision_start|>",
        vision_end_token="<|vision_end|>",
        video_token="<|video_pad|>",
        _calculate_timestamps=lambda *a: Qwen3VLProcessor._calculate_timestamps(cast(Any, None), *a),
    )
    metadata = SimpleNamespace(fps=4.0, frames_indices=list(range(0, 3 * n, 3)))
    inputs = {"video_grid_thw": torch.tensor([[-(-n // 2), 4, 6]]), "video_metadata": [metadata]}
    text = tiny.HEAD + Qwen3VLProcessor.replace_video_token(cast(Any, theirs), inputs, 0) + tiny.tails()[0]
    clip = tiny.clip(n, height=64, width=96, times=np.arange(n) * 3 / 4.0)
    prompts = QwenInputs(lambda t: made.encode(t).ids, tiny.vision_tokens(made), Geometry())
    ids = prompts.prefix(clip, n, tiny.HEAD, tiny.tails()[0])["input_ids"][0].tolist()
    assert ids == made.encode(text).ids


def test_positions_are_those_the_model_gives() -> None:
    network = tiny.network()
    clip = tiny.clip(5, height=64, width=96)
    prompts = QwenInputs(network.encode, network.tokens, network.geometry)
    inputs = prompts.prefix(clip, 5, tiny.HEAD, tiny.tails()[0])
    result, _ = network.model.model.get_rope_index(
        inputs["input_ids"], inputs["mm_token_type_ids"], video_grid_thw=inputs["video_grid_thw"]
    )
    found, following = positions(inputs["input_ids"][0].numpy(), network.tokens.video, (2, 3), 0)
    assert found.tolist() == result[:, 0].tolist()
    assert following == int(result.max()) + 1


def test_the_last_frame_fills_its_block() -> None:
    assert block_frames(5, 2) == [(0, 1), (2, 3), (4, 4)]
    assert block_frames(1, 2) == [(0, 0)]
    assert block_frames(0, 2) == []


def test_images_and_videos_may_be_mixed() -> None:
    made = tiny.tokenizer()
    tokens = tiny.vision_tokens(made)
    prompts = QwenInputs(lambda t: made.encode(t).ids, tokens, Geometry())
    video = tiny.clip(3)
    parts: list[str | DecodedMedia] = [
        "Look:",
        DecodedMedia(tiny.clip(1)),
        " then",
        DecodedMedia(video, video=True),
        DecodedMedia(tiny.clip(1, seed=1)),
        "done",
    ]
    inputs = prompts.inputs(parts)
    ids = inputs["input_ids"][0].tolist()
    assert ids.count(tokens.image) == 8
    assert ids.count(tokens.video) == 8
    assert inputs["image_grid_thw"].tolist() == [[1, 4, 4]] * 2
    assert inputs["video_grid_thw"].tolist() == [[2, 4, 4]]
    assert set(inputs["mm_token_type_ids"].unique().tolist()) == {0, 1, 2}


def test_a_paced_video_tells_its_frame_rate_and_no_times() -> None:
    made = tiny.tokenizer()
    tokens = tiny.vision_tokens(made)
    prompts = QwenInputs(lambda t: made.encode(t).ids, tokens, Geometry(), video_style="paced")
    clip = Clip(tiny.clip(4).frames, np.array([0.0, 0.2, 0.4, 0.6]), np.arange(4))
    inputs = prompts.inputs([DecodedMedia(clip, video=True), "go"])
    assert inputs["second_per_grid_ts"].tolist() == pytest.approx([0.4])
    assert inputs["input_ids"][0].tolist().count(tokens.start) == 1
