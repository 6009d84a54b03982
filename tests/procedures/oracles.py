"""The published formulas once more, frame by frame and in plain loops, to hold the fast ones against."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from stepscore.types import FloatArray

Span = tuple[str, int, int]


def procvlm(sub_tasks: Sequence[str], similarity: Sequence[float] | FloatArray) -> list[float]:
    """ProcVLM's label, written from its definition in words."""
    stage_of: list[int | None] = []
    number = -1
    for i, name in enumerate(sub_tasks):
        if name in ("done", "not done"):
            stage_of.append(None)
            continue
        if i == 0 or sub_tasks[i - 1] != name:
            number += 1
        stage_of.append(number)
    stages = number + 1
    in_stage = [i for i, stage in enumerate(stage_of) if stage is not None]
    gains = [0.0] * len(sub_tasks)
    for stage in range(stages):
        frames = [i for i in in_stage if stage_of[i] == stage]
        weight = min(1.25, max(0.75, stages * len(frames) / len(in_stage)))
        change = {i: 1 + 0.5 - similarity[i] for i in frames[1:]}
        for i, d in change.items():
            gains[i] = weight * d / sum(change.values())
    whole = sum(gains)
    return [sum(gains[:t]) / whole for t in range(len(sub_tasks))]


def sarm(spans: Sequence[Span], alphas: Mapping[str, float], frame: int, length: int) -> float:
    """SARM's label of one frame as LeRobot finds it, in frame numbers."""
    names = list(alphas)
    last = len(names) - 1
    stage, tau = 0, 0.0
    if last == 0:
        tau = min(1.0, frame / (length - 1))
    elif frame < spans[0][1]:
        pass
    elif frame > spans[-1][2]:
        stage, tau = last, 0.999
    else:
        inside = [span for span in spans if span[1] <= frame <= span[2]]
        if inside:
            name, start, end = inside[0]
            stage, tau = names.index(name), (frame - start) / (end - start)
        else:
            before = [span for span in spans if span[2] < frame][-1]
            stage, tau = names.index(before[0]), 1.0
    y = last + 0.999 if stage == last and tau >= 1.0 else stage + tau
    begins = [sum(list(alphas.values())[:k]) for k in range(len(names))] + [1.0]
    k = int(y)
    return begins[k] + (y - k) * (begins[k + 1] - begins[k])


def phash(frame: np.ndarray) -> list[bool]:
    """imagehash.phash by way of scipy's cosine transform."""
    from PIL import Image
    from scipy.fft import dct

    small = Image.fromarray(frame).convert("L").resize((32, 32), Image.Resampling.LANCZOS)
    pixels = np.asarray(small, dtype=float)
    low = dct(dct(pixels, axis=0), axis=1)[:8, :8]
    return list((low > np.median(low)).flatten())
