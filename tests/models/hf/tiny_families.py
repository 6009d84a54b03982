"""Small random checkpoints of families other than Qwen3-VL."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from tokenizers import Tokenizer

from tests.models import tiny

MOLMO_TOKENS: tuple[str, ...] = (
    "<im_patch>",
    "<im_col>",
    "<im_start>",
    "<low_res_im_start>",
    "<frame_start>",
    "<frame_end>",
)
MOLMO_TOKENS += ("<im_end>", "<im_low>", "<|image|>", "<|video|>")
LLAVA_TEMPLATE = (
    "<s>{% for m in messages %}{{ m.role }}: {% for p in m.content %}{% if p.type == 'text' %}{{ p.text }}"
    "{% else %}<image>{% endif %}{% endfor %}\n{% endfor %}{% if add_generation_prompt %}assistant:{% endif %}"
)


def _vision_ids(made: Tokenizer) -> dict[str, Any]:
    ids = tiny.vision_tokens(made)
    names = ("image_token_id", "video_token_id", "vision_start_token_id", "vision_end_token_id")
    return dict(zip(names, (ids.image, ids.video, ids.start, ids.end), strict=True))


def _id(made: Tokenizer, token: str) -> int:
    number = made.token_to_id(token)
    assert number is not None
    return number


def _text(made: Tokenizer) -> dict[str, Any]:
    return {
        "vocab_size": made.get_vocab_size(),
        "hidden_size": 64,
        "intermediate_size": 96,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "max_position_embeddings": 2048,
        "bos_token_id": None,
        "eos_token_id": None,
        "rope_parameters": {"rope_type": "default", "rope_theta": 10000.0, "mrope_section": [2, 3, 3]},
    }


def qwen25vl(folder: Path) -> Path:
    from transformers import Qwen2_5_VLConfig, Qwen2_5_VLForConditionalGeneration

    made = tiny.tokenizer()
    vision: dict[str, Any] = {"depth": 2, "hidden_size": 32, "intermediate_size": 48, "num_heads": 2}
    vision |= {"out_hidden_size": 64, "window_size": 56, "fullatt_block_indexes": [1]}
    torch.manual_seed(0)
    config = Qwen2_5_VLConfig(text_config=_text(made), vision_config=vision, **_vision_ids(made))
    return tiny.save(folder, tiny.enlarge(Qwen2_5_VLForConditionalGeneration(config)), made)


def qwen2vl(folder: Path) -> Path:
    from transformers import Qwen2VLConfig, Qwen2VLForConditionalGeneration

    made = tiny.tokenizer()
    vision = {"depth": 2, "embed_dim": 32, "hidden_size": 64, "num_heads": 2, "mlp_ratio": 2}
    torch.manual_seed(0)
    config = Qwen2VLConfig(text_config=_text(made), vision_config=vision, **_vision_ids(made))
    return tiny.save(folder, tiny.enlarge(Qwen2VLForConditionalGeneration(config)), made)


def qwen35(folder: Path) -> Path:
    from transformers import Qwen3_5Config, Qwen3_5ForConditionalGeneration

    made = tiny.tokenizer()
    text = {**_text(made), "num_hidden_layers": 4, "head_dim": 16, "linear_num_value_heads": 4}
    text |= {"linear_num_key_heads": 2, "linear_key_head_dim": 16, "linear_value_head_dim": 16}
    text["rope_parameters"] = {"rope_type": "default", "rope_theta": 10000.0, "mrope_section": [1, 1, 0]}
    vision = {"depth": 2, "hidden_size": 32, "intermediate_size": 48, "num_heads": 2, "out_hidden_size": 64}
    torch.manual_seed(0)
    config = Qwen3_5Config(
        text_config=text, vision_config={**vision, "num_position_embeddings": 16}, **_vision_ids(made)
    )
    return tiny.save(folder, tiny.enlarge(Qwen3_5ForConditionalGeneration(config)), made)


def molmo2(folder: Path) -> Path:
    from transformers import Molmo2Config, Molmo2ForConditionalGeneration

    made = tiny.tokenizer(MOLMO_TOKENS)
    ids: dict[str, Any] = {
        name: made.token_to_id(f"<{name}>") for name in ("im_patch", "im_start", "im_end", "frame_start")
    }
    text = {k: v for k, v in _text(made).items() if k != "rope_parameters"} | {"head_dim": 16}
    vision: dict[str, Any] = {"hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 2}
    vision |= {"num_attention_heads": 2, "num_key_value_heads": 2, "head_dim": 16, "image_size": [56, 56]}
    adapter: dict[str, Any] = {"hidden_size": 32, "num_attention_heads": 2, "num_key_value_heads": 2}
    adapter |= {
        "head_dim": 16,
        "intermediate_size": 48,
        "text_hidden_size": 64,
        "vision_feature_layer": [1, 0],
    }
    torch.manual_seed(0)
    config = Molmo2Config(
        text_config={**text, "additional_vocab_size": 0},
        vision_config=vision,
        adapter_config=adapter,
        image_patch_id=ids["im_patch"],
        image_start_token_id=ids["im_start"],
        image_end_token_id=ids["im_end"],
        frame_start_token_id=ids["frame_start"],
        frame_end_token_id=_id(made, "<frame_end>"),
        low_res_image_start_token_id=_id(made, "<low_res_im_start>"),
    )
    return tiny.save(folder, tiny.enlarge(Molmo2ForConditionalGeneration(config)), made)


def llava(folder: Path) -> Path:
    """A family without a video, whose processor needs no torchvision."""
    import transformers as hf
    from transformers.models.clip.image_processing_pil_clip import CLIPImageProcessorPil

    made = tiny.tokenizer(("<image>", "<s>"))
    wrapped = hf.PreTrainedTokenizerFast(tokenizer_object=made, bos_token="<s>", eos_token="<|im_end|>")
    images = CLIPImageProcessorPil(size={"shortest_edge": 28}, crop_size={"height": 28, "width": 28})
    processor = hf.LlavaProcessor(
        image_processor=images,
        tokenizer=wrapped,
        patch_size=14,
        vision_feature_select_strategy="default",
        num_additional_image_tokens=1,
        chat_template=LLAVA_TEMPLATE,
    )
    text = {k: v for k, v in _text(made).items() if k != "rope_parameters"}
    vision: dict[str, Any] = {"hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 2}
    vision |= {"num_attention_heads": 2}
    torch.manual_seed(0)
    config = hf.LlavaConfig(
        text_config=hf.LlamaConfig(**text),
        vision_config=hf.CLIPVisionConfig(**vision, image_size=28, patch_size=14),
        image_token_index=_id(made, "<image>"),
        vision_feature_layer=-1,
    )
    tiny.enlarge(hf.LlavaForConditionalGeneration(config)).save_pretrained(folder)
    processor.save_pretrained(folder)
    return folder
