"""Which frames of an episode are shown in growing prefixes, and after how many of them the video is scored."""

from __future__ import annotations

import numpy as np

from stepscore.episodes import TIME_TOLERANCE_S, first_frame_from, sample_indices
from stepscore.types import FloatArray, IntArray


def spread_prefixes(
    timestamps: FloatArray, *, prefixes: int, fps: float, min_first: int, max_frames: int
) -> tuple[IntArray, tuple[int, ...]]:
    """Return the frames to show, evenly over time with the first and last among them, and each prefix's count.

    As many frames as ``fps`` makes of the duration, but at least ``min_first + 2 (prefixes - 1)`` if the episode has
    them, and at most ``max_frames``. Counts are even, because video models read frames in pairs and an odd one costs
    another block; they are spread from ``min_first`` (at most half of the frames) to all of them.
    """
    total, end = len(timestamps), float(timestamps[-1])
    by_rate = int((end * fps + 1) / 2 + 0.5) * 2
    count = min(max(by_rate, min_first + 2 * (prefixes - 1)), max_frames, total)
    frames = np.unique(
        sample_indices(timestamps, "", times=np.linspace(0.0, end, max(count - count % 2, 1)).tolist())
    )
    if len(frames) > 1 and len(frames) % 2:
        # Uneven timestamps can choose a frame twice. The last one stays: it is the episode's end.
        frames = np.delete(frames, -2)
    n = len(frames)
    first = min(max(2, min(min_first + min_first % 2, n // 2 // 2 * 2)), n)
    spread = np.linspace(n, first, prefixes)
    lengths = np.unique(np.where(spread == n, n, 2 * np.round(spread / 2))).astype(int)
    return frames, tuple(lengths.tolist())


def causal_prefixes(
    timestamps: FloatArray, *, prefixes: int, fps: float, min_first: int, max_frames: int
) -> tuple[IntArray, tuple[int, ...]]:
    """Return the frames to show at a fixed rate from the first frame on, the last frame, and each prefix's count.

    What is shown of a video up to some time does not depend on what comes after it, so that a video cut there is
    judged as a live session would judge it then. Only if a video needs more than ``max_frames`` is the rate
    halved, as often as it takes. Counts are even but for the last; there are at most ``prefixes`` of them, from
    ``min_first`` on (at most half of the frames) to all.
    """
    end = float(timestamps[-1])
    while int(end * fps + TIME_TOLERANCE_S) + 2 > max(max_frames, 2):
        fps /= 2
    grid = np.arange(int(end * fps + TIME_TOLERANCE_S) + 1) / fps
    frames = np.unique(first_frame_from(timestamps, grid))
    last = len(timestamps) - 1
    frames = np.append(frames[frames < last], last)
    n = len(frames)
    counts = np.append(np.arange(2, n, 2), n)
    counts = counts[counts >= min(min_first, n // 2)]
    spread = np.linspace(0, len(counts) - 1, min(prefixes, len(counts)))
    # From the end, so that one prefix is all frames.
    chosen = counts[::-1][np.round(spread).astype(int)]
    return frames, tuple(sorted(set(chosen.tolist())))
