"""Load and check a checkpoint for NumPy: tokenizer, vision encoder and language model."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from stepscore._untrusted import shown
from stepscore._untrusted.checkpoint_folder import brief, check_files, whole_number
from stepscore.episodes import resize_frames
from stepscore.errors import ModelError
from stepscore.models.checkpoints.network_size import check_config
from stepscore.models.embedded.runtime.language_model import LanguageModel
from stepscore.models.embedded.runtime.layers import Array, f32
from stepscore.models.embedded.runtime.vision_encoder import VisionEncoder
from stepscore.models.hf.files import read_json, weight_headers
from stepscore.models.qwen3vl.inputs import Geometry, VisionTokens, fitted_size, geometry_of
from stepscore.models.qwen3vl.vision_features import image_squares
from stepscore.models.schemas.token_mask import Vocabulary, token_bytes
from stepscore.types import Frames, IntArray

if TYPE_CHECKING:
    from tokenizers import Tokenizer

FAMILY = "qwen3_vl"
STOP_TOKENS = ("<|im_end|>", "<|endoftext|>")
_COMPUTED: Mapping[str, object] = {
    "model_type": FAMILY,
    "text_config.attention_bias": False,
    "text_config.hidden_act": "silu",
    "text_config.rope_parameters.mrope_interleaved": True,
    "text_config.rope_parameters.rope_type": "default",
    "vision_config.hidden_act": "gelu_pytorch_tanh",
}
"""The model configuration that this runtime supports; other configurations need ``hf/``."""


@dataclass(frozen=True, eq=False)
class NumpyNetwork:
    """A small Qwen3-VL in memory."""

    tokenizer: Tokenizer
    tokens: VisionTokens
    geometry: Geometry
    vision: VisionEncoder
    text: LanguageModel
    max_positions: int

    def encode(self, text: str) -> list[int]:
        """Return the token ids of a text; special tokens in the text are recognised, and none are added."""
        ids: list[int] = self.tokenizer.encode(text, add_special_tokens=False).ids
        return ids

    @cached_property
    def stop_tokens(self) -> frozenset[int]:
        """Tokens that end an answer."""
        found = (self.tokenizer.token_to_id(mark) for mark in STOP_TOKENS)
        return frozenset(token for token in found if token is not None)

    @cached_property
    def vocabulary(self) -> Vocabulary:
        """The bytes of every token, for answers constrained by a schema."""
        return Vocabulary(token_bytes(self.tokenizer), self.stop_tokens)

    def fit(self, frames: Frames, pixels: tuple[int, int]) -> tuple[Frames, tuple[int, int]]:
        """Return frames resized to the nearest supported size, and rows and columns of a frame's token grid."""
        height, width = frames.shape[1:3]
        size = fitted_size(height, width, self.geometry.unit, pixels)
        return resize_frames(frames, size), self.geometry.grid(size)

    def image_rows(self, ids: IntArray) -> IntArray:
        """Return the indices of the image placeholder tokens."""
        rows: IntArray = np.flatnonzero((ids == self.tokens.video) | (ids == self.tokens.image))
        return rows

    def image_features(self, images: Sequence[Frames]) -> Array:
        """Return the features of single images, as :func:`stepscore.models.qwen3vl.image_features` does in torch."""
        rows = []
        for squares in image_squares(images, self.geometry):
            blocks = [(number,) * self.geometry.temporal for number in range(len(squares))]
            rows.append(np.concatenate(self.vision.encode(squares, blocks), axis=2).reshape(len(squares), -1))
        return np.concatenate(rows)


def load_network(folder: Path, name: str, max_pixels: int) -> NumpyNetwork:
    """Load a checkpoint; ModelError if files are damaged, inconsistent or unsupported."""
    check_files(folder)
    path = folder / "config.json"
    config = read_json(path)
    _check_computed(config, path, name)
    check_config(config, path, weight_headers(folder))
    vision, text = config["vision_config"], config["text_config"]
    unit = geometry_of(vision, {}, shown(folder)).unit
    still = geometry_of(vision, read_json(folder / "preprocessor_config.json"), shown(folder))
    geometry = Geometry(
        still.patch,
        still.merge,
        still.temporal,
        still.mean,
        still.std,
        (min(still.still_pixels[0], max_pixels), max_pixels),
        (unit * unit, max_pixels),
    )
    weights = _read_weights(folder)
    try:
        return NumpyNetwork(
            _tokenizer(folder),
            _vision_tokens(config, path, len(weights["model.language_model.embed_tokens.weight"])),
            geometry,
            VisionEncoder(weights, vision, geometry),
            LanguageModel(weights, text),
            whole_number(text, "max_position_embeddings", f"{shown(path)}: text_config.", 1, 1 << 30) or 4096,
        )
    except (KeyError, ValueError, IndexError, TypeError, OverflowError, MemoryError) as error:
        raise ModelError(
            f"{name}: the files of {shown(folder)} do not belong together "
            f"({type(error).__name__}: {shown(str(error))})."
        ) from error


def _check_computed(config: Mapping[str, Any], path: Path, name: str) -> None:
    """Raise an error for a network that this runtime would evaluate incorrectly."""
    for field, wanted in _COMPUTED.items():
        found: Any = config
        for part in field.split("."):
            found = found.get(part) if isinstance(found, Mapping) else None
        if found != wanted:
            raise ModelError(
                f"{shown(path)}: {field} is {brief(found)}; {name} supports only {brief(wanted)}. "
                f"Run this checkpoint with torch: --model hf/{shown(path.parent)}"
            )
    layers, deepstack = (
        config["text_config"].get("num_hidden_layers"),
        config["vision_config"].get("deepstack_visual_indexes"),
    )
    if not isinstance(layers, int) or not isinstance(deepstack, list) or len(deepstack) >= layers:
        raise ModelError(
            f"{shown(path)}: vision_config.deepstack_visual_indexes is {brief(deepstack)}; it must be a "
            f"list of fewer items than text_config.num_hidden_layers, {brief(layers)}."
        )


def _read_weights(folder: Path) -> dict[str, Array]:
    from safetensors import SafetensorError, safe_open

    weights: dict[str, Array] = {}
    for header in weight_headers(folder):
        try:
            with safe_open(header.path, "numpy") as file:
                weights |= {name: file.get_tensor(name).astype(f32) for name in header.tensors}
        except (SafetensorError, OSError, ValueError, TypeError, KeyError) as error:
            raise ModelError(f"{shown(header.path)} cannot be read ({shown(str(error))}).") from error
    for name, values in weights.items():
        if not np.isfinite(values).all():
            raise ModelError(f"{shown(folder)}: the tensor {shown(name)} has values that are not finite.")
    return weights


def _tokenizer(folder: Path) -> Tokenizer:
    from tokenizers import Tokenizer

    path = folder / "tokenizer.json"
    try:
        return Tokenizer.from_file(str(path))
    except Exception as error:  # the library raises plain Exception
        raise ModelError(f"{shown(path)} is not a tokenizer ({shown(str(error))}). Copy it again.") from error


def _vision_tokens(config: Mapping[str, Any], path: Path, rows: int) -> VisionTokens:
    names = ("vision_start_token_id", "vision_end_token_id", "image_token_id", "video_token_id")
    ids = [whole_number(config, name, f"{shown(path)}: ", 0, rows - 1) for name in names]
    known = [token for token in ids if token is not None]
    if len(known) < len(names):
        raise ModelError(f"{shown(path)}: {names[ids.index(None)]} is missing.")
    return VisionTokens(*known)
