"""Pictures a domain gate learns from: trained ones as they may still look, and ones that are foreign.

A foreign picture that differs from a trained one in a single respect teaches most: a thing of another task put
in, a thing gone, a wall that was not there, the scene mirrored. Blank, noisy and scrambled ones mark the rest.
All are squares of one size, (side, side, 3) uint8.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np

from stepscore.episodes.perturbations import Recompressed
from stepscore.training.augment import augmented
from stepscore.types import Frames

Spoil = Callable[[Frames, Frames, np.random.Generator], Frames]
"""A foreign picture made of a trained one and a trained one of any other kind."""


def varied(picture: Frames, rng: np.random.Generator) -> Frames:
    """The picture shifted, zoomed, brighter or darker, coarser, compressed again: still of the same scene."""
    changed: Frames = augmented(picture[None].copy(), rng)[0]
    if rng.random() < 0.35:
        changed = Recompressed(int(rng.integers(25, 85))).apply(changed)
    return changed


def joined(picture: Frames, other: Frames, rng: np.random.Generator) -> Frames:
    """One side of the picture from another task."""
    made = picture.copy()
    cut = int(rng.uniform(0.35, 0.65) * len(made))
    if rng.random() < 0.5:
        made[:, cut:] = other[:, cut:]
    else:
        made[cut:] = other[cut:]
    return made


def pasted(picture: Frames, other: Frames, rng: np.random.Generator) -> Frames:
    """A part of another task's picture somewhere in it."""
    made = picture.copy()
    (top, left, height, width), (y, x, *_) = _window(picture, rng), _window(picture, rng)
    y, x = min(y, len(made) - height), min(x, len(made) - width)
    made[top : top + height, left : left + width] = other[y : y + height, x : x + width]
    return made


def walled(picture: Frames, other: Frames, rng: np.random.Generator) -> Frames:
    """A box of one colour, lit from one side, in front of the scene."""
    made = picture.copy()
    top, left, height, width = _window(picture, rng)
    colour = rng.uniform(20, 235, 3)
    shade = np.linspace(1.0, rng.uniform(0.6, 1.0), width)[None, :, None] * np.ones((height, 1, 1))
    box = colour * shade + rng.normal(0, 4, (height, width, 1))
    made[top : top + height, left : left + width] = np.clip(box, 0, 255).astype(np.uint8)
    return made


def emptied(picture: Frames, other: Frames, rng: np.random.Generator) -> Frames:
    """A part of it hidden under a repeated piece of its own background."""
    made = picture.copy()
    top, left, height, width = _window(picture, rng)
    tile = max(4, len(made) // 8)
    piece = made[-tile - 4 : -4, 4 : 4 + tile]
    spread = np.tile(piece, (height // tile + 1, width // tile + 1, 1))[:height, :width]
    made[top : top + height, left : left + width] = spread
    return made


def mirrored(picture: Frames, other: Frames, rng: np.random.Generator) -> Frames:
    """Left and right, or top and bottom, changed places."""
    return picture[:, ::-1] if rng.random() < 0.7 else picture[::-1]


def scrambled(picture: Frames, other: Frames, rng: np.random.Generator) -> Frames:
    """Its squares in another order."""
    n = int(rng.choice([2, 4, 8]))
    side = len(picture) // n
    squares = (
        picture[: n * side, : n * side].reshape(n, side, n, side, 3).swapaxes(1, 2).reshape(-1, side, side, 3)
    )
    mixed = squares[rng.permutation(n * n)].reshape(n, n, side, side, 3).swapaxes(1, 2)
    made = picture.copy()
    made[: n * side, : n * side] = mixed.reshape(n * side, n * side, 3)
    return made


def recoloured(picture: Frames, other: Frames, rng: np.random.Generator) -> Frames:
    """Colours inverted, or exchanged."""
    if rng.random() < 0.5:
        return np.asarray(255 - picture, dtype=np.uint8)
    return picture[..., [[1, 2, 0], [2, 0, 1], [2, 1, 0]][int(rng.integers(3))]]


def blank(picture: Frames, other: Frames, rng: np.random.Generator) -> Frames:
    """One colour all over, or one that becomes another from top to bottom."""
    ends = (
        rng.uniform(0, 255, (2, 3))
        if rng.random() < 0.5
        else np.repeat(rng.uniform(0, 255, (1, 3)), 2, axis=0)
    )
    down = np.linspace(0, 1, len(picture))[:, None, None]
    return np.broadcast_to((1 - down) * ends[0] + down * ends[1], picture.shape).astype(np.uint8)


def noise(picture: Frames, other: Frames, rng: np.random.Generator) -> Frames:
    """Random values, pixel by pixel or in blotches."""
    from PIL import Image

    cells = int(rng.choice([3, 6, 16, len(picture)]))
    grid = rng.integers(0, 256, (cells, cells, 3), dtype=np.uint8)
    image = Image.fromarray(grid).resize((picture.shape[1], picture.shape[0]), Image.Resampling.BICUBIC)
    return np.asarray(image, dtype=np.uint8)


SPOILS: Mapping[str, Spoil] = {
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
SHARES: Mapping[str, float] = {"joined": 3.0, "pasted": 3.0, "walled": 3.0, "emptied": 2.0}
"""How often each is drawn, 1 where it is not named: those near the trained scenes more often."""


def spoiled(picture: Frames, other: Frames, rng: np.random.Generator) -> Frames:
    """A foreign picture of a kind drawn by ``SHARES``."""
    weights = np.array([SHARES.get(name, 1.0) for name in SPOILS])
    kind = list(SPOILS.values())[int(rng.choice(len(weights), p=weights / weights.sum()))]
    return np.ascontiguousarray(kind(picture, other, rng))


def _window(picture: Frames, rng: np.random.Generator) -> tuple[int, int, int, int]:
    """Top, left, height and width of a part of the picture, a fifth to half of its side."""
    side = len(picture)
    height, width = (int(v) for v in rng.uniform(0.2, 0.5, 2) * side)
    top, left = int(rng.uniform(0.1, 0.9) * (side - height)), int(rng.uniform(0.1, 0.9) * (side - width))
    return top, left, height, width
