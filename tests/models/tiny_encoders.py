"""Random SigLIP and DINOv2 checkpoints of a few thousand weights, made on the spot."""

from __future__ import annotations

import json
from pathlib import Path

import torch

from tests.models import tiny

SMALL = {"hidden_size": 16, "intermediate_size": 24, "num_hidden_layers": 1, "num_attention_heads": 2}
SCALING = {"image_mean": [0.5, 0.4, 0.3], "image_std": [0.2, 0.3, 0.4]}


def siglip_folder(folder: Path) -> Path:
    """A SigLIP with a tokenizer that pads, and its scaling of images."""
    from transformers import SiglipConfig, SiglipModel

    made = tiny.tokenizer()
    torch.manual_seed(1)
    text = {"vocab_size": made.get_vocab_size(), "max_position_embeddings": 24, "projection_size": 16}
    config = SiglipConfig(
        text_config={**SMALL, **text}, vision_config={**SMALL, "image_size": 32, "patch_size": 16}
    )
    tiny.enlarge(SiglipModel(config)).save_pretrained(folder)
    made.save(str(folder / "tokenizer.json"))
    (folder / "tokenizer_config.json").write_text(
        json.dumps({"tokenizer_class": "PreTrainedTokenizerFast", "pad_token": "<|endoftext|>"})
    )
    (folder / "preprocessor_config.json").write_text(json.dumps(SCALING))
    return folder


def dinov2_folder(folder: Path) -> Path:
    """A DINOv2, which encodes no text."""
    from transformers import Dinov2Config, Dinov2Model

    torch.manual_seed(2)
    config = Dinov2Config(
        hidden_size=16, num_hidden_layers=1, num_attention_heads=2, mlp_ratio=2, image_size=32, patch_size=16
    )
    tiny.enlarge(Dinov2Model(config)).save_pretrained(folder)
    (folder / "preprocessor_config.json").write_text(json.dumps(SCALING))
    return folder
