"""``embedded``: the small judge that comes with the package. See ``docs/models/embedded.md``.

A checkpoint like any other ``hf/`` one, in the folder ``checkpoint`` next to this file, behind a gate:
it was trained on simulated scenes under one camera and on nothing else, so for a video that is not of its
instruction's scene, out of distribution, it answers unknown instead of a number.
"""

from __future__ import annotations

import asyncio
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from stepscore._untrusted import shown
from stepscore._untrusted.checkpoint_folder import brief, has_file, named_folder, whole_number
from stepscore.episodes import Clip
from stepscore.errors import ModelError, OptionError
from stepscore.models.base import TOP_LOGPROBS, Capabilities, SyncMethods
from stepscore.models.embedded.engine import EmbeddedEngine, EmbeddedStream
from stepscore.models.embedded.ood import DomainCheck, gate_digest
from stepscore.models.embedded.runtime.network import FAMILY
from stepscore.models.hf.files import read_json
from stepscore.models.prompts import Prompt
from stepscore.models.qwen3vl.inputs import PREPROCESSING
from stepscore.models.requests import Request
from stepscore.models.responses import Response
from stepscore.models.warm_up import LIVE, score_blank
from stepscore.registry import names
from stepscore.types import FloatArray, Frames

if TYPE_CHECKING:
    from stepscore.models.qwen3vl.network import Qwen3VLNetwork

FOLDER = Path(__file__).parent / "checkpoint"
"""The folder of its files: weights, tokenizer, gate, calibration map, card."""
CALIBRATION = FOLDER / "calibration.json"
"""The maps from its topreward margin to the progress potential and to the probability of success."""
CAUSAL_CALIBRATION = FOLDER / "causal-calibration.json"
"""The same maps for causal sampling, which live sessions use, where a checkpoint has them."""

JUDGE_DEFAULTS: Mapping[str, Mapping[str, object]] = {
    "topreward": {"min_first": 2},
    "stepeval": {"strategy": "per-subgoal", "answer": "statement"},
}
"""Its own defaults of judges: it was trained to judge from the first pair of frames on, and by statements; most of
its answers in words cannot be read."""

MAX_SIDE = 4096
REFUSAL = (
    "this video does not show its instruction's scene as the embedded judge was trained on it, in simulation, so "
    "its answer is unknown. Choose another model with --model (hf/PATH-OR-ID, vllm/..., openai-api/...), or have "
    "it answered all the same: -M gate=false"
)
"""The warning for a video that the gate refuses."""
CAMERA_HINT = (
    "Where it is a scene of `stepscore sim`, it takes the camera close: --views close, of `sim` to record it and of "
    "`judge` to choose it among others"
)
"""The end of the warning. It is not in the answer, which is kept in caches."""
UNKNOWN_TEXT = json.dumps({"answer": "unknown", "why": REFUSAL})
"""Generated text for a refused video: a verdict of unknown."""


