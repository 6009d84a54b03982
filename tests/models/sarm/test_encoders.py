"""What SARM sees with: any vision model, frozen, the same frame the same numbers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from stepscore.errors import ModelError, OptionError
from stepscore.models.sarm.encoders import MAX_FRAME_FEATURES, get_encoder
from stepscore.models.vision_encoder import word_directions
from tests.models import tiny
from tests.models.sarm import tiny_sarm

FRAMES = np.random.default_rng(0).integers(0, 256, (5, 40, 56, 3), dtype=np.uint8)


@pytest.fixture(scope="module")
def clip(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny_sarm.clip_folder(tmp_path_factory.mktemp("clip"))


def test_clip_gives_its_own_image_and_text_embeddings(clip: Path) -> None:
    import torch
    from PIL import Image
    from transformers import CLIPModel

    encoder = get_encoder(f"hf/{clip}")
    assert encoder.side == 32
    model = CLIPModel.from_pretrained(clip).eval()
    squares = np.stack(
        [np.asarray(Image.fromarray(f).resize((32, 32), Image.Resampling.BICUBIC)) for f in FRAMES]
    )
    scaled = (squares / 255 - np.array([0.5, 0.4, 0.3])) / np.array([0.2, 0.3, 0.4])
    with torch.no_grad():
        pixels = torch.from_numpy(scaled).permute(0, 3, 1, 2).float()
        wanted = model.visual_projection(model.vision_model(pixel_values=pixels).pooler_output).numpy()
    np.testing.assert_allclose(encoder.encode_images(FRAMES).astype(np.float64), wanted, rtol=2e-3, atol=2e-3)
    texts = encoder.encode_text(["open the drawer", "close it"])
    assert texts.shape == (2, 12)
    np.testing.assert_allclose(encoder.encode_text(["close it"])[0], texts[1], atol=1e-6)
    assert np.abs(texts[0] - texts[1]).max() > 1e-3


def test_a_frame_is_seen_the_same_in_any_company(clip: Path) -> None:
    encoder = get_encoder(f"hf/{clip}")
    whole = encoder.encode_images(FRAMES).astype(np.float64)
    np.testing.assert_allclose(
        encoder.encode_images(FRAMES[3:4]).astype(np.float64), whole[3:4], rtol=2e-3, atol=2e-3
    )


def test_the_tower_of_a_qwen3vl_gives_its_tokens(tmp_path: Path) -> None:
    from stepscore.models.embedded.model import torch_network
    from stepscore.models.qwen3vl.vision_features import image_features

    made = tiny.tokenizer()
    folder = tiny.save(tmp_path, tiny.qwen3vl(made), made)
    encoder = get_encoder(f"hf/{folder}")
    assert encoder.side == 64
    network = torch_network(folder)
    wanted = image_features(network, list(FRAMES))
    assert wanted.shape[1] <= MAX_FRAME_FEATURES
    np.testing.assert_allclose(encoder.encode_images(FRAMES).astype(np.float64), wanted, rtol=2e-3, atol=2e-3)
    assert encoder.encode_text(["open the drawer", ""]).shape == (2, 64)


def test_a_model_that_reads_no_text_has_a_direction_for_every_word(tmp_path: Path) -> None:
    import json

    from transformers import ViTConfig, ViTModel

    small: dict[str, Any] = {"hidden_size": 16, "intermediate_size": 24, "num_hidden_layers": 1}
    small |= {"num_attention_heads": 2}
    ViTModel(ViTConfig(image_size=32, patch_size=16, **small)).eval().save_pretrained(tmp_path)
    (tmp_path / "preprocessor_config.json").write_text(
        json.dumps({"image_mean": [0.5] * 3, "image_std": [0.5] * 3})
    )
    encoder = get_encoder(f"hf/{tmp_path}")
    assert encoder.encode_images(FRAMES).shape == (5, 16)
    np.testing.assert_array_equal(
        encoder.encode_text(["Open, the drawer!"])[0], word_directions("open the drawer")
    )
    assert encoder.describe()["text"] == "words 256"


def test_another_name_is_no_encoder() -> None:
    with pytest.raises(OptionError, match="embedded, hf/"):
        get_encoder("clip")


def test_a_checkpoint_that_does_not_say_how_images_are_scaled_is_refused(clip: Path, tmp_path: Path) -> None:
    for path in clip.iterdir():
        if path.name != "preprocessor_config.json":
            (tmp_path / path.name).write_bytes(path.read_bytes())
    with pytest.raises(ModelError, match="image_mean"):
        get_encoder(f"hf/{tmp_path}").encode_images(FRAMES)
