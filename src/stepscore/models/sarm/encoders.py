"""SARM's encoders: frozen networks that turn frames and texts into features.

====================  ====================================================================================
encoder               a frame becomes
====================  ====================================================================================
``embedded``          the tokens of the embedded judge's vision encoder, those of its inner layers included
``hf/PATH-OR-ID``     of a Qwen3-VL the same; of CLIP, SigLIP and the like the projected image embedding; of a
                      plain vision model (ViT, DINOv2) its pooled output
====================  ====================================================================================

Frames are resized to squares, not cropped: what happens at the edge is part of the task. Features are kept in
float16, in training and in scoring alike. A text is encoded by the model's own text encoder; for a model without one,
by the mean of a random direction for each word, which is the same on every machine.
"""

from __future__ import annotations

import hashlib
import math
import re
from collections.abc import Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from stepscore._reading import read_bytes, shown
from stepscore.errors import MissingExtraError, ModelError, OptionError
from stepscore.models.checkpoints.digests import sampled_digest
from stepscore.models.checkpoints.folder import checked_file, has_file, whole_number
from stepscore.models.hf.files import (
    checkpoint_folder,
    load_tokenizer,
    read_json,
    weight_files,
    weights_digest,
)
from stepscore.models.hf.options import check_device
from stepscore.models.qwen3vl.inputs import colour_values
from stepscore.types import Frames

Half = NDArray[np.float16]
Float32 = NDArray[np.float32]

MAX_FRAME_FEATURES = 6144
"""Most features of a frame; a larger grid of tokens is averaged into fewer cells."""
WORD_FEATURES = 256
"""Features of a text for a model without a text encoder."""
MAX_FRAMES_PER_BATCH = 32
MAX_SIDE = 2048
"""Largest side in pixels of the images that an encoder takes."""


class FrameEncoder(Protocol):
    """A frozen encoder of frames and texts."""

    name: str

    @property
    def side(self) -> int:
        """Side in pixels of the images it takes; frames need not be decoded larger."""

    def describe(self) -> Mapping[str, object]:
        """Return all of it that can change a number, as JSON values."""

    def sampled_weights(self) -> str:
        """Return the digest by which checkpoints of version 0.1 name its weights."""

    def encode_images(self, frames: Frames) -> Half:
        """Encode frames, (n, features)."""

    def encode_text(self, texts: Sequence[str]) -> Float32:
        """Encode texts, (n, width)."""


def get_encoder(name: str, device: str = "auto") -> FrameEncoder:
    """Return the encoder ``embedded`` or ``hf/PATH-OR-ID``; it loads on first use."""
    if name == "embedded":
        from stepscore.models.embedded.model import FOLDER

        return QwenEncoder(name, str(FOLDER), device)
    if not name.startswith("hf/") or name == "hf/":
        raise OptionError(f"Unknown encoder {name!r}. Valid: embedded, hf/PATH-OR-ID (a vision model).")
    check_device(device, f"The encoder {shown(name)}")
    checkpoint = name.removeprefix("hf/")
    folder = checkpoint_folder(checkpoint, remote_code=False)
    family = read_json(folder / "config.json").get("model_type")
    if family == "qwen3_vl":
        return QwenEncoder(name, str(folder), device)
    return VisionEncoder(name, str(folder), device)


class _FromFolder:
    _folder: str

    def sampled_weights(self) -> str:
        """See :class:`FrameEncoder`."""
        return sampled_digest(weight_files(Path(self._folder)))


