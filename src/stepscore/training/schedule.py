"""The learning rate of a training step, for every trainer."""

from __future__ import annotations

import math


def cosine_lr(
    peak: float, step: int, steps: int, *, warmup_steps: int = 1, final_fraction: float = 0.0
) -> float:
    """Return the learning rate of a step: a linear warm-up to the peak, then a cosine.

    Args:
        peak: The largest learning rate.
        step: The step, counted from 0.
        steps: Steps of the cosine; from then on the rate stays at its end.
        warmup_steps: Steps in which the rate rises.
        final_fraction: Learning rate at the end of the cosine, as a fraction of the peak.
    """
    warmup = min(1.0, (step + 1) / warmup_steps)
    cosine = 0.5 * (1 + math.cos(math.pi * min(step, steps) / max(1, steps)))
    return peak * warmup * (final_fraction + (1 - final_fraction) * cosine)
