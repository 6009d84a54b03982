"""Files that make a checkpoint complete for other tools: tokenizer config, chat template, preprocessor configs.

A small network trained from random weights gets them from its own config; a fine-tuned one keeps those of its base.
"""

from __future__ import annotations

import json
import math
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from stepscore._files import write_text

PREPROCESSORS = ("preprocessor_config.json", "video_preprocessor_config.json", "processor_config.json")

CHAT_TEMPLATE = """\
{% for m in messages %}<|im_start|>{{ m.role }}
{% if m.content is string %}{{ m.content }}{% else %}{% for p in m.content %}{% if p.type == 'text' %}{{ p.text }}\
{% else %}<|vision_start|>{{ '<|image_pad|>' if p.type == 'image' else '<|video_pad|>' }}<|vision_end|>{% endif %}\
{% endfor %}{% endif %}<|im_end|>
{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant
{% endif %}"""
"""Plain ChatML, as the judges write it themselves."""


def write_processor_files(folder: Path, config: Mapping[str, Any]) -> None:
    """Write the files beside a small network's checkpoint.

    Args:
        folder: The checkpoint's.
        config: Its ``config.json``. One position for each patch states the size the network was trained at.
    """
    vision = config["vision_config"]
    patch, merge, pair = (
        vision[name] for name in ("patch_size", "spatial_merge_size", "temporal_patch_size")
    )
    most = (math.isqrt(vision["num_position_embeddings"]) * patch) ** 2
    least = (patch * merge) ** 2
    common = {
        "do_convert_rgb": True,
        "do_normalize": True,
        "do_rescale": True,
        "do_resize": True,
        "image_mean": [0.5] * 3,
        "image_std": [0.5] * 3,
        "merge_size": merge,
        "patch_size": patch,
        "processor_class": "Qwen3VLProcessor",
        "resample": 3,
        "rescale_factor": 1 / 255,
        "temporal_patch_size": pair,
    }
    image = {
        "image_processor_type": "Qwen2VLImageProcessorFast",
        "size": {"longest_edge": most, "shortest_edge": least},
    }
    video = {
        "do_sample_frames": False,
        "video_processor_type": "Qwen3VLVideoProcessor",
        # Pixels of all frames together: 128 frames of the trained size, and one pair of the smallest.
        "size": {"longest_edge": 128 * most, "shortest_edge": pair * least},
    }
    tokenizer = {
        "clean_up_tokenization_spaces": False,
        "eos_token": "<|im_end|>",
        "model_max_length": config["text_config"]["max_position_embeddings"],
        "pad_token": "<|endoftext|>",
        "tokenizer_class": "PreTrainedTokenizerFast",
    }
    for name, content in (
        ("preprocessor_config.json", common | image),
        ("video_preprocessor_config.json", common | video),
        ("tokenizer_config.json", tokenizer),
    ):
        write_text(folder / name, json.dumps(content, indent=2, sort_keys=True) + "\n")
    write_text(folder / "chat_template.jinja", CHAT_TEMPLATE)


def copy_preprocessors(base: Path, folder: Path) -> None:
    """Copy the preprocessor configs of the checkpoint that was fine-tuned; those it does not have are left out."""
    for name in PREPROCESSORS:
        if (base / name).is_file():
            shutil.copyfile(base / name, folder / name)
