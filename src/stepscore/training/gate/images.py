"""Images for training a domain gate: augmented ones, still in distribution, and corrupted ones, out of it.

A corrupted image that differs from a trained one in a single respect is the most useful: an object of another task
put in, an object gone, a new wall, the scene mirrored. Blank, noisy and scrambled ones mark the rest. All are
squares of one size, (side, side, 3) uint8.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np

from stepscore.episodes.perturbations import Recompressed
from stepscore.training.augment import ZOOM, augmented
from stepscore.types import Frames

Corruption = Callable[[Frames, Frames, np.random.Generator], Frames]
"""Makes an out-of-distribution image from a trained one and another trained one, of any task."""


def augment_image(image: Frames, rng: np.random.Generator, zoom_out: float = ZOOM) -> Frames:
    """Return the image shifted, zoomed, brighter or darker, coarser, recompressed: still of the same scene.

    Args:
        image: The image.
        rng: Random generator.
        zoom_out: Largest zoom out, at most that of :func:`stepscore.training.augment.augmented`.
    """
    changed: Frames = augmented(image[None].copy(), rng, zoom_out=zoom_out)[0]
    if rng.random() < 0.35:
        changed = Recompressed(int(rng.integers(25, 85))).apply(changed)
    return changed


def joined(image: Frames, other: Frames, rng: np.random.Generator) -> Frames:
    """Take one side from the image of another task."""
    changed = image.copy()
    cut = int(rng.uniform(0.35, 0.65) * len(changed))
    if rng.random() < 0.5:
        changed[:, cut:] = other[:, cut:]
    else:
        changed[cut:] = other[cut:]
    return changed


def pasted(image: Frames, other: Frames, rng: np.random.Generator) -> Frames:
    """Paste a part of another task's image."""
    changed = image.copy()
    (top, left, height, width), (y, x, *_) = _window(image, rng), _window(image, rng)
    y, x = min(y, len(changed) - height), min(x, len(changed) - width)
    changed[top : top + height, left : left + width] = other[y : y + height, x : x + width]
    return changed


def walled(image: Frames, other: Frames, rng: np.random.Generator) -> Frames:
    """Put a box of one colour, lit from one side, in front of the scene."""
    changed = image.copy()
    top, left, height, width = _window(image, rng)
    colour = rng.uniform(20, 235, 3)
    shade = np.linspace(1.0, rng.uniform(0.6, 1.0), width)[None, :, None] * np.ones((height, 1, 1))
    box = colour * shade + rng.normal(0, 4, (height, width, 1))
    changed[top : top + height, left : left + width] = np.clip(box, 0, 255).astype(np.uint8)
    return changed


def emptied(image: Frames, other: Frames, rng: np.random.Generator) -> Frames:
    """Hide a part under a repeated piece of the background."""
    changed = image.copy()
    top, left, height, width = _window(image, rng)
    tile = max(4, len(changed) // 8)
    piece = changed[-tile - 4 : -4, 4 : 4 + tile]
    spread = np.tile(piece, (height // tile + 1, width // tile + 1, 1))[:height, :width]
    changed[top : top + height, left : left + width] = spread
    return changed


def mirrored(image: Frames, other: Frames, rng: np.random.Generator) -> Frames:
    """Swap left and right, or top and bottom."""
    return image[:, ::-1] if rng.random() < 0.7 else image[::-1]


def scrambled(image: Frames, other: Frames, rng: np.random.Generator) -> Frames:
    """Shuffle its squares."""
    n = int(rng.choice([2, 4, 8]))
    side = len(image) // n
    squares = (
        image[: n * side, : n * side].reshape(n, side, n, side, 3).swapaxes(1, 2).reshape(-1, side, side, 3)
    )
    mixed = squares[rng.permutation(n * n)].reshape(n, n, side, side, 3).swapaxes(1, 2)
    changed = image.copy()
    changed[: n * side, : n * side] = mixed.reshape(n * side, n * side, 3)
    return changed


def recoloured(image: Frames, other: Frames, rng: np.random.Generator) -> Frames:
    """Invert the colours, or exchange channels."""
    if rng.random() < 0.5:
        return np.asarray(255 - image, dtype=np.uint8)
    return image[..., [[1, 2, 0], [2, 0, 1], [2, 1, 0]][int(rng.integers(3))]]


def blank(image: Frames, other: Frames, rng: np.random.Generator) -> Frames:
    """Return one colour all over, or a gradient from top to bottom."""
    ends = (
        rng.uniform(0, 255, (2, 3))
        if rng.random() < 0.5
        else np.repeat(rng.uniform(0, 255, (1, 3)), 2, axis=0)
    )
    down = np.linspace(0, 1, len(image))[:, None, None]
    return np.broadcast_to((1 - down) * ends[0] + down * ends[1], image.shape).astype(np.uint8)


def noise(image: Frames, other: Frames, rng: np.random.Generator) -> Frames:
    """Return random values, pixel by pixel or in blotches."""
    from PIL import Image

    cells = int(rng.choice([3, 6, 16, len(image)]))
    grid = rng.integers(0, 256, (cells, cells, 3), dtype=np.uint8)
    smooth = Image.fromarray(grid).resize((image.shape[1], image.shape[0]), Image.Resampling.BICUBIC)
    return np.asarray(smooth, dtype=np.uint8)


CORRUPTIONS: Mapping[str, Corruption] = {
    "joined": joined,
    "pasted": pasted,
    "walled": walled,
    "emptied": emptied,
    "mirrored": mirrored,
    "scrambled": scrambled,
    "recoloured": recoloured,
    "blank": blank,
    "noise": noise,
}
CORRUPTION_WEIGHTS: Mapping[str, float] = {"joined": 3.0, "pasted": 3.0, "walled": 3.0, "emptied": 2.0}
"""How often each is drawn, 1 where it is not named: those near the trained scenes more often."""


def corrupt_image(image: Frames, other: Frames, rng: np.random.Generator) -> Frames:
    """Return an out-of-distribution image changed by a corruption drawn by ``CORRUPTION_WEIGHTS``."""
    weights = np.array([CORRUPTION_WEIGHTS.get(name, 1.0) for name in CORRUPTIONS])
    corrupt = list(CORRUPTIONS.values())[int(rng.choice(len(weights), p=weights / weights.sum()))]
    return np.ascontiguousarray(corrupt(image, other, rng))


def _window(image: Frames, rng: np.random.Generator) -> tuple[int, int, int, int]:
    """Return top, left, height and width of a part of the image, a fifth to half of its side."""
    side = len(image)
    height, width = (int(v) for v in rng.uniform(0.2, 0.5, 2) * side)
    top, left = int(rng.uniform(0.1, 0.9) * (side - height)), int(rng.uniform(0.1, 0.9) * (side - width))
    return top, left, height, width
