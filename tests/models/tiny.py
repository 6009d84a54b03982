"""Small random models with a small tokenizer of their own, made on the spot."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import torch
from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, pre_tokenizers, trainers

from stepscore.episodes import Clip
from stepscore.models import Prompt, Turn, VideoPrefix
from stepscore.models.qwen3vl.inputs import Geometry, VisionTokens
from stepscore.models.qwen3vl.network import Qwen3VLNetwork
from stepscore.types import FloatArray

torch.set_num_threads(1)  # faster for models this small, and kinder to tests side by side

HEAD = "<|im_start|>user\n"
TAIL = (
    "The above video shows a robot manipulation trajectory that completes the following task: {} "
    "Decide whether the above statement is True or not. The answer is:"
)
INSTRUCTIONS = ("open the drawer", "push the puck to the goal", "press the handle down.")
CANDIDATES = (" True", " False")
SPECIAL = ["<|endoftext|>", "<|im_start|>", "<|im_end|>", "<|vision_start|>", "<|vision_end|>"]
PADS = ["<|image_pad|>", "<|video_pad|>"]
SPLIT = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*"
    r"|\s*[\r\n]+|\s+(?!\S)|\s+"
)
CHAT_TEMPLATE = (
    "{% for m in messages %}<|im_start|>{{ m.role }}\n{% for p in m.content %}"
    "{% if p.type == 'text' %}{{ p.text }}{% else %}<|vision_start|>"
    "{{ '<|image_pad|>' if p.type == 'image' else '<|video_pad|>' }}<|vision_end|>{% endif %}"
    "{% endfor %}<|im_end|>\n{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)


def tails(*instructions: str) -> tuple[str, ...]:
    return tuple(TAIL.format(text) for text in instructions or INSTRUCTIONS[:1])


def prompts(*tails: str) -> tuple[Prompt, ...]:
    """Prompts that leave the user's turn open after these texts: ``HEAD``, the video, the text."""
    return tuple(Prompt((Turn("user", (VideoPrefix(), tail)),), template="open") for tail in tails)


def statements(*instructions: str) -> tuple[Prompt, ...]:
    """Prompts of the tails of these instructions."""
    return prompts(*tails(*instructions))


def tokenizer(extra: tuple[str, ...] = ()) -> Tokenizer:
    """Byte-level BPE that splits text as Qwen's does, and knows the words of the prompts."""
    made = Tokenizer(models.BPE())
    made.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(Regex(SPLIT), behavior="isolated"),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )
    made.decoder = decoders.ByteLevel()
    corpus = [HEAD + TAIL.format(text) + " True False assistant seconds> yes no" for text in INSTRUCTIONS]
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(
        vocab_size=700, min_frequency=1, initial_alphabet=alphabet, show_progress=False
    )
    made.train_from_iterator(corpus * 2, trainer)
    made.add_special_tokens([AddedToken(text, special=True) for text in (*SPECIAL, *PADS, *extra)])
    return made


def vision_tokens(made: Tokenizer) -> VisionTokens:
    names = ("<|vision_start|>", "<|vision_end|>", "<|image_pad|>", "<|video_pad|>")
    ids = made.get_vocab(with_added_tokens=True)
    return VisionTokens(*(ids[name] for name in names))


def enlarge(model: Any, gain: float = 3.0) -> Any:
    """Larger weights, so that in a random model attention, images and positions matter."""
    with torch.no_grad():
        for name, weights in model.named_parameters():
            if weights.ndim >= 2 and "embed_tokens" not in name and "pos_embed" not in name:
                weights.mul_(gain)
    return model.eval()


def qwen3vl(made: Tokenizer, *, attention: str = "sdpa", seed: int = 0, **text: Any) -> Any:
    """A Qwen3-VL with deepstack, MRoPE and grouped heads, in a few hundred thousand weights."""
    from transformers import Qwen3VLConfig, Qwen3VLForConditionalGeneration

    torch.manual_seed(seed)
    ids = vision_tokens(made)
    config = Qwen3VLConfig(
        text_config={
            "vocab_size": made.get_vocab_size(),
            "hidden_size": 64,
            "intermediate_size": 96,
            "num_hidden_layers": 3,
            "num_attention_heads": 4,
            "num_key_value_heads": 2,
            "head_dim": 16,
            "max_position_embeddings": 4096,
            "rope_parameters": {
                "rope_type": "default",
                "rope_theta": 10000.0,
                "mrope_section": [4, 2, 2],
                "mrope_interleaved": True,
            },
            **text,
        },
        vision_config={
            "depth": 3,
            "hidden_size": 32,
            "intermediate_size": 48,
            "num_heads": 2,
            "out_hidden_size": text.get("hidden_size", 64),
            "deepstack_visual_indexes": [0, 1],
            "num_position_embeddings": 16,
        },
        tie_word_embeddings=True,
        image_token_id=ids.image,
        video_token_id=ids.video,
        vision_start_token_id=ids.start,
        vision_end_token_id=ids.end,
    )
    config._attn_implementation = attention
    return enlarge(Qwen3VLForConditionalGeneration(config))


def network(*, attention: str = "sdpa", seed: int = 0) -> Qwen3VLNetwork:
    """A tiny network, ready to score."""
    made = tokenizer()
    model = qwen3vl(made, attention=attention, seed=seed)
    return Qwen3VLNetwork(
        model, lambda text: made.encode(text).ids, vision_tokens(made), Geometry(), attention
    )


def moe_network() -> Qwen3VLNetwork:
    """The same with experts."""
    from transformers import Qwen3VLMoeConfig, Qwen3VLMoeForConditionalGeneration

    made = tokenizer()
    plain = qwen3vl(made).config.to_dict()
    text = {**plain["text_config"], "model_type": "qwen3_vl_moe_text"}
    text |= {"num_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 32}
    vision = {**plain["vision_config"], "model_type": "qwen3_vl_moe_vision"}
    keep = ("image_token_id", "video_token_id", "vision_start_token_id", "vision_end_token_id")
    config = Qwen3VLMoeConfig(text_config=text, vision_config=vision, **{name: plain[name] for name in keep})
    config._attn_implementation = "sdpa"
    torch.manual_seed(0)
    model = enlarge(Qwen3VLMoeForConditionalGeneration(config))
    return Qwen3VLNetwork(model, lambda text: made.encode(text).ids, vision_tokens(made), Geometry())


def clip(
    n: int, *, height: int = 64, width: int = 64, times: FloatArray | None = None, seed: int = 0
) -> Clip:
    """Noise that changes from frame to frame."""
    frames = np.random.default_rng(seed).integers(0, 256, (n, height, width, 3), dtype=np.uint8)
    return Clip(frames, np.arange(n) / 2 if times is None else times, np.arange(n))


def part(whole: Clip, start: int, stop: int) -> Clip:
    return Clip(whole.frames[start:stop], whole.timestamps[start:stop], whole.indices[start:stop])


def save(folder: Path, model: Any, made: Tokenizer, *, chat: bool = True) -> Path:
    """A checkpoint folder."""
    model.save_pretrained(folder)
    made.save(str(folder / "tokenizer.json"))
    if chat:
        settings = {"tokenizer_class": "PreTrainedTokenizerFast", "eos_token": "<|im_end|>"}
        (folder / "tokenizer_config.json").write_text(json.dumps(settings))
        (folder / "chat_template.jinja").write_text(CHAT_TEMPLATE)
    return folder
