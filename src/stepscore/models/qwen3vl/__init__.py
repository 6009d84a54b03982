"""Qwen3-VL part by part: inputs, network, and exact scoring of growing prefixes of a video."""

from __future__ import annotations

from typing import TYPE_CHECKING

from stepscore._imports import lazy_attributes

if TYPE_CHECKING:
    from stepscore.models.qwen3vl.inputs import Geometry as Geometry
    from stepscore.models.qwen3vl.inputs import RepeatedToken as RepeatedToken
    from stepscore.models.qwen3vl.inputs import VisionTokens as VisionTokens
    from stepscore.models.qwen3vl.inputs import block_time as block_time
    from stepscore.models.qwen3vl.inputs import geometry_of as geometry_of
    from stepscore.models.qwen3vl.inputs import image_tokens as image_tokens
    from stepscore.models.qwen3vl.inputs import patches as patches
    from stepscore.models.qwen3vl.inputs import positions as positions
    from stepscore.models.qwen3vl.inputs import token_ids as token_ids
    from stepscore.models.qwen3vl.network import Qwen3VLNetwork as Qwen3VLNetwork
    from stepscore.models.qwen3vl.prefix_plan import PromptLayout as PromptLayout
    from stepscore.models.qwen3vl.prefix_plan import TokenSpan as TokenSpan
    from stepscore.models.qwen3vl.prefix_plan import concat_spans as concat_spans
    from stepscore.models.qwen3vl.vision_features import IMAGE_SIDE as IMAGE_SIDE
    from stepscore.models.qwen3vl.vision_features import image_features as image_features

__all__ = [
    "IMAGE_SIDE",
    "Geometry",
    "PromptLayout",
    "Qwen3VLNetwork",
    "RepeatedToken",
    "TokenSpan",
    "VisionTokens",
    "block_time",
    "concat_spans",
    "geometry_of",
    "image_features",
    "image_tokens",
    "patches",
    "positions",
    "token_ids",
]

__getattr__ = lazy_attributes(
    __name__,
    {
        "IMAGE_SIDE": "vision_features",
        "image_features": "vision_features",
        "Geometry": "inputs",
        "PromptLayout": "prefix_plan",
        "RepeatedToken": "inputs",
        "Qwen3VLNetwork": "network",
        "TokenSpan": "prefix_plan",
        "VisionTokens": "inputs",
        "block_time": "inputs",
        "geometry_of": "inputs",
        "image_tokens": "inputs",
        "concat_spans": "prefix_plan",
        "patches": "inputs",
        "positions": "inputs",
        "token_ids": "inputs",
    },
)
