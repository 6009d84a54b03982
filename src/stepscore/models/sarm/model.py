"""``sarm/CHECKPOINT``: a stage-aware reward model trained by ``stepscore train sarm``.

It answers one kind of request, the one the judge ``sarm`` puts (:func:`video_request`): films of all its views and
an instruction in, stages and progress at every frame out, as JSON. It writes no text and scores no words.
"""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast, get_args

import numpy as np

from stepscore.errors import CapabilityError, MissingExtraError, ModelError, OptionError
from stepscore.models.base import Answer, Capabilities, Response, SyncMethods
from stepscore.models.requests import DecodedMedia, Generate, Prompt, Request, Turn, VideoFrames
from stepscore.models.sarm.checkpoint import Decode, SarmConfig, checkpoint_digest, load_network, read_config
from stepscore.types import FloatArray, Frames, IntArray

if TYPE_CHECKING:
    from stepscore.models.sarm.encoders import Float32, FrameEncoder, Half
    from stepscore.models.sarm.network import SarmNetwork
    from stepscore.models.sarm.scoring import EncodedVideo, StagePrediction

DIGITS = 6
"""Decimals of an answer."""
TEXTS_KEPT = 256


def video_request(
    films: Sequence[VideoFrames],
    instruction: str,
    task: str,
    *,
    moments: Sequence[int],
    decode: str,
    state: FloatArray | None = None,
) -> Generate:
    """The request the judge puts: stages and progress at some frames of a film.

    Args:
        films: The same moments in each of the checkpoint's views, in its order.
        instruction: What the robot was told.
        task: The trained task whose stages count.
        moments: Which of the films' frames are to be scored.
        decode: See :func:`stepscore.models.sarm.scoring.score_film`.
        state: The robot's numbers at each frame, where the checkpoint takes them.
    """
    asked: dict[str, object] = {"instruction": instruction, "task": task, "decode": decode}
    # "all" keeps what is logged of the usual case short.
    asked["moments"] = "all" if list(moments) == list(range(len(films[0].indices))) else list(moments)
    if state is not None:
        asked["state"] = np.round(state, DIGITS).tolist()
    text = json.dumps(asked, ensure_ascii=False, sort_keys=True)
    return Generate(Prompt((Turn("user", (text, *films)),)), max_tokens=1, json=True)


@dataclass
class SarmModel(SyncMethods):
    """A SARM checkpoint, with the encoder it was trained on. Loads on first use.

    Attributes:
        checkpoint: The folder, what stands after ``sarm/``.
        encoder: Another place of the same encoder, if it moved: ``hf/PATH``.
        device: ``"auto"``, ``"cpu"``, ``"cuda"``.
    """

    checkpoint: str
    encoder: str | None = None
    device: str = "auto"
    _lock: threading.Lock = field(init=False, repr=False, compare=False, default_factory=threading.Lock)
    _texts: dict[str, Any] = field(init=False, repr=False, compare=False, default_factory=dict)

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
        """It looks at films, and neither writes nor scores words."""
        return Capabilities(generate=False, scores="none", videos=True)

    @cached_property
    def config(self) -> SarmConfig:
        """What the checkpoint is; reads no weights."""
        return read_config(self._folder)

    @property
    def _folder(self) -> Path:
        return Path(self.checkpoint).expanduser()

    @cached_property
    def eyes(self) -> FrameEncoder:
        """The encoder it was trained on.

        Raises:
            ModelError: What is found under its name is another one.
        """
        try:
            from stepscore.models.sarm.encoders import get_encoder
        except ImportError as error:
            raise MissingExtraError(f"The model {self.name}", "local") from error
        trained = self.config.encoder
        found = get_encoder(self.encoder or str(trained["name"]), self.device)
        told = {key: value for key, value in found.describe().items() if key != "name"}
        changed = [key for key, value in told.items() if trained.get(key) != value]
        if changed:
            raise ModelError(
                f"{self.name} was trained on another encoder than {found.name} is now (its {', '.join(changed)} "
                "differ). Name the one it was trained on with -M encoder=hf/PATH, or train anew."
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

    def describe(self) -> Mapping[str, object]:
        """All that can change a number; the encoder is stated by the checkpoint and held to it."""
        config = self.config
        return {
            "name": self.name,
            "weights": checkpoint_digest(self._folder),
            "encoder": dict(config.encoder),
            "mode": config.mode,
            "causal": config.window.causal,
        }

    async def answer(self, request: Request) -> Response:
        """Stages and progress as JSON, to what :func:`video_request` makes."""
        return await asyncio.to_thread(self._answer, request)

    def _answer(self, request: Request) -> Answer:
        turns = request.prompt.turns if isinstance(request, Generate) else ()
        parts = turns[0].parts if len(turns) == 1 else ()
        films = [part for part in parts if isinstance(part, DecodedMedia)]
        if not parts or not isinstance(parts[0], str) or len(films) != len(self.config.views):
            raise CapabilityError(f"{self.name} answers the judge sarm alone. Choose it: --judge sarm")
        asked = json.loads(parts[0])
        n = len(films[0].clip)
        moments = np.arange(n) if asked["moments"] == "all" else np.asarray(asked["moments"], dtype=np.int64)
        state = np.asarray(asked["state"], dtype=np.float64) if "state" in asked else None
        seen = self.see([film.clip.frames for film in films])
        times = films[0].clip.timestamps
        told = self.tell(times, seen, asked["instruction"], asked["task"], moments, asked["decode"], state)
        return Answer(json.dumps(plain(told)))

    def see(self, views: Sequence[Frames]) -> Half:
        """What the encoder sees in frames of every view, (n, views, features): each frame is seen once."""
        with self._lock:
            return np.stack([self.eyes.see(frames) for frames in views], axis=1)

    def read(self, instruction: str) -> Float32:
        """What the encoder reads in a text; kept."""
        if instruction not in self._texts:
            if len(self._texts) >= TEXTS_KEPT:
                self._texts.clear()
            with self._lock:
                self._texts[instruction] = self.eyes.read([instruction])[0]
        text: Float32 = self._texts[instruction]
        return text

    def tell(
        self,
        times: FloatArray,
        seen: Half,
        instruction: str,
        task: str,
        moments: IntArray,
        decode: str = "argmax",
        state: FloatArray | None = None,
    ) -> dict[str, StagePrediction]:
        """What each head says of some frames of a film that has been seen; see ``score_video``."""
        from stepscore.models.sarm.scoring import score_video

        if decode not in get_args(Decode):
            raise OptionError(f"decode is {decode!r}. Valid: {', '.join(get_args(Decode))}.")
        film = _encoded(times, seen, state, self.read(instruction), task)
        with self._lock:
            return score_video(self.network, self.config, film, moments, cast(Decode, decode))


def _encoded(
    times: FloatArray, seen: Half, state: FloatArray | None, text: Float32, task: str
) -> EncodedVideo:
    from stepscore.models.sarm.scoring import EncodedVideo

    # What was logged is what was scored: the state goes through the request in so many decimals.
    return EncodedVideo(times, seen, None if state is None else np.round(state, DIGITS), text, task)


def plain(told: Mapping[str, StagePrediction]) -> dict[str, dict[str, object]]:
    """What the heads said as JSON values, in six decimals."""
    return {
        head: {
            "stages": list(one.stages),
            "probabilities": np.round(one.probabilities, DIGITS).tolist(),
            "shares": np.round(one.shares, DIGITS).tolist(),
            "progress": np.round(one.progress, DIGITS).tolist(),
        }
        for head, one in told.items()
    }
