"""Cosine similarities by encoders, against plain transformers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from stepscore.episodes import Clip
from stepscore.errors import CapabilityError
from stepscore.models import DecodedMedia, ScoreSimilarity, Similarities, get_model, run_blocking
from stepscore.models.hf.options import NAMED_ENCODERS
from stepscore.models.vision_encoder import similarities
from stepscore.types import FloatArray, Frames
from tests.models import tiny, tiny_encoders
from tests.models.sarm import tiny_sarm

pytest.importorskip("transformers")

RNG = np.random.default_rng(0)
FRAMES = RNG.integers(0, 256, (5, 40, 56, 3), dtype=np.uint8)
GOAL = RNG.integers(0, 256, (30, 30, 3), dtype=np.uint8)
TEXTS = ("open the drawer", "a robot arm")


def media(*frames: Frames, video: bool = False) -> DecodedMedia:
    n = len(frames)
    return DecodedMedia(Clip(np.stack(frames), np.arange(n) / 10, np.arange(n)), video=video)


def request(*texts: str) -> ScoreSimilarity:
    return ScoreSimilarity(media(*FRAMES, video=True), (media(GOAL), media(FRAMES[0])), texts)


def ask(model: str, question: ScoreSimilarity) -> Similarities:
    answer = run_blocking(get_model(model).answer(question))
    assert isinstance(answer, Similarities)
    return answer


def pixels(images: list[Frames]) -> Any:
    """The images as the tiny encoders take them."""
    import torch
    from PIL import Image

    mean, std = (np.array(tiny_encoders.SCALING[name]) for name in ("image_mean", "image_std"))
    squares = [np.asarray(Image.fromarray(i).resize((32, 32), Image.Resampling.BICUBIC)) for i in images]
    scaled = (np.stack(squares) / 255 - mean) / std
    return torch.from_numpy(scaled).permute(0, 3, 1, 2).float()


def cosines(features: Any, others: Any) -> FloatArray:
    a, b = (np.asarray(f.detach().numpy(), dtype=np.float64) for f in (features, others))
    return (a / np.linalg.norm(a, axis=1, keepdims=True)) @ (b / np.linalg.norm(b, axis=1, keepdims=True)).T


def test_clip_compares_images_and_texts(tmp_path: Path) -> None:
    import torch
    from transformers import CLIPModel

    folder = tiny_sarm.clip_folder(tmp_path)
    model = CLIPModel.from_pretrained(folder).eval()
    ids = [tiny.tokenizer().encode(text).ids for text in TEXTS]
    with torch.no_grad():
        vision = model.vision_model(pixel_values=pixels([*FRAMES, GOAL, FRAMES[0]]))
        images = model.visual_projection(vision.pooler_output)
        texts = torch.cat(
            [
                model.text_projection(model.text_model(input_ids=torch.tensor([row])).pooler_output)
                for row in ids
            ]
        )
    references = torch.cat([images[5:], texts])
    found = ask(f"hf/{folder}", request(*TEXTS))
    np.testing.assert_allclose(found.frames, cosines(images[:5], references), atol=1e-5)
    np.testing.assert_allclose(found.references, cosines(references, references), atol=1e-5)
    assert get_model(f"hf/{folder}").capabilities.similarity == "texts"
    assert not get_model(f"hf/{folder}").capabilities.generate


def test_siglip_reads_texts_padded_to_its_length(tmp_path: Path) -> None:
    import torch
    from transformers import SiglipModel

    folder = tiny_encoders.siglip_folder(tmp_path)
    model = SiglipModel.from_pretrained(folder).eval()
    made = tiny.tokenizer()
    pad = made.token_to_id("<|endoftext|>")
    ids = [made.encode(text).ids for text in TEXTS]
    padded = torch.tensor([row + [pad] * (24 - len(row)) for row in ids])
    with torch.no_grad():
        images = model.vision_model(pixel_values=pixels([*FRAMES, GOAL, FRAMES[0]])).pooler_output
        texts = model.text_model(input_ids=padded).pooler_output
    found = ask(f"hf/{folder}", request(*TEXTS))
    np.testing.assert_allclose(found.frames, cosines(images[:5], torch.cat([images[5:], texts])), atol=1e-5)


def test_dinov2_compares_images_alone(tmp_path: Path) -> None:
    import torch
    from transformers import Dinov2Model

    folder = tiny_encoders.dinov2_folder(tmp_path)
    model = Dinov2Model.from_pretrained(folder).eval()
    with torch.no_grad():
        images = model(pixel_values=pixels([*FRAMES, GOAL, FRAMES[0]])).pooler_output
    found = ask(f"hf/{folder}", request())
    np.testing.assert_allclose(found.frames, cosines(images[:5], images[5:]), atol=1e-5)
    np.testing.assert_allclose(found.frames[0, 1], 1, atol=1e-6)  # the first frame with itself
    with pytest.raises(CapabilityError, match="has no text encoder"):
        ask(f"hf/{folder}", request("open the drawer"))


def test_a_qwen3vl_compares_by_its_vision_encoder(tmp_path: Path) -> None:
    from stepscore.models.hf.model import HfModel
    from stepscore.models.qwen3vl.vision_features import image_features

    made = tiny.tokenizer()
    folder = tiny.save(tmp_path, tiny.qwen3vl(made), made)
    features = image_features(HfModel(str(folder)).network, [*FRAMES, GOAL, FRAMES[0]])
    found = ask(f"hf/{folder}", request())
    assert get_model(f"hf/{folder}").capabilities.similarity == "images"
    wanted = similarities(features[:5], features[5:])
    np.testing.assert_allclose(found.frames, wanted.frames, atol=1e-6)
    with pytest.raises(CapabilityError, match="has no text encoder"):
        ask(f"hf/{folder}", request("open the drawer"))


def test_an_encoder_generates_nothing_and_says_what_it_is_for(tmp_path: Path) -> None:
    from stepscore.judges import get_judge
    from tests.fakes import episode
    from tests.judges.asked import run_judge

    folder = tiny_encoders.dinov2_folder(tmp_path / "dino")
    with pytest.raises(CapabilityError, match="generates none"):
        run_judge(get_judge("gvl", model=f"hf/{folder}"), episode(), tmp_path / "run")


def test_named_encoders_are_hub_ids_unless_a_folder_has_the_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert set(NAMED_ENCODERS) == {"clip", "dinov2", "siglip"}
    asked: list[str] = []
    folder = tiny_encoders.dinov2_folder(tmp_path / "dinov2")

    def found(checkpoint: str, *, remote_code: bool) -> Path:
        asked.append(checkpoint)
        return folder

    monkeypatch.setattr("stepscore.models.hf.engine.checkpoint_folder", found)
    assert get_model("hf/dinov2").capabilities.similarity == "images"
    monkeypatch.chdir(tmp_path)
    assert get_model("hf/dinov2").capabilities.similarity == "images"
    assert asked == ["facebook/dinov2-base", "dinov2"]


def test_features_of_length_0_are_unknown() -> None:
    found = similarities(np.array([[0.0, 0.0], [3.0, 4.0]], np.float32), np.array([[4.0, 3.0]], np.float32))
    np.testing.assert_allclose(found.frames, [[np.nan], [0.96]])
