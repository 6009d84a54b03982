"""Any vision model that transformers loads, as a frozen encoder of frames; with its texts, where it encodes them."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from stepscore._untrusted import read_bytes, shown
from stepscore._untrusted.checkpoint_folder import checked_file, has_file, whole_number
from stepscore.episodes import resize_frames
from stepscore.errors import MissingExtraError, ModelError
from stepscore.models.checkpoints.digests import sampled_digest
from stepscore.models.encoders.similarity import score_similarity
from stepscore.models.hf.files import load_tokenizer, read_json, weight_files, weights_digest
from stepscore.models.qwen3vl.inputs import colour_values
from stepscore.models.requests import ScoreSimilarity
from stepscore.models.responses import Similarities
from stepscore.types import Frames

Half = NDArray[np.float16]
Float32 = NDArray[np.float32]

WORD_FEATURES = 256
"""Features of a text for a model without a text encoder."""
MAX_FRAMES_PER_BATCH = 32
MAX_SIDE = 2048
"""Largest side in pixels of the images that an encoder takes."""


class FromFolder:
    """An encoder whose weights are in a folder."""

    _folder: str

    def sampled_weights(self) -> str:
        """See :class:`FrameEncoder`."""
        return sampled_digest(weight_files(Path(self._folder)))


class VisionEncoder(FromFolder):
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
        return described(self.name, self._folder, {"side": self.side, "text": text})

    def encode_images(self, frames: Frames) -> Half:
        """Return the image embedding of each frame, or the pooled output where there is none."""
        return half(self.image_features(frames))

    def image_features(self, frames: Frames) -> Float32:
        """Return the same in float32."""
        import torch

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
        return np.concatenate(rows)

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
        return self._text_features(texts, {})

    def text_features(self, texts: Sequence[str]) -> Float32:
        """Return the embedding of each text as the model was trained: SigLIP read all texts padded to one length."""
        padded = str(self._model.config.model_type).startswith("siglip")
        return self._text_features(texts, {"padding": "max_length"} if padded else {})

    def similarities(self, request: ScoreSimilarity) -> Similarities:
        """Return the similarities of frames with images and texts."""

        def encode_images(images: Sequence[Frames]) -> Float32:
            size = (self.side, self.side)
            return self.image_features(np.concatenate([resize_frames(image[None], size) for image in images]))

        encode_texts = self.text_features if self._encodes_text else None
        return score_similarity(request, encode_images, self.name, encode_texts)

    def _text_features(self, texts: Sequence[str], padding: Mapping[str, str]) -> Float32:
        import torch

        config = self._model.config
        longest = int(getattr(getattr(config, "text_config", config), "max_position_embeddings", 64))
        rows = []
        with torch.inference_mode():
            for text in texts:  # one by one, so that no text depends on the padding of another
                ids = self._tokenizer(
                    text, truncation=True, max_length=longest, return_tensors="pt", **padding
                )["input_ids"]
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


def half(values: NDArray[np.floating[Any]]) -> Half:
    """Return values in float16, those beyond its range at its end."""
    largest = float(np.finfo(np.float16).max)
    return np.asarray(np.clip(values, -largest, largest), dtype=np.float16)


def described(name: str, folder: str, more: Mapping[str, object]) -> Mapping[str, object]:
    """Return digests of the files that can change a feature; cards and calibration maps cannot."""
    files = hashlib.sha256()
    for file in ("config.json", "preprocessor_config.json", "tokenizer.json"):
        # The package's own came after the first checkpoints trained on it, and states what held without it.
        if has_file(Path(folder), file) and (name, file) != ("embedded", "preprocessor_config.json"):
            files.update(f"{file} ".encode() + read_bytes(checked_file(Path(folder), file), ModelError))
    return {"name": name, "weights": weights_digest(Path(folder)), "files": files.hexdigest(), **more}
