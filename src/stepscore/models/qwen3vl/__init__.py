"""Qwen3-VL taken apart: inputs, network, and exact scoring of growing video prefixes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from stepscore._lazy import lazy_attributes

if TYPE_CHECKING:
    from stepscore.models.qwen3vl.inputs import Geometry as Geometry
    from stepscore.models.qwen3vl.inputs import Pads as Pads
    from stepscore.models.qwen3vl.inputs import VisionTokens as VisionTokens
    from stepscore.models.qwen3vl.inputs import block_time as block_time
    from stepscore.models.qwen3vl.inputs import geometry_of as geometry_of
    from stepscore.models.qwen3vl.inputs import image_pads as image_pads
    from stepscore.models.qwen3vl.inputs import patches as patches
    from stepscore.models.qwen3vl.inputs import positions as positions
    from stepscore.models.qwen3vl.inputs import token_ids as token_ids
    from stepscore.models.qwen3vl.network import Qwen3VLNetwork as Qwen3VLNetwork
    from stepscore.models.qwen3vl.prefix_plan import Layout as Layout
    from stepscore.models.qwen3vl.prefix_plan import Span as Span
    from stepscore.models.qwen3vl.prefix_plan import joined as joined

__all__ = [
    "Geometry",
    "Layout",
    "Pads",
    "Qwen3VLNetwork",
    "Span",
    "VisionTokens",
    "block_time",
    "geometry_of",
    "image_pads",
    "joined",
    "patches",
    "positions",
    "token_ids",
]

__getattr__ = lazy_attributes(
    __name__,
    {
        "Geometry": "inputs",
        "Layout": "prefix_plan",
        "Pads": "inputs",
        "Qwen3VLNetwork": "network",
        "Span": "prefix_plan",
        "VisionTokens": "inputs",
        "block_time": "inputs",
        "geometry_of": "inputs",
        "image_pads": "inputs",
        "joined": "prefix_plan",
        "patches": "inputs",
        "positions": "inputs",
        "token_ids": "inputs",
    },
)
