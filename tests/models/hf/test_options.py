"""Models of other families: full passes, each against its own slow and obvious reading of the prompt."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest
import torch

from stepscore.errors import ModelError
from stepscore.models import DecodedMedia, Generate, Prompt, ScorePrefixes, Turn, get_model
from stepscore.models.hf.model import HfModel
from stepscore.models.hf.molmo2_inputs import Molmo2Inputs, pooling, video_text
from stepscore.models.qwen3vl.inputs import Geometry
from tests.models import tiny
from tests.models.hf import tiny_families
from tests.models.qwen3vl.test_inputs import obvious_patches

CLIP_MEAN, CLIP_STD = (0.48145466, 0.4578275, 0.40821073), (0.26862954, 0.26130258, 0.27577711)
REQUEST = ScorePrefixes(
    DecodedMedia(tiny.clip(5, height=56, width=84), True),
    (1, 2, 3, 5),
    tiny.statements(),
    tiny.CANDIDATES,
)


def opened(folder: Path, **options: Any) -> HfModel:
    model = get_model(f"hf/{folder}", **options)
    assert isinstance(model, HfModel)
    return model


def logprobs(model: HfModel, inputs: dict[str, Any]) -> list[float]:
    loaded = model._engine.loaded
    logits = loaded.model(**inputs).logits[0, -1]
    targets = [loaded.encode(word)[0] for word in tiny.CANDIDATES]
    values: list[float] = torch.log_softmax(logits, -1)[targets].tolist()
    return values


@pytest.mark.parametrize("family", ["qwen2_vl", "qwen2_5_vl"])
def test_qwen2_and_25_by_full_passes(family: str, tmp_path: Path) -> None:
    make = {"qwen2_vl": tiny_families.qwen2vl, "qwen2_5_vl": tiny_families.qwen25vl}[family]
    model = opened(make(tmp_path))
    assert model.capabilities.prefix_sharing == "none"
    assert model.describe()["scoring"] == "naive"
    result = model.score_prefixes(REQUEST).logprobs
    geometry = Geometry(patch=14, mean=CLIP_MEAN, std=CLIP_STD)
    clip = REQUEST.video.clip  # type: ignore[union-attr]
    for k, length in enumerate(REQUEST.lengths):
        frames = clip.frames[[*range(length), *([length - 1] * (length % 2))]]
        blocks = len(frames) // 2
        marks = "<|vision_start|>" + "<|video_pad|>" * (6 * blocks) + "<|vision_end|>"
        ids = torch.tensor([model._engine.loaded.encode(tiny.HEAD + marks + tiny.tails()[0])])
        inputs: dict[str, Any] = {
            "input_ids": ids,
            "mm_token_type_ids": 2 * (ids == model._engine.loaded.model.config.video_token_id).int(),
            "pixel_values_videos": torch.tensor(obvious_patches(frames, geometry), dtype=torch.float32),
            "video_grid_thw": torch.tensor([[blocks, 4, 6]]),
        }
        if family == "qwen2_5_vl":
            inputs["second_per_grid_ts"] = torch.tensor([1.0])
        assert result[0, k] == pytest.approx(logprobs(model, inputs), abs=1e-4)
    assert np.ptp(result[0, :, 0]) > 0.01
    answer = model.generate(Generate(Prompt((Turn("user", ("What?", REQUEST.video)),)), max_tokens=3))
    assert answer.tokens_out <= 3


def test_qwen35_by_full_passes(tmp_path: Path) -> None:
    model = opened(tiny_families.qwen35(tmp_path))
    assert model.capabilities.prefix_sharing == "none"
    result = model.score_prefixes(REQUEST).logprobs
    assert np.isfinite(result).all()
    assert np.ptp(result[0, :, 0]) > 0.001


def test_molmo2_by_full_passes(tmp_path: Path) -> None:
    """Inputs by transformers' own functions for patches, pooling and text."""
    from transformers import Molmo2Processor
    from transformers.models.molmo2.video_processing_molmo2 import arange_for_pooling, batch_pixels_to_patches

    model = opened(tiny_families.molmo2(tmp_path))
    assert model.capabilities.prefix_sharing == "none"
    result = model.score_prefixes(REQUEST).logprobs
    loaded = model._engine.loaded
    clip = REQUEST.video.clip  # type: ignore[union-attr]
    flags = {"use_frame_special_tokens": True, "video_use_col_tokens": False}
    places, rows, columns = arange_for_pooling(torch.arange(16).reshape(4, 4), 3, 3)
    for k, length in enumerate(REQUEST.lengths):
        grid = torch.tensor([length, rows, columns])
        video = Molmo2Processor.get_video_string(
            cast(Any, SimpleNamespace(**flags)), grid, clip.timestamps[:length]
        )
        ids = torch.tensor([loaded.encode("<|im_end|>" + tiny.HEAD + video + tiny.tails()[0])])
        x = torch.from_numpy(clip.frames[:length]).permute(0, 3, 1, 2).float()
        x = torch.nn.functional.interpolate(x, (56, 56), mode="bilinear").round()
        shifted = [torch.where(places >= 0, places + 16 * frame, places) for frame in range(length)]
        images = [loaded.encode(token)[0] for token in tiny_families.MOLMO_TOKENS[:8]]
        inputs = {
            "input_ids": ids,
            "mm_token_type_ids": torch.isin(ids, torch.tensor(images)).int(),
            "pixel_values_videos": batch_pixels_to_patches(((x / 255 - 0.5) / 0.5).permute(0, 2, 3, 1), 14),
            "video_token_pooling": torch.cat(shifted),
            "video_grids": grid[None],
        }
        assert result[0, k] == pytest.approx(logprobs(model, inputs), abs=1e-4)
    assert np.ptp(result[0, :, 0]) > 0.01