class QwenEncoder(_FromFolder):
    """The vision encoder of a Qwen3-VL, and the mean of a text's token embeddings.

    Args:
        name: Its name, ``embedded`` or ``hf/PATH-OR-ID``.
        folder: Folder of the checkpoint.
        device: ``"auto"``, ``"cpu"``, ``"cuda"``.
    """

    def __init__(self, name: str, folder: str, device: str = "auto") -> None:
        self.name, self._folder, self._device = name, folder, device

    @cached_property
    def _network(self) -> Any:
        from stepscore.models.embedded.model import torch_network

        return torch_network(Path(self._folder), self._device)

    @cached_property
    def side(self) -> int:
        """Side for which the vision encoder has position embeddings, at most that of the domain gate."""
        from stepscore.models.embedded.model import trained_side
        from stepscore.models.qwen3vl.vision_features import IMAGE_SIDE

        if not has_file(Path(self._folder), "config.json"):
            raise ModelError(
                f"The encoder {self.name} has no files at {self._folder}. Install the package again, or name "
                "another: --encoder hf/PATH-OR-ID"
            )
        return min(IMAGE_SIDE, trained_side(Path(self._folder)))

    def describe(self) -> Mapping[str, object]:
        """Return name, digests, side and pooling."""
        return _described(
            self.name, self._folder, {"side": self.side, "widest": MAX_FRAME_FEATURES, "text": "embeddings"}
        )

    def encode_images(self, frames: Frames) -> Half:
        """Return the vision encoder's tokens of each frame, cell by cell, deepstack included."""
        import torch

        from stepscore.models.qwen3vl.vision_features import image_features

        tokens = torch.from_numpy(image_features(self._network, list(frames)))
        grid = self.side // self._network.geometry.unit
        cells = tokens.reshape(len(frames), grid, grid, -1)
        own = int(self._network.model.config.vision_config.out_hidden_size)
        if cells.shape[-1] > MAX_FRAME_FEATURES:
            cells = cells[..., :own]
        finest = max(1, min(grid, math.isqrt(MAX_FRAME_FEATURES // cells.shape[-1])))
        pooled = torch.nn.functional.adaptive_avg_pool2d(cells.permute(0, 3, 1, 2), finest)
        return _half(pooled.permute(0, 2, 3, 1).reshape(len(frames), -1).numpy())

    def encode_text(self, texts: Sequence[str]) -> Float32:
        """Return the mean of each text's token embeddings."""
        import torch

        network = self._network
        table = network.model.get_input_embeddings().weight
        with torch.inference_mode():
            rows = [table[network.encode(text) or [0]].float().mean(0) for text in texts]
            return np.asarray(torch.stack(rows).cpu().numpy(), dtype=np.float32)


class VisionEncoder(_FromFolder):
    """Any vision model that transformers loads by ``AutoModel``; its text encoder is used where it has one.

    Args:
        name: Its name, ``embedded`` or ``hf/PATH-OR-ID``.
        folder: Folder of the checkpoint, with its ``preprocessor_config.json``.
        device: ``"auto"``, ``"cpu"``, ``"cuda"``.
    """

    def __init__(self, name: str, folder: str, device: str = "auto") -> None:
        self.name, self._folder, self._device = name, folder, device

    @cached_property
    def _model(self) -> Any:
        try:
            import torch
            from transformers import AutoModel
        except ImportError as error:
            raise MissingExtraError(f"The encoder {self.name}", "local") from error
        from stepscore.models.hf.network_loading import load_network

        chosen = "cuda" if self._device == "auto" and torch.cuda.is_available() else self._device
        device = "cpu" if chosen == "auto" else chosen
        return load_network(AutoModel, Path(self._folder), f"The encoder {self.name}", device=device)

    @cached_property
    def _scaling(self) -> tuple[int, Float32, Float32]:
        """Side in pixels, mean and deviation of colours, as the checkpoint states them."""
        stated = read_json(Path(self._folder) / "preprocessor_config.json")
        config = read_json(Path(self._folder) / "config.json")
        where = f"{shown(self._folder)}/preprocessor_config.json: "
        mean = colour_values(stated, "image_mean", where)
        std = colour_values(stated, "image_std", where, above=0.0)
        vision = config.get("vision_config") or config
        side = None
        if isinstance(vision, dict):
            side = whole_number(vision, "image_size", f"{shown(self._folder)}/config.json: ", 1, MAX_SIDE)
        if mean is None or std is None or side is None:
            raise ModelError(
                f"The encoder {self.name} does not state how images are to be scaled: {self._folder} needs "
                "image_mean and image_std in preprocessor_config.json and image_size in config.json."
            )
        return side, np.asarray(mean, dtype=np.float32), np.asarray(std, dtype=np.float32)

    @cached_property
    def _encodes_text(self) -> bool:
        return hasattr(self._model, "get_text_features")

    @property
    def side(self) -> int:
        """Side in pixels that the model was trained at."""
        return self._scaling[0]

    def describe(self) -> Mapping[str, object]:
        """Return name, digests, side, and how texts are encoded."""
        text = "text features" if self._encodes_text else f"words {WORD_FEATURES}"
        return _described(self.name, self._folder, {"side": self.side, "text": text})

    def encode_images(self, frames: Frames) -> Half:
        """Return the image embedding of each frame, or the pooled output where there is none."""
        import torch

        from stepscore.episodes import resize_frames

        side, mean, std = self._scaling
        rows = []
        for start in range(0, len(frames), MAX_FRAMES_PER_BATCH):
            squares = (
                resize_frames(frames[start : start + MAX_FRAMES_PER_BATCH], (side, side)).astype(np.float32)
                / 255
            )
            pixels = torch.from_numpy((squares - mean) / std).permute(0, 3, 1, 2).to(self._model.device)
            with torch.inference_mode():
                rows.append(self._embedding(pixels).float().cpu().numpy())
        return _half(np.concatenate(rows))

    def _embedding(self, pixels: Any) -> Any:
        if hasattr(self._model, "get_image_features"):
            return _pooled(self._model.get_image_features(pixel_values=pixels))
        return _pooled(self._model(pixel_values=pixels))

    @cached_property
    def _tokenizer(self) -> Any:
        return load_tokenizer(Path(self._folder), remote_code=False)

    def encode_text(self, texts: Sequence[str]) -> Float32:
        """Return the embedding of each text, or the mean of its words' directions without a text encoder."""
        if not self._encodes_text:
            return np.stack([word_directions(text) for text in texts])
        import torch

        config = self._model.config
        longest = int(getattr(getattr(config, "text_config", config), "max_position_embeddings", 64))
        rows = []
        with torch.inference_mode():
            for text in texts:  # one by one, so that no text depends on the padding of another
                ids = self._tokenizer(text, truncation=True, max_length=longest, return_tensors="pt")[
                    "input_ids"
                ]
                found = self._model.get_text_features(input_ids=ids.to(self._model.device))
                rows.append(_pooled(found)[0].float().cpu().numpy())
        return np.asarray(np.stack(rows), dtype=np.float32)


def word_directions(text: str) -> Float32:
    """Return the mean of a random direction for each word of a text, from the word's hash alone."""
    words = re.findall(r"\w+", text.lower()) or [""]
    seeds = [int.from_bytes(hashlib.sha256(word.encode()).digest()[:8], "big") for word in words]
    rows = [np.random.default_rng(seed).standard_normal(WORD_FEATURES) for seed in seeds]
    return np.asarray(np.mean(rows, axis=0), dtype=np.float32)


def _pooled(found: Any) -> Any:
    """Return one vector per image or text: releases of transformers give it plain or inside an output."""
    if not hasattr(found, "last_hidden_state") and not hasattr(found, "pooler_output"):
        return found
    pooled = getattr(found, "pooler_output", None)
    return found.last_hidden_state.mean(dim=1) if pooled is None else pooled.flatten(1)


def _half(values: NDArray[np.floating[Any]]) -> Half:
    largest = float(np.finfo(np.float16).max)
    return np.asarray(np.clip(values, -largest, largest), dtype=np.float16)


def _described(name: str, folder: str, more: Mapping[str, object]) -> Mapping[str, object]:
    """Return digests of the files that can change a feature; cards and calibration maps cannot."""
    files = hashlib.sha256()
    for file in ("config.json", "preprocessor_config.json", "tokenizer.json"):
        # The package's own came after the first checkpoints trained on it, and states what held without it.
        if has_file(Path(folder), file) and (name, file) != ("embedded", "preprocessor_config.json"):
            files.update(f"{file} ".encode() + read_bytes(checked_file(Path(folder), file), ModelError))
    return {"name": name, "weights": weights_digest(Path(folder)), "files": files.hexdigest(), **more}
