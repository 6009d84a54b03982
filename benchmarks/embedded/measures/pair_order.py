"""Pairs of frames: which is further along, where as many fall as rise?"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from benchmarks.embedded.figures import Figure, Units, over_points
from benchmarks.embedded.rows import Scored
from stepscore.metrics import TRUE_CHANGE_BINS, make_pairs
from stepscore.types import FloatArray

GROUP = "Pairs of frames, half of them true regressions"
TARGETS = (None, 0.8, 0.9)
MOST = 12
"""Pairs of one episode, one span and one direction at most, so that long videos do not decide."""


def balanced(right: FloatArray, rises: FloatArray) -> float:
    """Mean of the share of right answers on rising and on falling pairs; NaN where either is absent."""
    up = rises > 0.5
    if up.all() or not up.any():
        return math.nan
    return float((right[up].mean() + right[~up].mean()) / 2)


def pair_figures(rows: Sequence[Scored], *, group: str = GROUP) -> list[Figure]:
    """Balanced accuracy by size of the true change, on as many falling as rising pairs."""
    recorded = [row for row in rows if row.variant == "recorded" and len(row.times) > 1]
    figures = []
    for number, ((lo, hi), target) in enumerate(zip(TRUE_CHANGE_BINS, TARGETS, strict=True)):
        drawn = [draw(row, lo, hi, seed=number) for row in recorded]
        kept = _halved(drawn, seed=number)
        chosen = [(row, d) for row, d in zip(recorded, kept, strict=True) if len(d)]
        right = [_right(true, judged) for _, (true, judged) in ((r, d.T) for r, d in chosen)]
        rises = [(d[:, 0] > 0).astype(float) for _, d in chosen]
        estimate = over_points(balanced, (right, rises), Units.of([row for row, _ in chosen]), resamples=500)
        total = sum(len(d) for _, d in chosen)
        span = f"{lo:g} to {hi:g}" if math.isfinite(hi) else f"{lo:g} and more"
        note = f"{total} pairs, {sum(int(r.sum()) for r in rises)} of them rising"
        clock = {"linear time": 0.5, "constant": 0.5}
        figures.append(
            Figure(
                group, f"balanced accuracy, true change {span}", estimate, target, baselines=clock, note=note
            )
        )
    return figures


def draw(row: Scored, lo: float, hi: float, *, seed: int) -> FloatArray:
    """True and judged changes of some pairs of an episode, rising and falling ones apart; shape (m, 2)."""
    pairs = make_pairs(row.times, row.potential, row.own.margins)
    size = np.round(np.abs(pairs.true_delta), 9)
    inside = (size >= lo) & (size < hi) & (size > 0)
    changes = np.column_stack([pairs.true_delta, pairs.judged_delta])[inside]
    rng = np.random.default_rng([seed, *row.id.encode()])
    parts = [changes[changes[:, 0] > 0], changes[changes[:, 0] < 0]]
    return np.concatenate([rng.permutation(part)[:MOST] for part in parts])


def _halved(drawn: Sequence[FloatArray], *, seed: int) -> list[FloatArray]:
    """As many falling as rising pairs over all episodes, the surplus left out at random."""
    rising = [(i, j) for i, d in enumerate(drawn) for j in np.flatnonzero(d[:, 0] > 0)]
    falling = [(i, j) for i, d in enumerate(drawn) for j in np.flatnonzero(d[:, 0] < 0)]
    few = min(len(rising), len(falling))
    rng = np.random.default_rng(seed)
    chosen = {side[k] for side in (rising, falling) for k in rng.permutation(len(side))[:few].tolist()}
    return [d[[j for j in range(len(d)) if (i, j) in chosen]] for i, d in enumerate(drawn)]


def _right(true: FloatArray, judged: FloatArray) -> FloatArray:
    """1 where the sign is right, a half for no change."""
    return np.where(judged == 0, 0.5, (np.sign(judged) == np.sign(true)).astype(float))
