"""Loading of a checkpoint, and the inputs its family of models takes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch

from stepscore._untrusted import shown
from stepscore._untrusted.checkpoint_folder import brief, whole_number
from stepscore.errors import ModelError, OptionError
from stepscore.models.hf.chat import Chat, QwenChat
from stepscore.models.hf.families import PREFIX_SHARING_FAMILIES, QWEN_VIDEO_STYLES
from stepscore.models.hf.files import read_json, weight_headers
from stepscore.models.hf.generic_processor import GenericInputs, load_processor
from stepscore.models.hf.molmo2_inputs import load_molmo2_inputs
from stepscore.models.hf.network_loading import library_errors, load_network
from stepscore.models.hf.options import HfOptions
from stepscore.models.qwen3vl.full_forward import PrefixInputs
from stepscore.models.qwen3vl.inputs import Encode, Geometry, VisionTokens, geometry_of
from stepscore.models.qwen3vl.network import Qwen3VLNetwork
from stepscore.models.qwen3vl.prompts import QwenInputs
from stepscore.models.robometer.config import RobometerConfig
from stepscore.models.robometer.engine import RobometerEngine
from stepscore.models.robometer.inputs import RobometerInputs
from stepscore.models.robometer.loading import load_network as load_robometer_network
from stepscore.models.robometer.tokens import add_special_tokens


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
        import transformers

        geometry = self._geometry(config) if family in QWEN_VIDEO_STYLES else Geometry()
        model = load_network(
            transformers.AutoModelForImageTextToText,
            self.folder,
            self.options.name,
            dtype=self.options.dtype,
            device=chosen_device(self.options.device),
            attention=self.options.attention,
            remote_code=self.options.trust_remote_code,
        )
        with library_errors(f"{self.options.name}: its files do not belong together"):
            return self._put_together(config, family, geometry, model, tokenizer)

    def load_robometer(self, config: RobometerConfig, tokenizer: Any) -> RobometerEngine:
        """Load a Robometer checkpoint, heads and backbone, and put it together with its tokenizer.

        Raises:
            ModelError: It cannot be loaded, or its tokenizer is another model's; the message says why.
        """
        options = self.options
        geometry = self._geometry(config.backbone)
        network = load_robometer_network(
            self.folder,
            config,
            weight_headers(self.folder),
            options.name,
            dtype=options.dtype,
            device=chosen_device(options.device),
            attention=options.attention,
        )
        with library_errors(f"{options.name}: its files do not belong together"):
            add_special_tokens(tokenizer, len(network.model.get_input_embeddings().weight), options.name)
            tokens = self._vision_tokens(network.model)
        inputs = RobometerInputs(tokenizer, tokens, geometry, options.max_pixels)
        return RobometerEngine(network, inputs, options.name)

    def _put_together(
        self, config: Mapping[str, Any], family: str, geometry: Geometry, model: Any, tokenizer: Any
    ) -> Loaded:
        def encode(text: str) -> list[int]:
            ids: list[int] = tokenizer.encode(text, add_special_tokens=False)
            return ids

        if family in QWEN_VIDEO_STYLES:
            tokens = self._vision_tokens(model)
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
            vision = _object(config, "vision_config", self.folder) or _object(
                config, "vit_config", self.folder
            )
            molmo2 = load_molmo2_inputs(encode, tokenizer, vision, video, shown(self.folder))
            return Loaded(model, tokenizer, encode, molmo2, generic, None)
        if isinstance(generic, ModelError):
            raise generic
        return Loaded(model, tokenizer, encode, generic, generic, None)

    def _geometry(self, config: Mapping[str, Any]) -> Geometry:
        processor = read_json(self.folder / "preprocessor_config.json")
        vision = _object(config, "vision_config", self.folder)
        if not str(config.get("model_type")).startswith("qwen3"):
            vision.setdefault("patch_size", 14)
            processor.setdefault("image_mean", [0.48145466, 0.4578275, 0.40821073])
            processor.setdefault("image_std", [0.26862954, 0.26130258, 0.27577711])
        geometry = geometry_of(vision, processor, shown(self.folder))
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

    def _vision_tokens(self, model: Any) -> VisionTokens:
        names = ("vision_start_token_id", "vision_end_token_id", "image_token_id", "video_token_id")
        rows = len(model.get_input_embeddings().weight)
        where = f"{shown(self.folder / 'config.json')}: "
        stated = {name: getattr(model.config, name, None) for name in names}
        ids = [whole_number(stated, name, where, 0, rows - 1) for name in names]
        known = [token for token in ids if token is not None]
        if len(known) < len(names):
            raise ModelError(f"{where}{names[ids.index(None)]} is missing.")
        return VisionTokens(*known)

    def _generic(self, family: str, encode: Encode) -> GenericInputs | ModelError:
        try:
            processor = load_processor(
                self.folder, self.options.name, family, remote_code=self.options.trust_remote_code
            )
        except ModelError as error:
            return error
        return GenericInputs(processor, encode)


def _object(config: Mapping[str, Any], field: str, folder: Path) -> dict[str, Any]:
    found = config.get(field) or {}
    if not isinstance(found, dict):
        raise ModelError(f"{shown(folder / 'config.json')}: {field} is {brief(found)}; it is an object.")
    return dict(found)


def chosen_device(device: str) -> str:
    """Return the device; ``"auto"`` is the first available of CUDA, Apple's GPU and the CPU."""
    if device != "auto":
        return device
    if torch.cuda.is_available():
        return "cuda"
    return "mps" if torch.backends.mps.is_available() else "cpu"
