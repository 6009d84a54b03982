"""A random CLIP and random SARM checkpoints, made on the spot."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path

import torch

from stepscore.models.sarm.checkpoint import save_checkpoint
from stepscore.models.sarm.config import Procedure, SarmConfig, SarmMode
from stepscore.models.sarm.encoders import get_encoder
from stepscore.models.sarm.network import SarmNetwork, SarmShape
from stepscore.models.sarm.window import Window
from tests.models import tiny

DRAWER = "open the drawer"
PROCEDURE = Procedure(("reach", "pull ajar", "pull open"), (0.0, 0.3, 0.8, 1.0))


def clip_folder(folder: Path) -> Path:
    """A CLIP of a few thousand weights, with a tokenizer and its scaling of images."""
    from transformers import CLIPConfig, CLIPModel

    made = tiny.tokenizer()
    torch.manual_seed(0)
    text = {"vocab_size": made.get_vocab_size(), "max_position_embeddings": 32, "eos_token_id": 2}
    small = {"hidden_size": 16, "intermediate_size": 24, "num_hidden_layers": 1, "num_attention_heads": 2}
    config = CLIPConfig(
        text_config={**small, **text},
        vision_config={**small, "image_size": 32, "patch_size": 16},
        projection_dim=12,
    )
    tiny.enlarge(CLIPModel(config)).save_pretrained(folder)
    made.save(str(folder / "tokenizer.json"))
    scaling = {"image_mean": [0.5, 0.4, 0.3], "image_std": [0.2, 0.3, 0.4]}
    (folder / "preprocessor_config.json").write_text(json.dumps(scaling))
    return folder


def network(shape: SarmShape, seed: int = 0) -> SarmNetwork:
    """Random weights, large enough that what is seen matters."""
    torch.manual_seed(seed)
    made = SarmNetwork(shape)
    with torch.no_grad():
        for weights in made.parameters():
            if weights.ndim >= 2:
                weights.mul_(2.0)
    return made.eval()


def checkpoint(
    folder: Path,
    encoder: str,
    *,
    causal: bool = True,
    mode: SarmMode = "dense",
    views: tuple[str, ...] = ("corner",),
    state: tuple[str, ...] = (),
    state_size: int = 0,
    tasks: tuple[str, ...] = (DRAWER,),
) -> Path:
    """A random checkpoint that sees with ``encoder``."""
    eyes = get_encoder(encoder)
    procedures = {"sparse": dict.fromkeys(tasks, Procedure(("task",), (0.0, 1.0)))}
    if mode != "single":
        procedures["dense"] = dict.fromkeys(tasks, PROCEDURE)
    window = Window(4, 0.2, causal, 2)
    shape = SarmShape(
        features=12, text=12, views=len(views), state=state_size,
        stages={head: len(of[tasks[0]].stages) for head, of in procedures.items()},
        slots=window.slots, causal=causal, width=16, layers=2, attention_heads=2,
    )  # fmt: skip
    config = SarmConfig(
        mode, window, views, state, dict(eyes.describe()), dataclasses.asdict(shape), procedures,
        {task: task for task in tasks}, "potential",
    )  # fmt: skip
    save_checkpoint(folder, config, network(shape))
    return folder
