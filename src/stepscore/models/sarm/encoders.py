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

import math
from collections.abc import Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from stepscore._untrusted import shown
from stepscore._untrusted.checkpoint_folder import has_file
from stepscore.errors import ModelError, OptionError
from stepscore.models.encoders.vision_encoder import (
    Float32,
    FromFolder,
    Half,
    VisionEncoder,
    described,
    half,
)
from stepscore.models.hf.files import checkpoint_folder, read_json
from stepscore.models.hf.options import check_device
from stepscore.types import Frames

MAX_FRAME_FEATURES = 6144
"""Most features of a frame; a larger grid of tokens is averaged into fewer cells."""


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


class QwenEncoder(FromFolder):
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
                "another: -T encoder=hf/PATH-OR-ID"
            )
        return min(IMAGE_SIDE, trained_side(Path(self._folder)))

    def describe(self) -> Mapping[str, object]:
        """Return name, digests, side and pooling."""
        return described(
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
        return half(pooled.permute(0, 2, 3, 1).reshape(len(frames), -1).numpy())

    def encode_text(self, texts: Sequence[str]) -> Float32:
        """Return the mean of each text's token embeddings."""
        import torch

        network = self._network
        table = network.model.get_input_embeddings().weight
        with torch.inference_mode():
            rows = [table[network.encode(text) or [0]].float().mean(0) for text in texts]
            return np.asarray(torch.stack(rows).cpu().numpy(), dtype=np.float32)