def test_in_molmo2_a_later_frame_changes_what_came_before(tmp_path: Path) -> None:
    """Why nothing is shared for it."""
    loaded = opened(tiny_families.molmo2(tmp_path))._engine.loaded
    clip = REQUEST.video.clip  # type: ignore[union-attr]

    def first_states(length: int) -> torch.Tensor:
        inputs = loaded.prefix_inputs.prefix(clip, length, tiny.HEAD, "")
        states: torch.Tensor = loaded.model.model(**inputs).last_hidden_state[0, :12]
        return states

    with torch.inference_mode():
        assert float((first_states(2) - first_states(3)).abs().max()) > 1e-3


def test_molmo2_cannot_be_asked_in_words_without_torchvision(tmp_path: Path) -> None:
    if importlib.util.find_spec("torchvision") is not None:
        pytest.skip("torchvision is here")
    model = opened(tiny_families.molmo2(tmp_path))
    with pytest.raises(ModelError, match="processor of molmo2"):
        model.generate(Generate(Prompt((Turn("user", ("What?",)),)), max_tokens=1))


def test_pooling_of_a_side_that_does_not_divide() -> None:
    places, rows, columns = pooling(4, (3, 3))
    assert (rows, columns) == (2, 2)
    assert sorted(places[places >= 0].tolist()) == list(range(16))
    assert video_text(np.array([0.0, 0.5]), 1) == (
        "0.0 <frame_start><im_patch><frame_end> 0.5 <frame_start><im_patch><frame_end>"
    )
    assert Molmo2Inputs(lambda text: [], "").side == 378


def test_any_other_family_through_its_own_processor(tmp_path: Path) -> None:
    """LLaVA has no video: a video is shown as images, each after its time."""
    model = opened(tiny_families.llava(tmp_path))
    result = model.score_prefixes(REQUEST)
    from PIL import Image
    from transformers import AutoProcessor

    processor = AutoProcessor.from_pretrained(tmp_path)
    clip = REQUEST.video.clip  # type: ignore[union-attr]
    for k, length in enumerate(REQUEST.lengths):
        shown = "".join(f"<{t:.1f} seconds><image>" for t in clip.timestamps[:length])
        images = [Image.fromarray(frame) for frame in clip.frames[:length]]
        made = processor(text=tiny.HEAD + shown + tiny.tails()[0], images=images, return_tensors="pt")
        assert result.logprobs[0, k] == pytest.approx(logprobs(model, dict(made)), abs=1e-4)
    still = tiny.clip(1, seed=5)
    prompt = Prompt((Turn("user", ("What?", DecodedMedia(still), REQUEST.video)),))
    assert model.generate(Generate(prompt, max_tokens=3)).tokens_out <= 3
    text = "<s>user: What?<image>" + "".join(f"<{t:.1f} seconds><image>" for t in clip.timestamps)
    images = [Image.fromarray(frame) for frame in (*still.frames, *clip.frames)]
    text += "assistant:"
    made = processor(text=text, images=images, return_tensors="pt", add_special_tokens=False)
    scored = model.score(prompt, tiny.CANDIDATES)
    assert scored.logprobs == pytest.approx(logprobs(model, dict(made)), abs=1e-5)
    assert scored.tokens_in == made["input_ids"].shape[1]


def test_a_family_that_cannot_be_loaded_is_named(tmp_path: Path) -> None:
    folder = tiny_families.llava(tmp_path)
    (folder / "processor_config.json").write_text("{}")
    with pytest.raises(ModelError, match="processor of llava"):
        opened(folder).score_prefixes(REQUEST)


def test_an_unknown_type_is_named(tmp_path: Path) -> None:
    folder = tiny_families.llava(tmp_path)
    config = (folder / "config.json").read_text().replace('"model_type": "llava"', '"model_type": "nothing"')
    (folder / "config.json").write_text(config)
    with pytest.raises(ModelError, match="'nothing' cannot be loaded"):
        opened(folder).score_prefixes(REQUEST)
