"""RA-BC the obvious way: a dictionary of progress and a loop over frames, after the formulas as published."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np


def rabc_of_rows(
    rows: Sequence[tuple[int, int, float]], chunk_size: int, kappa: float = 0.01, eps: float = 1e-6
) -> dict[int, float]:
    """Weight by index from rows (index, episode, progress as float32); NaN where a value is missing."""
    known = {index: p for index, _, p in rows if not math.isnan(p)}
    last: dict[int, int] = {}
    for index, episode, _ in rows:
        last[episode] = max(last.get(episode, index), index)

    def gain(index: int, episode: int) -> float:
        ahead = min(index + chunk_size, last[episode])
        return known[ahead] - known[index] if index in known and ahead in known else math.nan

    gains = {index: gain(index, episode) for index, episode, _ in rows}
    there = [g for g in gains.values() if not math.isnan(g)]
    mu = max(sum(there) / len(there), 0.0) if there else 0.0
    sigma = eps
    if there:
        centre = sum(there) / len(there)
        sigma = max(math.sqrt(sum((g - centre) ** 2 for g in there) / len(there)), eps)
    weights = {}
    for index, exact in gains.items():
        r = float(np.float32(exact))
        # LeRobot's gains are a float32 tensor, so that the difference and the quotient are rounded to float32 too.
        above = np.float32(np.float32(r) - np.float32(mu - 2 * sigma))
        soft = min(max(float(above / np.float32(4 * sigma + eps)), 0.0), 1.0)
        if math.isnan(r):
            weights[index] = math.nan
        elif r > float(np.float32(kappa)):
            weights[index] = 1.0
        else:
            weights[index] = soft if r >= 0 else 0.0
    return weights
