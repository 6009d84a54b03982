"""Features of single images by the vision encoder of a Qwen3-VL, for the domain gate and for SARM."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from stepscore.episodes import resize_frames
from stepscore.types import Frames

if TYPE_CHECKING:
    from stepscore.models.qwen3vl.network import Qwen3VLNetwork

IMAGE_SIDE = 128
"""Images are resized to squares of this side in pixels, or the largest the network takes, whatever their shape."""
MAX_IMAGES_PER_BATCH = 64


def image_features(network: Qwen3VLNetwork, images: Sequence[Frames]) -> NDArray[np.float32]:
    """Return the vision encoder's features of images, each encoded alone: all tokens in order, deepstack included.

    Args:
        network: A Qwen3-VL.
        images: Of any sizes, each (h, w, 3).

    Returns:
        One row per image, (n, tokens * width), the width being that of the embeddings and all deepstack layers.
    """
    import torch

    geometry, t = network.geometry, network.geometry.temporal
    side = min(IMAGE_SIDE, math.isqrt(geometry.video_pixels[1]) // geometry.unit * geometry.unit)
    rows = []
    for start in range(0, len(images), MAX_IMAGES_PER_BATCH):
        squares = np.concatenate(
            [
                resize_frames(image[None], (side, side))
                for image in images[start : start + MAX_IMAGES_PER_BATCH]
            ]
        )
        with torch.inference_mode():
            features = network.encode_images(squares, [(i,) * t for i in range(len(squares))], 1 << 30)
            tokens = torch.cat([features.embeddings, *features.deepstack], dim=1)
        rows.append(tokens.reshape(len(squares), -1).float().cpu().numpy())
    return np.concatenate(rows)
