"""Drawn scenes, for gates: a table with a red block or a blue ring and an arm; and another scene."""

from __future__ import annotations

import numpy as np

from stepscore.training.gate.dataset import GateImage
from stepscore.types import Frames

SIDE = 128
INSTRUCTIONS = {"trained": "push the red block", "ring": "hang the blue ring up", "other": "tidy the room"}
PARAPHRASES = {"push the red block": ["shove the cube away"]}


def trained(rng: np.random.Generator) -> Frames:
    """Grey wall, brown table, a red block somewhere on it, a dark arm from above."""
    made = np.full((SIDE, SIDE, 3), (150, 155, 160), np.uint8)
    made[70:] = (120, 85, 50)
    x, y = rng.integers(20, 90), rng.integers(76, 104)
    made[y : y + 18, x : x + 18] = (200, 40, 40)
    arm = rng.integers(30, 90)
    made[: rng.integers(30, 60), arm : arm + 10] = (40, 40, 45)
    return made


def ring(rng: np.random.Generator) -> Frames:
    """The same without the block, and with a blue ring on the wall."""
    made = trained(rng)
    made[70:] = (120, 85, 50)
    x, y = rng.integers(10, 80), rng.integers(8, 30)
    made[y : y + 34, x : x + 34] = (30, 60, 220)
    made[y + 10 : y + 24, x + 10 : x + 24] = (150, 155, 160)
    return made


def other(rng: np.random.Generator) -> Frames:
    """A room with green things at random places."""
    made = np.full((SIDE, SIDE, 3), (230, 225, 210), np.uint8)
    for _ in range(6):
        x, y, w, h = rng.integers(5, 60, 4)
        made[y : y + h, x : x + w] = (rng.integers(0, 90), rng.integers(90, 220), rng.integers(0, 120))
    return made


def images(kind: str, n: int, seed: int = 0) -> list[GateImage]:
    rng = np.random.default_rng(seed)
    draw = {"trained": trained, "ring": ring, "other": other}[kind]
    return [GateImage(draw(rng), INSTRUCTIONS[kind], f"{kind}/{i}", "close") for i in range(n)]


def in_distribution() -> list[GateImage]:
    return [*images("trained", 48), *images("ring", 48)]
