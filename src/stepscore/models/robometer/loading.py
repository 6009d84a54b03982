"""Load a Robometer checkpoint of either layout; all tensors are checked before any is read."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch

from stepscore._untrusted import shown
from stepscore._untrusted.safetensors_header import Header, TensorEntry
from stepscore.errors import ModelError
from stepscore.models.checkpoints.network_size import (
    bounded_network,
    check_config,
    check_memory,
    weights_limit,
)
from stepscore.models.hf.network_loading import check_numbers, library_errors, no_progress_bars
from stepscore.models.robometer.config import RobometerConfig
from stepscore.models.robometer.engine import RobometerNetwork

BACKBONE = {"robometer": "model.", "lerobot": "model.model."}
"""Prefix of the backbone's tensor names, by layout."""
EMBEDDING = "model.language_model.embed_tokens.weight"
LANGUAGE_HEADS = ("lm_head.weight", "model.lm_head.weight")
UNUSED = ("frame_pool_attn.", "similarity_head.")
"""Prefixes of checkpoint tensors that no supported prediction needs: image token pooling, an old head."""


def stored_names(config: RobometerConfig, headers: Sequence[Header]) -> dict[str, str]:
    """Map the network's tensor names to the names in the files; unknown tensors are included.

    The language head is skipped unless the embedding is stored only under the head's name. LeRobot's files
    store only one of two tied tensors, the alphabetically first.
    """
    prefix = BACKBONE[config.layout]
    names: dict[str, str] = {}
    language_head = None
    for stored in (name for header in headers for name in header.tensors):
        if stored in LANGUAGE_HEADS:
            language_head = stored
        elif not stored.startswith(UNUSED):
            names["model." + stored.removeprefix(prefix) if stored.startswith(prefix) else stored] = stored
    if EMBEDDING not in names and language_head is not None and _is_tied(config):
        names[EMBEDDING] = language_head
    return names


def _is_tied(config: RobometerConfig) -> bool:
    text = config.backbone.get("text_config")
    inner = text.get("tie_word_embeddings") if isinstance(text, Mapping) else None
    return bool(config.backbone.get("tie_word_embeddings", inner))


def load_network(
    folder: Path,
    config: RobometerConfig,
    headers: Sequence[Header],
    name: str,
    *,
    dtype: str = "float32",
    device: str = "cpu",
    attention: str = "sdpa",
) -> RobometerNetwork:
    """Load the backbone and heads onto a device, in evaluation mode.

    Raises:
        ModelError: A tensor is missing, unknown or not numeric, or its shape does not match the config, or
            there is not enough memory. The message names the first such tensor.
    """
    where = shown(folder / "config.json")
    check_config(config.backbone, folder / "config.json", headers)
    elements, each = sum(header.elements for header in headers), getattr(torch, dtype).itemsize
    if device == "cpu":
        check_memory(elements, each, name)
    with library_errors(f"{name}: its Qwen3-VL cannot be loaded", elements * each):
        stated = _backbone_config(config)
        hidden = int(stated.text_config.hidden_size)
        with torch.device("meta"), bounded_network(weights_limit(headers, quantized=False), where):
            empty = RobometerNetwork(_backbone_class()(stated), hidden, config.bins)
        names = stored_names(config, headers)
        _check_shapes(empty, names, headers, name)
        tensors = _read(names, headers, getattr(torch, dtype))
        in_backbone = {
            key.removeprefix("model."): t for key, t in tensors.items() if key.startswith("model.")
        }
        with no_progress_bars(), bounded_network(weights_limit(headers, quantized=False), where):
            backbone, found = _backbone_class().from_pretrained(
                None,
                config=stated,
                state_dict=in_backbone,
                dtype=getattr(torch, dtype),
                attn_implementation=attention,
                output_loading_info=True,
            )
        if found["missing_keys"]:
            raise ModelError(f"{name}: {shown(min(found['missing_keys']))} of its Qwen3-VL was not loaded.")
        network = RobometerNetwork(backbone, hidden, config.bins).to(getattr(torch, dtype))
        heads = {key: tensor for key, tensor in tensors.items() if not key.startswith("model.")}
        network.load_state_dict(heads, strict=False)
        check_numbers(network, name)
        return network.to(device).eval()


def _backbone_class() -> Any:
    import transformers

    return transformers.Qwen3VLModel


def _backbone_config(config: RobometerConfig) -> Any:
    """Return the backbone's config in the form transformers expects."""
    import transformers

    fields = {key: value for key, value in config.backbone.items() if key not in ("model_type", "auto_map")}
    return transformers.Qwen3VLConfig(**fields)


def _check_shapes(
    empty: RobometerNetwork, names: Mapping[str, str], headers: Sequence[Header], name: str
) -> None:
    """Raise ModelError for the first missing, unknown or wrongly shaped tensor, starting with the heads."""
    entries: dict[str, TensorEntry] = {
        key: entry for header in headers for key, entry in header.tensors.items()
    }
    stored = {key: entries[in_file].shape for key, in_file in names.items()}
    stated = {key: tuple(tensor.shape) for key, tensor in empty.state_dict().items()}
    wrong = [key for key in {*stated, *stored} if stated.get(key) != stored.get(key)]
    if not wrong:
        return
    first = min(wrong, key=lambda key: (key.startswith("model."), key))
    if first not in stored:
        why = f"lacks the tensor {shown(first)}, of shape {stated[first]}, which would be random numbers"
    elif first not in stated:
        why = f"has a tensor {shown(names[first])} that Robometer has not"
    else:
        why = f"has {shown(names[first])} of shape {stored[first]}; its config states {stated[first]}"
    raise ModelError(f"{name} {why}. Copy or download it again.")


def _read(names: Mapping[str, str], headers: Sequence[Header], dtype: torch.dtype) -> dict[str, torch.Tensor]:
    from safetensors import safe_open

    by_file = {in_file: key for key, in_file in names.items()}
    tensors = {}
    for header in headers:
        with safe_open(header.path, framework="pt") as file:
            for in_file in header.tensors:
                if in_file in by_file:
                    tensors[by_file[in_file]] = file.get_tensor(in_file).to(dtype)
    return tensors
