"""``sarm/CHECKPOINT``: a stage-aware reward model trained by ``stepscore train sarm``.

It answers one kind of request, :class:`stepscore.models.PredictStages`: videos of all its views and an instruction
in, stages and progress at every frame out. It generates no text and scores no tokens.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, cast, get_args

import numpy as np

from stepscore._untrusted.checkpoint_folder import named_folder
from stepscore.errors import CapabilityError, MissingExtraError, ModelError, OptionError
from stepscore.models.base import Capabilities, SyncMethods, handler_of
from stepscore.models.hf.options import check_device
from stepscore.models.media import DecodedMedia
from stepscore.models.requests import PredictStages, Request
from stepscore.models.responses import Response, StagePrediction, StagePredictions
from stepscore.models.sarm.checkpoint import checkpoint_digest, load_network, read_config
from stepscore.models.sarm.config import Decode, SarmConfig
from stepscore.registry import names
from stepscore.types import FloatArray, Frames, IntArray

if TYPE_CHECKING:
    from stepscore.models.sarm.encoders import FrameEncoder
    from stepscore.models.sarm.network import SarmNetwork
    from stepscore.models.vision_encoder import Float32, Half

DIGITS = 6
"""Decimals of a prediction and of the robot's state, so that a cached response equals a new one."""
MAX_CACHED_TEXTS = 256
ANSWERS = "answers only the judge sarm. Choose it: --judge sarm"


