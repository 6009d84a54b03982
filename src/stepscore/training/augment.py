"""Small changes of a whole clip that leave what is true of it: where the camera stands, how bright it is."""

from __future__ import annotations

import numpy as np
import torch
import torch.nn.functional as F  # noqa: N812  # the usual name
from torch import Tensor

from stepscore.types import Frames

SHIFT, ZOOM = 0.07, 0.18
"""Most of the picture's side it is shifted by, and most it is zoomed in or out by."""
DARKEST, BRIGHTEST = 0.6, 1.2


def augmented(frames: Frames, rng: np.random.Generator, share: float = 0.7) -> Frames:
    """The clip shifted, zoomed, brighter or darker, or coarser; the same for all its frames.

    Args:
        frames: Pictures, (n, size, size, 3).
        rng: Where the choices come from.
        share: Of clips that are changed at all, for each kind of change.
    """
    moved, coarse = rng.random() < share, rng.random() < 0.15 * share
    picture = torch.from_numpy(np.ascontiguousarray(frames))
    if moved or coarse:
        x = picture.permute(0, 3, 1, 2).float()
        if moved:
            scale = 1.0 + rng.uniform(-ZOOM, ZOOM)
            dx, dy = rng.uniform(-2 * SHIFT, 2 * SHIFT, 2)
            # A shift and a zoom take rows and columns apart: two products, several times faster than a grid.
            x = _sampling(x.shape[2], scale, dy) @ x @ _sampling(x.shape[3], scale, dx).T
        if coarse:
            small = F.avg_pool2d(x, 2)
            x = F.interpolate(small, size=list(x.shape[2:]), mode="bilinear", align_corners=False)
        picture = x.permute(0, 2, 3, 1)
    if rng.random() < share:
        gain, lift = rng.uniform(DARKEST, BRIGHTEST), rng.uniform(-12.0, 12.0)
        picture = picture.float() * gain + lift
    if picture.dtype == torch.uint8:
        return frames
    changed: Frames = picture.round().clamp(0, 255).to(torch.uint8).numpy()
    return changed


def _sampling(size: int, scale: float, shift: float) -> Tensor:
    """Weights with which each pixel along one side reads the old ones: linear between two, the border beyond.

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
