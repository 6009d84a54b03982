"""``hf/``: a checkpoint run in this process by transformers. See ``docs/models-hf.md``."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from stepscore.errors import OptionError
from stepscore.models.base import Capabilities, Response, SyncMethods
from stepscore.models.hf.engine import HfEngine, HfStream
from stepscore.models.hf.families import PREFIX_SHARING_FAMILIES, QWEN_VIDEO_STYLES
from stepscore.models.qwen3vl.inputs import PREPROCESSING
from stepscore.models.requests import Prompt, Request

DTYPES = ("float32", "bfloat16", "float16")
ATTENTIONS = ("sdpa", "eager", "flash_attention_2")
SCORINGS = ("shared", "incremental", "naive")


@dataclass
class HfModel(SyncMethods):
    """A checkpoint folder or hub id, run by transformers in this process. Loads on first use.

    Attributes:
        checkpoint: What stands after ``hf/``.
        dtype: ``"float32"``, in which shared scores equal full passes to 1e-4 nats, ``"bfloat16"`` or
            ``"float16"``, in which they differ by what those round away.
        device: ``"auto"``, ``"cpu"``, ``"cuda"``, ``"cuda:1"``, ``"mps"``.
        attention: ``"sdpa"``, ``"eager"`` or ``"flash_attention_2"`` (the last not with shared scoring: it
            takes no mask).
        trust_remote_code: Run code that comes with the checkpoint.
        scoring: How prefixes are scored where work can be shared: ``"shared"``, ``"incremental"`` or ``"naive"``.
        batch: Videos scored in one pass, of those that wait. Above 1, who waits together depends on timing, and
            scores change in their last digits (below 1e-4 nats in float32).
        memory_limit_mb: For the temporary values of one pass over suffixes or one call of the vision encoder.
        max_pixels: Most pixels of an image; ``None`` for the checkpoint's own limit. Qwen-VL only.
        self_check: Refuse a model for which sharing is not exact, before its first shared score.
    """

    checkpoint: str
    dtype: str = "float32"
    device: str = "auto"
    attention: str = "sdpa"
    trust_remote_code: bool = False
    scoring: str = "shared"
    batch: int = 1
    memory_limit_mb: int = 1024
    max_pixels: int | None = None
    self_check: bool = True
    _engine: HfEngine = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        for option, valid in (("dtype", DTYPES), ("attention", ATTENTIONS), ("scoring", SCORINGS)):
            if getattr(self, option) not in valid:
                said = getattr(self, option)
                raise OptionError(f"{self.name}: {option} is {said!r}; it is one of {', '.join(valid)}.")
        for option in ("batch", "memory_limit_mb"):
            value = getattr(self, option)
            if not isinstance(value, int) or value < 1:
                raise OptionError(f"{self.name}: {option} is {value!r}; it is a whole number from 1 on.")
        if self.scoring == "shared" and self.attention == "flash_attention_2":
            raise OptionError(
                f"{self.name}: flash_attention_2 takes no mask, which shared scoring needs. "
                "Use attention=sdpa, or scoring=incremental."
            )
        self._engine = HfEngine(self)

    def __getstate__(self) -> dict[str, Any]:
        return {key: value for key, value in self.__dict__.items() if key != "_engine"}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._engine = HfEngine(self)

    @property
    def name(self) -> str:
        """The model string."""
        return f"hf/{self.checkpoint}"

    @property
    def capabilities(self) -> Capabilities:
        """What its family can do; reads the configuration, not the weights."""
        shares = self._engine.family in PREFIX_SHARING_FAMILIES and self.scoring != "naive"
        return Capabilities(scores="exact", videos=True, prefix_sharing="exact" if shares else "none")

    def describe(self) -> Mapping[str, object]:
        """All that can change a number. Device, batch and memory limit change the last digits alone."""
        family = self._engine.family
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
        """The answer, computed in the model's own thread."""
        return await asyncio.wrap_future(self._engine.thread.ask(request))

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
