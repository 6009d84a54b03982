"""Random Robometer checkpoints of both published layouts, made on the spot, and what they predict, by hand."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import torch
import yaml
from numpy.typing import NDArray
from PIL import Image
from safetensors.torch import save_file
from tokenizers import AddedToken, Tokenizer
from torch import Tensor
from torch.nn import functional

from stepscore.episodes import Clip
from tests.models import tiny

TOKENS = ("<|split_token|>", "<|reward_token|>", "<|pref_token|>", "<|sim_token|>", "<|prog_token|>")
PROMPT = "Task: '{task}'. Say how far it is."
HIDDEN, BINS = 64, 10
LAYOUTS = ("robometer", "lerobot")
TEMPLATE = (
    "{%- set image = namespace(count=0) -%}{%- for m in messages -%}{{ '<|im_start|>' + m.role + '\n' }}"
    "{%- for p in m.content -%}{%- if p.type == 'image' -%}{%- set image.count = image.count + 1 -%}"
    "{%- if add_vision_id -%}{{ 'Picture ' ~ image.count ~ ': ' }}{%- endif -%}"
    "{{ '<|vision_start|><|image_pad|><|vision_end|>' }}{%- else -%}{{ p.text }}{%- endif -%}{%- endfor -%}"
    "{{ '<|im_end|>\n' }}{%- endfor -%}{%- if add_generation_prompt -%}{{ '<|im_start|>assistant\n' }}{%- endif -%}"
)


@cache
def base_tokenizer() -> Tokenizer:
    """The tokenizer of the base model, without the added tokens."""
    return tiny.tokenizer()


def tokenizer(order: tuple[str, ...] = TOKENS) -> Tokenizer:
    """The tokenizer with the added tokens, in the published order unless told otherwise."""
    made = Tokenizer.from_str(base_tokenizer().to_str())
    made.add_special_tokens([AddedToken(token, special=True) for token in order])
    return made


@cache
def tensors(bins: int = BINS, seed: int = 0) -> dict[str, Tensor]:
    """Every tensor of a checkpoint, by its name in the layout of robometer."""
    backbone = backbone_model(seed)
    made = {f"model.{name}": value.detach().clone() for name, value in backbone.model.state_dict().items()}
    random = torch.Generator().manual_seed(seed + 1)
    for head, outputs in (("progress", bins), ("success", 1), ("preference", 1)):
        shapes = {"0.weight": (HIDDEN // 2, HIDDEN), "0.bias": (HIDDEN // 2,), "1.bias": (HIDDEN // 2,)}
        shapes |= {"1.weight": (HIDDEN // 2,), "4.weight": (outputs, HIDDEN // 2), "4.bias": (outputs,)}
        for name, shape in shapes.items():
            # Small enough that no sigmoid is saturated.
            made[f"{head}_head.{name}"] = (0.3 if name[0] == "4" else 1) * torch.randn(
                shape, generator=random
            )
    return made | {"frame_pool_attn.weight": torch.randn((1, HIDDEN), generator=random)}


@cache
def backbone_model(seed: int = 0) -> Any:
    """A Qwen3-VL whose embedding has rows for the added tokens."""
    rows = base_tokenizer().get_vocab_size() + len(TOKENS)
    model = tiny.qwen3vl(base_tokenizer(), seed=seed, vocab_size=rows)
    with torch.no_grad():
        model.model.language_model.embed_tokens.weight[-len(TOKENS) :] *= 20  # each of them matters
    return model


def save(
    folder: Path,
    layout: str = "robometer",
    *,
    changed: dict[str, Tensor | None] | None = None,
    bins: int = BINS,
    with_tokenizer: bool | None = None,
    config: dict[str, Any] | None = None,
    base_model: str = "",
) -> Path:
    """A checkpoint; ``changed`` replaces tensors by their name in the layout of robometer, or drops them."""
    named = {**tensors(bins), **(changed or {})}
    kept = {name: value.contiguous() for name, value in named.items() if value is not None}
    plain = {**backbone_model().config.to_dict(), "architectures": ["RFM"]}
    folder.mkdir(parents=True, exist_ok=True)
    heads = {
        "use_multi_image": True,
        "use_per_frame_progress_token": True,
        "progress_loss_type": "discrete" if bins > 1 else "l2",
        "progress_discrete_bins": 10 if bins == 1 else bins,
        "max_frames": 8,
        **(config or {}),
    }
    if layout == "robometer":
        save_file(kept, folder / "model.safetensors", metadata={"format": "pt"})
        (folder / "config.json").write_text(json.dumps(plain))
        loss = {name: heads.pop(name) for name in ("progress_loss_type", "progress_discrete_bins")}
        sections = {
            "model": {"base_model_id": base_model, "progress_loss_type": "${loss.progress_loss_type}"},
            "data": heads,
            "loss": loss,
            "training": {"predict_pref_progress": True},
        }
        (folder / "config.yaml").write_text(yaml.safe_dump(sections))
    else:
        renamed = {name.replace("model.", "model.model.", 1): value for name, value in kept.items()}
        # Of two tied tensors, LeRobot's files keep the first by name.
        tied = renamed.pop("model.model.language_model.embed_tokens.weight", None)
        if tied is not None:
            renamed["model.lm_head.weight"] = tied
        save_file(renamed, folder / "model.safetensors")
        content = {"type": "robometer", "base_model_id": base_model, "vlm_config": plain, **heads}
        (folder / "config.json").write_text(json.dumps(content))
    if with_tokenizer if with_tokenizer is not None else layout == "robometer":
        save_tokenizer(folder, tokenizer())
    return folder


def save_tokenizer(folder: Path, made: Tokenizer) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    made.save(str(folder / "tokenizer.json"))
    settings = {"tokenizer_class": "PreTrainedTokenizerFast", "eos_token": "<|im_end|>"}
    (folder / "tokenizer_config.json").write_text(json.dumps(settings))
    (folder / "chat_template.jinja").write_text(TEMPLATE)
    return folder


def reference(
    text: str, clips: tuple[Clip, ...], read_at: str, head: str, bins: int = BINS
) -> NDArray[np.float64]:
    """What a head predicts at every token of a kind: a plain forward of transformers, and the head by hand.

    ``text`` has ``<image>`` in the place of each frame, and all special tokens.
    """
    frames = [frame for clip in clips for frame in clip.frames]
    pixels, grids = _pixels(frames)
    filled = text
    for grid in grids:
        pads = "<|image_pad|>" * int(grid.prod() // 4)
        filled = filled.replace("<image>", f"<|vision_start|>{pads}<|vision_end|>", 1)
    ids = torch.tensor([tokenizer().encode(filled).ids])
    model = backbone_model()
    with torch.no_grad():
        out = model(
            input_ids=ids,
            attention_mask=torch.ones_like(ids),
            mm_token_type_ids=(ids == model.config.image_token_id).int(),
            pixel_values=pixels,
            image_grid_thw=torch.stack(grids),
            output_hidden_states=True,
        )
    at = torch.eq(ids[0], tokenizer().get_vocab()[read_at]).nonzero()[:, 0]
    x = out.hidden_states[-1][0, at]
    w = {name.partition(".")[2]: t for name, t in tensors(bins).items() if name.startswith(f"{head}_head.")}
    x = functional.linear(x, w["0.weight"], w["0.bias"])
    x = (x - x.mean(1, keepdim=True)) / torch.sqrt(x.var(1, keepdim=True, unbiased=False) + 1e-5)
    x = x * w["1.weight"] + w["1.bias"]
    x = x * 0.5 * (1 + torch.erf(x / 2**0.5))
    logits = functional.linear(x, w["4.weight"], w["4.bias"]).double()
    if logits.shape[1] == 1:
        return (1 / (1 + torch.exp(-logits[:, 0]))).numpy()
    shares = torch.exp(logits) / torch.exp(logits).sum(1, keepdim=True)
    return np.asarray((shares * torch.arange(bins) / (bins - 1)).sum(1))


def _pixels(frames: list[Any]) -> tuple[Tensor, list[Tensor]]:
    """Patches as transformers' own image processor cuts them, after the resize of ``qwen_vl_utils``."""
    from transformers import Qwen2VLImageProcessorPil
    from transformers.models.qwen2_vl.image_processing_pil_qwen2_vl import smart_resize

    processor = Qwen2VLImageProcessorPil(
        patch_size=16, temporal_patch_size=2, merge_size=2, image_mean=[0.5] * 3, image_std=[0.5] * 3
    )
    images = []
    for frame in frames:
        limits = {"factor": 32, "min_pixels": 4 * 1024, "max_pixels": 16384 * 1024}
        height, width = smart_resize(frame.shape[0], frame.shape[1], **limits)
        images.append(Image.fromarray(frame).resize((width, height)))
    made = processor(images=images, do_resize=False, return_tensors="pt")
    return made["pixel_values"], list(made["image_grid_thw"])


def progress_text(prompt: str, frames: int) -> str:
    """The whole text of a progress question, as the published code writes it."""
    shown = "".join(f"Picture {i + 1}: <image><|prog_token|>" for i in range(frames))
    return f"<|im_start|>user\n{prompt}{shown}<|im_end|>\n"


def preference_text(texts: tuple[str, str, str], first: int, second: int) -> str:
    """The whole text of a preference question."""
    shown = [f"Picture {i + 1}: <image><|prog_token|>" for i in range(first + second)]
    a, b = "".join(shown[:first]), "".join(shown[first:])
    return f"<|im_start|>user\n{texts[0]}{a}<|split_token|>{texts[1]}{b}{texts[2]}<|pref_token|><|im_end|>\n"
