"""Augmentation of a whole clip that leaves its labels true: shifted, zoomed, brighter or darker, coarser."""

from __future__ import annotations

import numpy as np
import torch
import torch.nn.functional as F  # noqa: N812  # the usual name
from torch import Tensor

from stepscore.types import Frames

SHIFT, ZOOM = 0.07, 0.18
"""Largest shift, as a share of the image's side, and largest change of scale."""
DARKEST, BRIGHTEST = 0.6, 1.2
"""Range of the factor on brightness."""


def augmented(frames: Frames, rng: np.random.Generator, share: float = 0.7, zoom_out: float = ZOOM) -> Frames:
    """Return the clip shifted, zoomed, brighter or darker, or coarser, all frames alike.

    Args:
        frames: Frames, (n, size, size, 3) uint8.
        rng: Random generator.
        share: Probability of each kind of change; of a coarser image 0.15 of it.
        zoom_out: Largest change of scale that makes the scene smaller.
    """
    moved, coarse = rng.random() < share, rng.random() < 0.15 * share
    pixels = torch.from_numpy(np.ascontiguousarray(frames))
    if moved or coarse:
        x = pixels.permute(0, 3, 1, 2).float()
        if moved:
            scale = 1.0 + rng.uniform(-ZOOM, zoom_out)
            dx, dy = rng.uniform(-2 * SHIFT, 2 * SHIFT, 2)
            # A shift and a zoom take rows and columns apart: two products, several times faster than a grid.
            x = _sampling(x.shape[2], scale, dy) @ x @ _sampling(x.shape[3], scale, dx).T
        if coarse:
            small = F.avg_pool2d(x, 2)
            x = F.interpolate(small, size=list(x.shape[2:]), mode="bilinear", align_corners=False)
        pixels = x.permute(0, 2, 3, 1)
    if rng.random() < share:
        gain, lift = rng.uniform(DARKEST, BRIGHTEST), rng.uniform(-12.0, 12.0)
        pixels = pixels.float() * gain + lift
    if pixels.dtype == torch.uint8:
        return frames
    changed: Frames = pixels.round().clamp(0, 255).to(torch.uint8).numpy()
    return changed


def _sampling(size: int, scale: float, shift: float) -> Tensor:
    """Return the weights of old pixels in each new one along a side: linear between two, the border beyond.

    The side runs from -1 to 1; its point u comes from ``scale * u + shift``.
    """
    u = (torch.arange(size) + 0.5) * (2.0 / size) - 1.0
    at = (((scale * u + shift + 1.0) * size - 1.0) / 2.0).clamp(0, size - 1)
    below = at.floor().long().clamp(max=size - 2)
    weights = torch.zeros(size, size)
    rows = torch.arange(size)
    weights[rows, below] = 1.0 - (at - below)
    weights[rows, below + 1] = at - below
    return weights