@dataclass
class EmbeddedModel(SyncMethods):
    """The judge in the package: a small Qwen3-VL trained on simulated scenes. Loads on first use, without network.

    It is computed in NumPy; the same folder under ``hf/`` is computed by torch, with torch's options.

    Attributes:
        checkpoint: Another folder of the same format, for example a newly trained one.
        gate: Answer unknown where the images are not of the scene that the instruction is about, as it was
            trained on it. Without the gate it answers on anything, and its answers on other scenes mean nothing.
    """

    checkpoint: str = field(default=str(FOLDER), metadata=names("path"))
    gate: bool = True
    _engine: EmbeddedEngine = field(init=False, repr=False, compare=False)
    _check: DomainCheck | None = field(init=False, repr=False, compare=False, default=None)

    def __post_init__(self) -> None:
        if not isinstance(self.gate, bool):
            raise OptionError(f"embedded: gate must be true or false, got {self.gate!r}.")
        if not isinstance(self.checkpoint, str):
            raise OptionError(f"embedded: checkpoint must be a folder, got {self.checkpoint!r}.")
        folder = named_folder(self.checkpoint)
        if not has_file(folder, "config.json"):
            raise ModelError(
                f"embedded: {shown(folder)} has no config.json, so it is not a checkpoint. "
                "Install the package again, or name a checkpoint folder: -M checkpoint=PATH"
            )
        self._engine = EmbeddedEngine(folder, self.name, trained_side(folder) ** 2)
        refusal = f"embedded: {REFUSAL}. {CAMERA_HINT}"
        self._check = DomainCheck(folder, self._engine.image_features, refusal) if self.gate else None

    def __getstate__(self) -> dict[str, Any]:
        return {"checkpoint": self.checkpoint, "gate": self.gate}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self.__post_init__()

    @property
    def name(self) -> str:
        """The model string."""
        return "embedded"

    def judge_defaults(self, judge: str) -> Mapping[str, object]:
        """Return the options that a judge has by default on this model, its calibration maps included."""
        defaults = JUDGE_DEFAULTS.get(judge, {})
        maps = [self._engine.folder / name for name in (CALIBRATION.name, CAUSAL_CALIBRATION.name)]
        found = tuple(str(path) for path in maps if path.is_file())
        return {**defaults, "calibration": found} if judge == "topreward" and found else defaults

    @property
    def capabilities(self) -> Capabilities:
        """Its capabilities."""
        return Capabilities(
            scores="exact",
            videos=True,
            similarity="images",
            prefix_sharing="exact",
            structured=True,
            answer_logprobs=TOP_LOGPROBS,
        )

    def describe(self) -> Mapping[str, object]:
        """Return everything that can change a result, the gate included."""
        return {
            "name": self.name,
            "family": FAMILY,
            **self._engine.digests,
            "runtime": "numpy float32",
            "preprocessing": PREPROCESSING,
            "max_pixels": trained_side(self._engine.folder) ** 2,
            "gate": gate_digest(self._engine.folder) if self.gate else None,
        }

    async def answer(self, request: Request) -> Response:
        """Return the response; unknown where the images are out of distribution."""
        if (live := LIVE.get(type(request))) is not None:
            scores: Response = await asyncio.to_thread(live, request)
            return scores
        self._engine.handler(request)  # what it cannot answer is an error whatever the images
        if self._check is None or await asyncio.to_thread(self._check.accepts, request):
            return await self._engine.answer(request)
        unknown: Response = request.unknown(UNKNOWN_TEXT)
        return unknown

    def on_cache_hit(self, request: Request, response: Response) -> None:
        """Warn of a refusal that comes from the cache, too; called after every cache hit."""
        if self._check is not None and response.pack() == request.unknown(UNKNOWN_TEXT).pack():
            self._check.warn()

    def token_texts(self, text: str) -> tuple[str, ...]:
        """Return the text of each token of a text; joined they are the text."""
        return self._engine.token_texts(text)

    def open_stream(self, prompt: Prompt) -> EmbeddedStream:
        """Open a stream on a video that is still being recorded: append frames, score, append.

        Args:
            prompt: As in :class:`stepscore.models.ScorePrefixes`; the prompts scored later are like it up to the
                video. A video that is out of distribution scores NaN.
        """
        if self._check is None:
            return EmbeddedStream(self._engine, prompt)
        return _GatedStream(self._check, self._engine, prompt)

    def warm_up(self, prompt: Prompt, candidates: Sequence[str]) -> None:
        """Load the weights and compute once, before the first frame of a live video comes."""
        score_blank(EmbeddedStream(self._engine, prompt), prompt, candidates)


class _GatedStream(EmbeddedStream):
    """A growing video; its first frame, with the texts of the prompts, decides whether it is scored."""

    def __init__(self, check: DomainCheck, engine: EmbeddedEngine, prompt: Prompt) -> None:
        super().__init__(engine, prompt)
        self._check = check
        self._first: Frames | None = None

    def append(self, clip: Clip) -> None:
        """Append frames."""
        if self._first is None and len(clip):
            self._first = clip.frames[0]
        super().append(clip)

    def score(self, prompts: Sequence[Prompt], candidates: Sequence[str]) -> FloatArray:
        """Return log-probabilities for the video so far, shape (S, C); NaN where it is out of distribution."""
        text = " ".join(text for prompt in prompts for text in prompt.texts())
        if self._first is None or self._check.accepts_images([self._first], text):
            return super().score(prompts, candidates)
        return np.full((len(prompts), len(candidates)), np.nan)


def torch_network(folder: Path, device: str = "auto") -> Qwen3VLNetwork:
    """Load a checkpoint of this format by torch, as its trainers and SARM use it part by part; needs ``local``."""
    from stepscore.models.hf.model import HfModel

    return HfModel(str(folder), device=device, max_pixels=trained_side(folder) ** 2).network


def trained_side(folder: Path) -> int:
    """Return the side in pixels of the images a small judge was trained on, by its number of position embeddings.

    Larger images are scaled down to it.

    Raises:
        ModelError: The configuration does not state it.
    """
    vision = read_json(folder / "config.json").get("vision_config")
    where = f"{shown(folder / 'config.json')}: vision_config"
    if not isinstance(vision, dict):
        raise ModelError(f"{where} must be an object, got {brief(vision)}.")
    positions = whole_number(vision, "num_position_embeddings", f"{where}.", 1, MAX_SIDE**2)
    patch = whole_number(vision, "patch_size", f"{where}.", 1, MAX_SIDE)
    if positions is None or patch is None:
        raise ModelError(f"{where} needs num_position_embeddings and patch_size.")
    side = math.isqrt(positions) * patch
    if side > MAX_SIDE:
        raise ModelError(f"{where} states images of {side} pixels a side; the most is {MAX_SIDE}.")
    return side
