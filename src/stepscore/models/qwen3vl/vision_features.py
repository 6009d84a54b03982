"""Features of single images by the vision encoder of a Qwen3-VL, for the domain gate and for SARM."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from stepscore.episodes import resize_frames
from stepscore.models.qwen3vl.inputs import Geometry
from stepscore.types import Frames

if TYPE_CHECKING:
    from stepscore.models.qwen3vl.network import Qwen3VLNetwork

IMAGE_SIDE = 128
"""Images are resized to squares of this side in pixels, or the largest the network takes, whatever their shape."""
MAX_IMAGES_PER_BATCH = 64


def image_features(network: Qwen3VLNetwork, images: Sequence[Frames]) -> NDArray[np.float32]:
    """Return the vision encoder's features of images encoded one by one: all tokens in order, deepstack included.

    Returns:
        One row per image, (n, tokens * width), the width being that of the embeddings and all deepstack layers.
    """
    import torch

    rows = []
    for squares in image_squares(images, network.geometry):
        blocks = [(number,) * network.geometry.temporal for number in range(len(squares))]
        with torch.inference_mode():
            features = network.encode_images(squares, blocks, 1 << 30)
            tokens = torch.cat([features.embeddings, *features.deepstack], dim=1)
        rows.append(tokens.reshape(len(squares), -1).float().cpu().numpy())
    return np.concatenate(rows)


def image_squares(images: Sequence[Frames], geometry: Geometry) -> Iterator[Frames]:
    """Yield batches of images, resized to the squares that are encoded, (n, side, side, 3)."""
    side = min(IMAGE_SIDE, math.isqrt(geometry.video_pixels[1]) // geometry.unit * geometry.unit)
    for start in range(0, len(images), MAX_IMAGES_PER_BATCH):
        batch = images[start : start + MAX_IMAGES_PER_BATCH]
        yield np.concatenate([resize_frames(image[None], (side, side)) for image in batch])
