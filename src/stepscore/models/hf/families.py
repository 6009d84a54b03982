"""What is known of each family of models, by the ``model_type`` of its configuration."""

from __future__ import annotations

from typing import Literal

PREFIX_SHARING_FAMILIES = frozenset({"qwen3_vl", "qwen3_vl_moe"})
"""Images do not look at later images, and text sees only what comes before it: work can be shared exactly.
That a checkpoint keeps to it is checked when it is loaded."""

QWEN_VIDEO_STYLES: dict[str, Literal["timed", "paced", "plain"]] = {
    "qwen2_vl": "plain",
    "qwen2_5_vl": "paced",
    "qwen3_vl": "timed",
    "qwen3_vl_moe": "timed",
    "qwen3_5": "timed",
}
"""How a video stands in a prompt, for families whose images are prepared here (see ``QwenPrompts``)."""
