"""What ``topreward`` on a small vision-language model costs a CPU: Qwen3-VL-2B's configuration with random weights.

    python -m benchmarks.speed.small_vlm [8 16]

Scores an episode of ten seconds at ``topreward``'s default frames (two a second, at least eight in the first
prefix), from 640x480 scaled to 224x160, in one shared pass, in float32 on one thread. All layers of a stack share
one set of random weights, so that the benchmark fits a small machine: the arithmetic is that of the whole model, and
the memory of its weights is counted from their shapes.
"""

from __future__ import annotations

import copy
import re
import sys
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn
from transformers import AutoModelForImageTextToText, Qwen3VLConfig

from benchmarks.speed.prefix_scoring import HEAD, INSTRUCTIONS, TAIL, TOKENS, encode, seconds
from stepscore.episodes import Clip
from stepscore.models.chatml import RenderedPrefixes
from stepscore.models.qwen3vl.inputs import Geometry
from stepscore.models.qwen3vl.network import Qwen3VLNetwork
from stepscore.models.qwen3vl.prefix_scoring import prepare_video, score_shared

LAYERS, BLOCKS = 28, 24
TEXT = {
    "vocab_size": 151_936,
    "hidden_size": 2048,
    "intermediate_size": 6144,
    "num_attention_heads": 16,
    "num_key_value_heads": 8,
    "head_dim": 128,
    "max_position_embeddings": 262_144,
    "rms_norm_eps": 1e-6,
    "rope_parameters": {
        "rope_type": "default",
        "rope_theta": 5e6,
        "mrope_section": [24, 20, 20],
        "mrope_interleaved": True,
    },
}
VISION = {
    "hidden_size": 1024,
    "intermediate_size": 4096,
    "num_heads": 16,
    "num_position_embeddings": 2304,
    "out_hidden_size": 2048,
    "deepstack_visual_indexes": [5, 11, 17],
}
FRAMES_OF_10_S, FIRST = 20, 8


def repeated(layer: nn.Module, count: int) -> nn.ModuleList:
    """Return a stack of layers that share the weights of one."""
    shared = {id(weight): weight for weight in layer.parameters()}
    layers = [layer, *(copy.deepcopy(layer, dict(shared)) for _ in range(count - 1))]
    for index, one in enumerate(layers):
        if (attention := getattr(one, "self_attn", None)) is not None:
            attention.layer_idx = index
    return nn.ModuleList(layers)


def network() -> tuple[Qwen3VLNetwork, int]:
    """Return the network, and how many weights it would have if its layers shared none."""
    torch.manual_seed(0)
    config: Any = Qwen3VLConfig(
        text_config={**TEXT, "num_hidden_layers": 1},
        vision_config={**VISION, "depth": 1},
        tie_word_embeddings=True,
        vision_start_token_id=TOKENS.start,
        vision_end_token_id=TOKENS.end,
        image_token_id=TOKENS.image,
        video_token_id=TOKENS.video,
    )
    model: Any = AutoModelForImageTextToText.from_config(config, attn_implementation="sdpa").eval()
    text, vision = model.model.language_model, model.model.visual
    weights = sum(p.numel() for p in model.parameters())
    weights += (LAYERS - 1) * sum(p.numel() for p in text.layers[0].parameters())
    weights += (BLOCKS - 1) * sum(p.numel() for p in vision.blocks[0].parameters())
    text.layers, vision.blocks = repeated(text.layers[0], LAYERS), repeated(vision.blocks[0], BLOCKS)
    config.text_config.num_hidden_layers = model.config.text_config.num_hidden_layers = LAYERS
    config.vision_config.depth = model.config.vision_config.depth = BLOCKS
    return Qwen3VLNetwork(model, encode, TOKENS, Geometry()), weights


def request(prefixes: int) -> RenderedPrefixes:
    """Return ``topreward``'s question after so many prefixes of ten seconds."""
    frames = max(FRAMES_OF_10_S, FIRST + 2 * (prefixes - 1))
    images = np.random.default_rng(0).integers(0, 256, (frames, 160, 224, 3), dtype=np.uint8)
    clip = Clip(images, np.linspace(0, 10, frames), np.arange(frames))
    lengths = tuple(int(n) // 2 * 2 for n in np.linspace(FIRST, frames, prefixes))
    return RenderedPrefixes(clip, lengths, HEAD, (TAIL.format(INSTRUCTIONS[0]),), (" True", " False"))


def resident(field: str) -> float:
    """Return a line of this process's status, in GB."""
    found = re.search(rf"{field}:\s+(\d+) kB", Path("/proc/self/status").read_text())
    assert found is not None
    return float(found[1]) / 1e6


def main() -> None:
    torch.set_num_threads(1)
    net, weights = network()
    size = weights * 4 / 1e9
    print(f"{weights / 1e9:.2f}e9 weights, {size:.1f} GB in float32, {size / 2:.1f} in bfloat16")
    for prefixes in [int(word) for word in sys.argv[1:]] or [8, 16]:
        scored = request(prefixes)
        before = resident("VmRSS")
        Path("/proc/self/clear_refs").write_text("5")  # the peak counts from here
        took = seconds(lambda scored=scored: score_shared(net, [prepare_video(net, scored)])[0])  # type: ignore[misc]
        more = resident("VmHWM") - before
        tokens = prepare_video(net, scored).plan.tokens
        print(
            f"{prefixes} prefixes, {len(scored.clip.frames)} frames, {tokens} tokens: {took:.0f} CPU s, "
            f"{more:.1f} GB beyond the weights"
        )


if __name__ == "__main__":
    main()
