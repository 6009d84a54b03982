"""A Qwen3-VL of a few million weights and a tokenizer made for it, to be trained from nothing."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from stepscore.judges.common import prompt_names, read_prompt

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
    "user assistant system, camera close left corner gripper; best seen by the camera side by side:",
)
"""Words of answers, so that the tokenizer knows them."""
_GAPS = re.compile(r"\$\w+|\{\{\w+\}\}|\{\w+\}|\{\}|\n")
_CONDITION = re.compile(r"^\?\w+: ?", re.MULTILINE)
_SHORTEST = 12


def fixed_phrases() -> list[str]:
    """The parts of all judges' prompts that never change, longest first; each becomes one token.

    A prompt of 150 words is read as some 20 tokens that way, by the same text.
    """
    texts = [_CONDITION.sub("", read_prompt(name)) for name in prompt_names("") if not name.startswith("gvl")]
    pieces = {piece for text in texts for piece in _GAPS.split(text) if len(piece) >= _SHORTEST}
    return sorted({*pieces, " seconds>"}, key=lambda piece: (-len(piece), piece))


def make_tokenizer(texts: Iterable[str], vocabulary: int = 1500) -> Any:
    """A byte-level BPE tokenizer that knows the judges' prompts and these instructions and subgoals.

    Args:
        texts: Instructions and subgoals in all their wordings.
        vocabulary: Most merged tokens; the fixed phrases come on top.
    """
    from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers, trainers

    made = Tokenizer(models.BPE())
    made.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Digits(individual_digits=True),
            pre_tokenizers.ByteLevel(add_prefix_space=False),
        ]
    )
    made.decoder = decoders.ByteLevel()
    corpus = [
        form.format(text) for text in texts for form in (" {}.", "{}", " {} [counts if true at some time]")
    ]
    trainer = trainers.BpeTrainer(
        vocab_size=vocabulary,
        min_frequency=2,
        special_tokens=list(SPECIAL),
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    made.train_from_iterator(
        [*corpus, *ANSWERS * 3, " still true in the last frame] Frame s: 0. "] * 2, trainer
    )
    made.add_tokens([AddedToken(piece, normalized=False) for piece in fixed_phrases()])
    return made


@dataclass(frozen=True)
class Shape:
    """How large the network is.

    Attributes:
        hidden: Width of the language model.
        layers: Its layers.
        heads: Its attention heads.
        inner: Width inside its layers.
        vision_hidden: Width of the vision tower.
        vision_layers: Its layers.
        vision_inner: Width inside them.
        patch: Pixels a side of a patch; two by two patches and two frames are one token.
        size: Pixels a side of a picture.
    """

    hidden: int = 192
    layers: int = 4
    heads: int = 4
    inner: int = 512
    vision_hidden: int = 128
    vision_layers: int = 4
    vision_inner: int = 384
    patch: int = 16
    size: int = 128


def make_network(tokenizer: Any, shape: Shape, seed: int) -> Any:
    """A ``Qwen3VLForConditionalGeneration`` with random weights."""
    import torch
    from transformers import Qwen3VLConfig, Qwen3VLForConditionalGeneration

    torch.manual_seed(seed)
    width = shape.hidden // shape.heads
    third = width // 6
    places = (shape.size // shape.patch) ** 2
    ids = {name: tokenizer.token_to_id(name) for name in SPECIAL}
    config = Qwen3VLConfig(
        text_config={
            "vocab_size": -(-tokenizer.get_vocab_size() // 16) * 16,
            "hidden_size": shape.hidden,
            "intermediate_size": shape.inner,
            "num_hidden_layers": shape.layers,
            "num_attention_heads": shape.heads,
            "num_key_value_heads": shape.heads,
            "head_dim": width,
            "max_position_embeddings": 4096,
            "rope_parameters": {
                "rope_type": "default",
                "rope_theta": 10000.0,
                "mrope_section": [width // 2 - 2 * third, third, third],
                "mrope_interleaved": True,
            },
        },
        vision_config={
            "depth": shape.vision_layers,
            "hidden_size": shape.vision_hidden,
            "intermediate_size": shape.vision_inner,
            "num_heads": 4,
            "out_hidden_size": shape.hidden,
            "deepstack_visual_indexes": [shape.vision_layers // 4, shape.vision_layers // 2],
            "num_position_embeddings": places,
            "patch_size": shape.patch,
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
        # Positions as loud as pixels from the start: a small tower learns where things are far sooner.
        network.model.visual.pos_embed.weight.mul_(5)
    return network


def all_texts(instructions: Sequence[str], subgoals: Sequence[str], wordings: Iterable[str]) -> list[str]:
    """Texts for :func:`make_tokenizer`, each once, in order."""
    return list(dict.fromkeys([*instructions, *subgoals, *wordings]))
