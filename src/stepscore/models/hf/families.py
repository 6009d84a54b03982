"""Families of models that are treated specially, by the ``model_type`` of their configuration."""

from __future__ import annotations

from typing import Literal

PREFIX_SHARING_FAMILIES = frozenset({"qwen3_vl", "qwen3_vl_moe"})
"""Images do not attend to later images, and text attends only to what precedes it: work can be shared exactly
between prefixes. That this holds for a checkpoint is checked when it is loaded."""

QWEN_VIDEO_STYLES: dict[str, Literal["timed", "paced", "plain"]] = {
    "qwen2_vl": "plain",
    "qwen2_5_vl": "paced",
    "qwen3_vl": "timed",
    "qwen3_vl_moe": "timed",
    "qwen3_5": "timed",
}
"""How a video is written in a prompt, for families whose images are preprocessed here (see ``QwenInputs``)."""
