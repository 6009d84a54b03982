"""Drawn scenes, for gates: a table with a block and an arm; and what is something else."""

from __future__ import annotations

import numpy as np

from stepscore.training.domain_gate import Picture
from stepscore.types import Frames

SIDE = 128


def trained(rng: np.random.Generator) -> Frames:
    """Grey wall, brown table, a red block somewhere on it, a dark arm from above."""
    made = np.full((SIDE, SIDE, 3), (150, 155, 160), np.uint8)
    made[70:] = (120, 85, 50)
    x, y = rng.integers(20, 90), rng.integers(76, 104)
    made[y : y + 18, x : x + 18] = (200, 40, 40)
    arm = rng.integers(30, 90)
    made[: rng.integers(30, 60), arm : arm + 10] = (40, 40, 45)
    return made


def foreign(rng: np.random.Generator) -> Frames:
    """A room with green things at random places."""
    made = np.full((SIDE, SIDE, 3), (230, 225, 210), np.uint8)
    for _ in range(6):
        x, y, w, h = rng.integers(5, 60, 4)
        made[y : y + h, x : x + w] = (rng.integers(0, 90), rng.integers(90, 220), rng.integers(0, 120))
    return made


def pictures(kind: str, n: int, seed: int = 0) -> list[Picture]:
    rng = np.random.default_rng(seed)
    draw = trained if kind == "trained" else foreign
    return [Picture(draw(rng), f"{kind}/{i}", "close") for i in range(n)]
