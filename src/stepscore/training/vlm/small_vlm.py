"""A Qwen3-VL of a few million weights and a tokenizer for it, to be trained from random weights."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from stepscore.judges.common import load_prompt, prompt_names

SPECIAL = (
    "<|endoftext|>",
    "<|im_start|>",
    "<|im_end|>",
    "<|vision_start|>",
    "<|vision_end|>",
    "<|image_pad|>",
    "<|video_pad|>",
)
ANSWERS = (
    '{"subgoals": [{"number": 1, "why": "frame 12 shows it", "answer": "yes", "when": 0.35}, {"number": 2, '
    '"why": "no frame shows it", "answer": "no", "when": null}]}',
    "The following steps are required:\n1. 2. 3. 4. 5. 6. 7.\nTherefore, the estimated progress is "
    "<progress>84.13%</progress>. no further steps required",
    "<score>+25%</score> <score>-40%</score> <score>0%</score> Yes No True False unknown",
    "Frame 1: Frame Description: , Task Completion Percentages:37%\nFrame 2",
    '{"steps": ["", ""]} {"stages": [{"name": "", "start": 0.00, "end": 1.50}, {"name": "", "start": 1.50',
    "user assistant system, camera close left corner gripper; best seen by the camera side by side:",
)
"""Texts of answers, for the tokenizer's vocabulary."""
_GAPS = re.compile(r"\$\w+|\{\{\w+\}\}|\{\w+\}|\{\}|\n")
_CONDITION = re.compile(r"^\?\w+: ?", re.MULTILINE)
_MIN_PHRASE_LENGTH = 12
MOST_PERCENT = 100


def fixed_phrases() -> list[str]:
    """Return the parts of all prompts that never change, longest first; each becomes one token.

    A prompt of 150 words is some 20 tokens that way.
    """
    prompts = [load_prompt(name) for name in prompt_names()]
    prompts += [load_prompt(name, "stepscore.procedures") for name in ("stages_plan", "stages_segment")]
    texts = [_CONDITION.sub("", prompt.text) for prompt in prompts]
    pieces = {piece for text in texts for piece in _GAPS.split(text) if len(piece) >= _MIN_PHRASE_LENGTH}
    return sorted({*pieces, " seconds>"}, key=lambda piece: (-len(piece), piece))


def train_tokenizer(texts: Iterable[str], vocab_size: int = 1500) -> Any:
    """Train a byte-level BPE tokenizer on the judges' prompts and these instructions and subgoals.

    Args:
        texts: Instructions with their paraphrases, and subgoals.
        vocab_size: Most merged tokens; the fixed phrases come on top.
    """
    from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers, trainers

    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Digits(individual_digits=True),
            pre_tokenizers.ByteLevel(add_prefix_space=False),
        ]
    )
    tokenizer.decoder = decoders.ByteLevel()
    corpus = [
        template.format(text)
        for text in texts
        for template in (" {}.", "{}", " {} [counts if true at some time]")
    ]
    trainer = trainers.BpeTrainer(
        vocab_size=vocab_size,
        min_frequency=2,
        special_tokens=list(SPECIAL),
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator(
        [*corpus, *ANSWERS * 3, " still true in the last frame] Frame s: 0. "] * 2, trainer
    )
    # An integer is one token, so that a percentage is one answer and not two digits.
    numbers = map(str, range(MOST_PERCENT + 1))
    tokenizer.add_tokens([AddedToken(text, normalized=False) for text in (*fixed_phrases(), *numbers)])
    return tokenizer


@dataclass(frozen=True)
class SmallVlmConfig:
    """The sizes of a small Qwen3-VL, named as in its own config.

    Attributes:
        hidden_size: Hidden size of the language model.
        num_hidden_layers: Layers of the language model.
        num_attention_heads: Attention heads of the language model.
        intermediate_size: Hidden size of the language model's MLPs.
        vision_hidden_size: Hidden size of the vision encoder.
        vision_depth: Layers of the vision encoder.
        vision_intermediate_size: Hidden size of the vision encoder's MLPs.
        patch_size: Pixels a side of a patch; two by two patches and two frames are one token.
        image_size: Pixels a side of a frame.
    """

    hidden_size: int = 192
    num_hidden_layers: int = 4
    num_attention_heads: int = 4
    intermediate_size: int = 512
    vision_hidden_size: int = 192
    vision_depth: int = 4
    vision_intermediate_size: int = 512
    patch_size: int = 16
    image_size: int = 128


def make_network(tokenizer: Any, sizes: SmallVlmConfig, seed: int) -> Any:
    """Return a ``Qwen3VLForConditionalGeneration`` with random weights."""
    import torch
    from transformers import Qwen3VLConfig, Qwen3VLForConditionalGeneration

    torch.manual_seed(seed)
    head_dim = sizes.hidden_size // sizes.num_attention_heads
    third = head_dim // 6
    ids = {name: tokenizer.token_to_id(name) for name in SPECIAL}
    config = Qwen3VLConfig(
        text_config={
            "vocab_size": -(-tokenizer.get_vocab_size() // 16) * 16,
            "hidden_size": sizes.hidden_size,
            "intermediate_size": sizes.intermediate_size,
            "num_hidden_layers": sizes.num_hidden_layers,
            "num_attention_heads": sizes.num_attention_heads,
            "num_key_value_heads": sizes.num_attention_heads,
            "head_dim": head_dim,
            "max_position_embeddings": 4096,
            "rope_parameters": {
                "rope_type": "default",
                "rope_theta": 10000.0,
                "mrope_section": [head_dim // 2 - 2 * third, third, third],
                "mrope_interleaved": True,
            },
        },
        vision_config={
            "depth": sizes.vision_depth,
            "hidden_size": sizes.vision_hidden_size,
            "intermediate_size": sizes.vision_intermediate_size,
            "num_heads": 4,
            "out_hidden_size": sizes.hidden_size,
            "deepstack_visual_indexes": [sizes.vision_depth // 4, sizes.vision_depth // 2],
            "num_position_embeddings": (sizes.image_size // sizes.patch_size) ** 2,
            "patch_size": sizes.patch_size,
            "temporal_patch_size": 2,
            "spatial_merge_size": 2,
        },
        tie_word_embeddings=True,
        image_token_id=ids["<|image_pad|>"],
        video_token_id=ids["<|video_pad|>"],
        vision_start_token_id=ids["<|vision_start|>"],
        vision_end_token_id=ids["<|vision_end|>"],
    )
    config._attn_implementation = "sdpa"  # noqa: SLF001  # transformers offers no other way
    make: Any = Qwen3VLForConditionalGeneration
    network = make(config)
    network.generation_config.eos_token_id = [ids["<|im_end|>"], ids["<|endoftext|>"]]
    network.generation_config.pad_token_id = ids["<|endoftext|>"]
    with torch.no_grad():
        # Positions as large as pixels from the start: a small encoder learns where things are far sooner.
        network.model.visual.pos_embed.weight.mul_(5)
    return network


def all_texts(instructions: Sequence[str], subgoals: Sequence[str], paraphrases: Iterable[str]) -> list[str]:
    """Return the texts for :func:`train_tokenizer`, each once, in order."""
    return list(dict.fromkeys([*instructions, *subgoals, *paraphrases]))