@dataclass
class SarmModel(SyncMethods):
    """A SARM checkpoint, with the encoder it was trained on. Loads on first use.

    Attributes:
        checkpoint: The folder, the part after ``sarm/``.
        encoder: The same encoder under another path, if it was moved: ``hf/PATH``; ``None`` for the trained one.
        device: ``"auto"``, ``"cpu"``, ``"cuda"``.
    """

    checkpoint: str = field(metadata=names("path"))
    encoder: str | None = field(default=None, metadata=names("model"))
    device: str = field(default="auto", metadata=names("text"))
    extra: ClassVar[str] = "local"
    _lock: threading.Lock = field(init=False, repr=False, compare=False, default_factory=threading.Lock)
    _texts: dict[str, Any] = field(init=False, repr=False, compare=False, default_factory=dict)

    def __post_init__(self) -> None:
        if not isinstance(self.checkpoint, str) or not self.checkpoint or "\0" in self.checkpoint:
            raise OptionError(f"sarm: the checkpoint must be a folder, got {self.checkpoint!r}.")
        if self.encoder is not None and not isinstance(self.encoder, str):
            raise OptionError(f"{self.name}: encoder must be hf/PATH, got {self.encoder!r}.")
        check_device(self.device, self.name)

    def __getstate__(self) -> dict[str, Any]:
        return {name: self.__dict__[name] for name in ("checkpoint", "encoder", "device")}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._lock, self._texts = threading.Lock(), {}

    @property
    def name(self) -> str:
        """The model string."""
        return f"sarm/{self.checkpoint}"

    @property
    def capabilities(self) -> Capabilities:
        """It predicts stages from videos."""
        return Capabilities(generate=False, scores="none", videos=True, stages=True)

    @cached_property
    def config(self) -> SarmConfig:
        """The checkpoint's config; reads no weights."""
        return read_config(self._folder)

    @property
    def _folder(self) -> Path:
        return named_folder(self.checkpoint)

    @cached_property
    def frame_encoder(self) -> FrameEncoder:
        """The encoder it was trained on; ModelError if the encoder found under its name is another one."""
        try:
            from stepscore.models.sarm.encoders import get_encoder
        except ImportError as error:
            raise MissingExtraError(f"The model {self.name}", "local") from error
        trained = self.config.encoder
        found = get_encoder(self.encoder or str(trained["name"]), self.device)
        described = {key: value for key, value in found.describe().items() if key != "name"}
        changed = [key for key, value in described.items() if trained.get(key) != value]
        if changed == ["weights"] and trained.get("weights") == found.sampled_weights():
            changed = []  # a checkpoint of version 0.1, which names the same weights by another digest
        if changed:
            raise ModelError(
                f"{self.name} was trained on another encoder than {found.name} is now (its {', '.join(changed)} "
                "differ). Name the one it was trained on with -M encoder=hf/PATH, or train again."
            )
        return found

    @cached_property
    def network(self) -> SarmNetwork:
        """The network in memory."""
        try:
            import torch
        except ImportError as error:
            raise MissingExtraError(f"The model {self.name}", "local") from error
        chosen = "cuda" if self.device == "auto" and torch.cuda.is_available() else self.device
        return load_network(self._folder, self.config, "cpu" if chosen == "auto" else chosen)

    @contextmanager
    def _computing(self) -> Iterator[None]:
        """Within it, whatever a network raises is raised as a ModelError."""
        try:
            from stepscore.models.hf.network_loading import library_errors
        except ImportError as error:
            raise MissingExtraError(f"The model {self.name}", "local") from error
        with library_errors(f"{self.name}: the network failed"):
            yield

    def _check_features(self, features: Half, text: Float32, state: FloatArray | None) -> None:
        """Raise ModelError where the encoder's features are not of the sizes that the network takes."""
        sizes = self.config.sizes
        found = {"features": features.shape[-1], "views": features.shape[1], "text": len(text)}
        if state is not None:
            found["state"] = state.shape[-1]
        for name, size in found.items():
            if sizes[name] != size:
                raise ModelError(
                    f"{self.name}: sizes.{name} in sarm.json is {sizes[name]}, and its inputs have {size}. The "
                    "checkpoint was trained on another encoder or other data."
                )

    def describe(self) -> Mapping[str, object]:
        """Return everything that can change a result; the encoder is checked against the checkpoint."""
        config = self.config
        return {
            "name": self.name,
            "weights": checkpoint_digest(self._folder),
            "encoder": dict(config.encoder),
            "mode": config.mode,
            "causal": config.window.causal,
        }

    async def answer(self, request: Request) -> Response:
        """Return stages and progress for a :class:`stepscore.models.PredictStages`."""
        return await asyncio.to_thread(self._answer, request)

    def _answer(self, request: Request) -> Response:
        response: Response = handler_of({PredictStages: self._predict}, request, self.name, ANSWERS)(request)
        return response

    def _predict(self, request: PredictStages) -> StagePredictions:
        if len(request.videos) != len(self.config.views):
            raise CapabilityError(f"{self.name} {ANSWERS}.")
        clips = [video.clip for video in request.videos if isinstance(video, DecodedMedia)]
        frames = (
            np.arange(len(clips[0])) if request.frames is None else np.asarray(request.frames, dtype=np.int64)
        )
        state = None if request.state is None else np.asarray(request.state, dtype=np.float64)
        features = self.encode_images([clip.frames for clip in clips])
        return self.predict(
            clips[0].timestamps, features, request.instruction, request.task, frames, request.decode, state
        )

    def encode_images(self, views: Sequence[Frames]) -> Half:
        """Encode frames of every view, each once; shape (n, views, features)."""
        with self._lock, self._computing():
            return np.stack([self.frame_encoder.encode_images(frames) for frames in views], axis=1)

    def encode_text(self, instruction: str) -> Float32:
        """Encode an instruction; cached."""
        if instruction not in self._texts:
            if len(self._texts) >= MAX_CACHED_TEXTS:
                self._texts.clear()
            with self._lock, self._computing():
                self._texts[instruction] = self.frame_encoder.encode_text([instruction])[0]
        text: Float32 = self._texts[instruction]
        return text

    def predict(
        self,
        times: FloatArray,
        features: Half,
        instruction: str,
        task: str,
        frames: IntArray,
        decode: str = "argmax",
        state: FloatArray | None = None,
    ) -> StagePredictions:
        """Predict stages and progress at some frames of an encoded video; see ``score_video``."""
        from stepscore.models.sarm.scoring import EncodedVideo, score_video

        if decode not in get_args(Decode):
            raise OptionError(f"decode is {decode!r}. Valid: {', '.join(get_args(Decode))}.")
        # The request holds the state rounded to this many decimals; round it the same way online.
        rounded = None if state is None else np.round(state, DIGITS)
        video = EncodedVideo(times, features, rounded, self.encode_text(instruction), task)
        self._check_features(features, video.text, rounded)
        with self._lock, self._computing():
            heads = score_video(self.network, self.config, video, frames, cast(Decode, decode))
        return StagePredictions({name: _rounded(head) for name, head in heads.items()})


def _rounded(head: StagePrediction) -> StagePrediction:
    arrays = (np.round(array, DIGITS) for array in (head.probabilities, head.shares, head.progress))
    return StagePrediction(head.stages, *arrays)
