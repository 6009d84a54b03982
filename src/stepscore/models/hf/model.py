"""``hf/``: a checkpoint run in this process by transformers. See ``docs/models/hf.md``."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from stepscore.errors import ModelError
from stepscore.models.base import TOP_LOGPROBS, Capabilities, SyncMethods
from stepscore.models.hf.engine import HfEngine, HfStream
from stepscore.models.hf.options import (
    ENCODER_FAMILIES,
    PREFIX_SHARING_FAMILIES,
    QWEN_VIDEO_STYLES,
    HfOptions,
)
from stepscore.models.prompts import Prompt
from stepscore.models.qwen3vl.inputs import PREPROCESSING
from stepscore.models.requests import Request
from stepscore.models.responses import Response
from stepscore.models.warm_up import LIVE, score_blank

if TYPE_CHECKING:
    from stepscore.models.qwen3vl.network import Qwen3VLNetwork


@dataclass
class HfModel(HfOptions, SyncMethods):
    """A checkpoint folder or hub id, run by transformers in this process. Loads on first use.

    Attributes and options are those of :class:`stepscore.models.hf.options.HfOptions`.
    """

    _engine: HfEngine = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        super().__post_init__()
        self._engine = HfEngine(self)

    def __getstate__(self) -> dict[str, Any]:
        return {key: value for key, value in self.__dict__.items() if key != "_engine"}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._engine = HfEngine(self)

    @property
    def network(self) -> Qwen3VLNetwork:
        """The network in memory, for use part by part; loads it. Qwen3-VL only."""
        network = self._engine.loaded.network
        if network is None:
            raise ModelError(f"{self.name} is a {self._engine.family}; only a Qwen3-VL is used part by part.")
        return network

    @property
    def capabilities(self) -> Capabilities:
        """Capabilities of its family; reads the configuration and the names of the weights, not the weights."""
        if self._engine.robometer is not None:
            return Capabilities(generate=False, scores="none", videos=True, heads=True)
        encoder = ENCODER_FAMILIES.get(self._engine.family)
        if encoder is not None:
            return Capabilities(generate=False, similarity=encoder)
        shares = self._engine.family in PREFIX_SHARING_FAMILIES and self.scoring != "naive"
        return Capabilities(
            scores="exact",
            videos=True,
            similarity="images" if self._engine.family in PREFIX_SHARING_FAMILIES else "none",
            prefix_sharing="exact" if shares else "none",
            structured=True,
            answer_logprobs=TOP_LOGPROBS,
        )

    def describe(self) -> Mapping[str, object]:
        """Return everything that can change a result. Device, batch and memory limit change only the last digits."""
        family = self._engine.family
        if (heads := self._engine.robometer) is not None:
            return {
                "name": self.name,
                "family": family,
                **self._engine.digests,
                "dtype": self.dtype,
                "attention": self.attention,
                "heads": heads.describe(),
                "preprocessing": f"{PREPROCESSING}, robometer 1",
                "max_pixels": self.max_pixels,
            }
        return {
            "name": self.name,
            "family": family,
            **self._engine.digests,
            "dtype": self.dtype,
            "attention": self.attention,
            "scoring": self.scoring if family in PREFIX_SHARING_FAMILIES else "naive",
            "preprocessing": PREPROCESSING if family in QWEN_VIDEO_STYLES else f"stock {family}",
            "max_pixels": self.max_pixels,
        }

    async def answer(self, request: Request) -> Response:
        """Return the response, computed in the model's own thread."""
        if (live := LIVE.get(type(request))) is not None:
            scores: Response = await asyncio.to_thread(live, request)
            return scores
        return await asyncio.wrap_future(self._engine.thread.submit(request))

    def is_batchable(self, request: Request) -> bool:
        """Return whether a request can be answered in one pass with others."""
        return self._engine.is_batchable(request)

    async def answer_batch(self, requests: Sequence[Request]) -> Sequence[Response | Exception]:
        """Return the response to each request, or why there is none, computed in passes of ``batch``."""
        return await asyncio.wrap_future(self._engine.thread.submit_all(requests))

    def token_texts(self, text: str) -> tuple[str, ...]:
        """Return the text of each token of a text; joined they are the text. Loads no weights."""
        return self._engine.token_texts(text)

    def open_stream(self, prompt: Prompt) -> HfStream:
        """Open a stream on a video that is still being recorded: append frames, score, append.

        Args:
            prompt: As in :class:`stepscore.models.ScorePrefixes`; the prompts scored later are like it up to the
                video.
        """
        return HfStream(self._engine, prompt)

    def warm_up(self, prompt: Prompt, candidates: Sequence[str]) -> None:
        """Load the weights and compute once, before the first frame of a live video comes."""
        score_blank(HfStream(self._engine, prompt), prompt, candidates)
