"""The options of an ``hf/`` model, declared and checked in one place for the model, its engine and its loader."""

from __future__ import annotations

from dataclasses import dataclass

from stepscore.errors import OptionError

DTYPES = ("float32", "bfloat16", "float16")
ATTENTIONS = ("sdpa", "eager", "flash_attention_2")
SCORINGS = ("shared", "incremental", "naive")


@dataclass
class HfOptions:
    """A checkpoint, and how to load and run it.

    Attributes:
        checkpoint: A folder or hub id, the part after ``hf/``.
        dtype: ``"float32"``, in which shared scores equal full passes to 1e-4 nats, ``"bfloat16"`` or
            ``"float16"``, in which they differ by what those round away.
        device: ``"auto"``, ``"cpu"``, ``"cuda"``, ``"cuda:1"``, ``"mps"``.
        attention: ``"sdpa"``, ``"eager"`` or ``"flash_attention_2"`` (the last not with shared scoring: it
            takes no mask).
        trust_remote_code: Run code that comes with the checkpoint.
        scoring: How prefixes are scored where work can be shared: ``"shared"``, ``"incremental"`` or ``"naive"``.
        batch: Most videos scored in one pass, of those that wait. Above 1, which of them wait together depends on
            timing, and scores change in their last digits (below 1e-4 nats in float32).
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

    def __post_init__(self) -> None:
        for option, valid in (("dtype", DTYPES), ("attention", ATTENTIONS), ("scoring", SCORINGS)):
            value = getattr(self, option)
            if value not in valid:
                raise OptionError(f"{self.name}: {option} is {value!r}; it is one of {', '.join(valid)}.")
        for option in ("batch", "memory_limit_mb"):
            value = getattr(self, option)
            if not isinstance(value, int) or value < 1:
                raise OptionError(f"{self.name}: {option} is {value!r}; it is a whole number from 1 on.")
        if self.scoring == "shared" and self.attention == "flash_attention_2":
            raise OptionError(
                f"{self.name}: flash_attention_2 takes no mask, which shared scoring needs. "
                "Use attention=sdpa, or scoring=incremental."
            )

    @property
    def name(self) -> str:
        """The model string."""
        return f"hf/{self.checkpoint}"
