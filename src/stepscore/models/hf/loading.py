"""Loading of a checkpoint, and the inputs its family of models takes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch

from stepscore.errors import ModelError, OptionError
from stepscore.models.hf.chat import Chat, QwenChat
from stepscore.models.hf.families import PREFIX_SHARING_FAMILIES, QWEN_VIDEO_STYLES
from stepscore.models.hf.files import read_json
from stepscore.models.hf.generic_processor import GenericInputs, load_processor
from stepscore.models.hf.molmo2_inputs import load_molmo2_inputs
from stepscore.models.hf.options import HfOptions
from stepscore.models.qwen3vl.full_forward import PrefixInputs
from stepscore.models.qwen3vl.inputs import Encode, Geometry, VisionTokens, geometry_of
from stepscore.models.qwen3vl.network import Qwen3VLNetwork
from stepscore.models.qwen3vl.prompts import QwenInputs


@dataclass(frozen=True, eq=False)
class Loaded:
    """A model ready to answer.

    Attributes:
        model: The transformers model, on its device.
        tokenizer: Its tokenizer.
        encode: Text into token ids, special tokens included, none added.
        prefix_inputs: Makes the inputs of prefixes of videos.
        chat: Makes the inputs of conversations; an error where this family cannot chat here.
        network: The parts of the model, where work can be shared between prefixes; else ``None``.
    """

    model: Any
    tokenizer: Any
    encode: Encode
    prefix_inputs: PrefixInputs
    chat: Chat | ModelError
    network: Qwen3VLNetwork | None


@dataclass(frozen=True)
class Loader:
    """Loads a checkpoint.

    Attributes:
        options: The model's options.
        folder: Folder of the checkpoint.
    """

    options: HfOptions
    folder: Path

    def load(self, tokenizer: Any) -> Loaded:
        """Load the model, and put it together with its tokenizer.

        Raises:
            ModelError: It cannot be loaded; the message says why.
        """
        config = read_json(self.folder / "config.json")
        family = str(config.get("model_type"))
        model = self._model(family)

        def encode(text: str) -> list[int]:
            ids: list[int] = tokenizer.encode(text, add_special_tokens=False)
            return ids

        if family in QWEN_VIDEO_STYLES:
            geometry, tokens = self._geometry(config), _vision_tokens(model.config)
            inputs = QwenInputs(encode, tokens, geometry, QWEN_VIDEO_STYLES[family])
            network = (
                Qwen3VLNetwork(model, encode, tokens, geometry, self.options.attention)
                if family in PREFIX_SHARING_FAMILIES
                else None
            )
            return Loaded(model, tokenizer, encode, inputs, QwenChat(tokenizer, inputs), network)
        generic = self._generic(family, encode)
        if family == "molmo2":
            video = read_json(self.folder / "video_preprocessor_config.json")
            vision = config.get("vision_config") or config.get("vit_config") or {}
            molmo2 = load_molmo2_inputs(encode, tokenizer, vision, video)
            return Loaded(model, tokenizer, encode, molmo2, generic, None)
        if isinstance(generic, ModelError):
            raise generic
        return Loaded(model, tokenizer, encode, generic, generic, None)

    def _model(self, family: str) -> Any:
        import transformers

        loader: Any = transformers.AutoModelForImageTextToText
        try:
            model, found = loader.from_pretrained(
                self.folder,
                dtype=getattr(torch, self.options.dtype),
                attn_implementation=self.options.attention,
                use_safetensors=True,
                trust_remote_code=self.options.trust_remote_code,
                local_files_only=True,
                output_loading_info=True,
            )
        except (ImportError, KeyError, OSError, ValueError) as error:
            first = next((line for line in str(error).splitlines() if line.strip()), "no message")
            raise ModelError(
                f"{self.options.name}: a model of type {family!r} cannot be loaded: {first}"
            ) from error
        if found["missing_keys"]:
            lacking = sorted(found["missing_keys"])
            raise ModelError(
                f"{self.options.name}: the checkpoint lacks {len(lacking)} of the model's weights "
                f"({lacking[0]} ...), which would be random numbers. Save the complete model again."
            )
        return model.eval().to(chosen_device(self.options.device))

    def _geometry(self, config: Mapping[str, Any]) -> Geometry:
        processor = read_json(self.folder / "preprocessor_config.json")
        vision = dict(config.get("vision_config") or {})
        if not str(config.get("model_type")).startswith("qwen3"):
            vision.setdefault("patch_size", 14)
            processor.setdefault("image_mean", [0.48145466, 0.4578275, 0.40821073])
            processor.setdefault("image_std", [0.26862954, 0.26130258, 0.27577711])
        geometry = geometry_of(vision, processor)
        if self.options.max_pixels is None:
            return geometry
        unit = geometry.unit**2
        if self.options.max_pixels < unit:
            raise OptionError(
                f"{self.options.name}: max_pixels is {self.options.max_pixels}; one token of it is {unit} pixels."
            )
        least = min(geometry.still_pixels[0], self.options.max_pixels)
        return replace(
            geometry,
            still_pixels=(least, self.options.max_pixels),
            video_pixels=(unit, self.options.max_pixels),
        )

    def _generic(self, family: str, encode: Encode) -> GenericInputs | ModelError:
        try:
            processor = load_processor(
                self.folder, self.options.name, family, remote_code=self.options.trust_remote_code
            )
        except ModelError as error:
            return error
        return GenericInputs(processor, encode)


def _vision_tokens(config: Any) -> VisionTokens:
    names = ("vision_start_token_id", "vision_end_token_id", "image_token_id", "video_token_id")
    return VisionTokens(*(int(getattr(config, name)) for name in names))


def chosen_device(device: str) -> str:
    """Return the device; ``"auto"`` is the first available of CUDA, Apple's GPU and the CPU."""
    if device != "auto":
        return device
    if torch.cuda.is_available():
        return "cuda"
    return "mps" if torch.backends.mps.is_available() else "cpu"
