"""How much a view changes from frame to frame, measured on small images.

ProcVLM compares perceptual hashes of neighbouring frames. Our measure sums how far pixels depart from their
resting value and ignores noise: a frozen image measures 0 even if the codec makes it flicker, and a slow
motion as much as a fast one along the same path. Frames are decoded in batches; only one number per frame is
kept.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from typing import Any

import numpy as np

from stepscore.episodes import View
from stepscore.types import FloatArray, Frames

CHANGE_SIZE = 64
"""Longer side in pixels of the compared images."""
NOISE_LEVELS = 8.0
"""Grey levels (of 255) that a pixel must change to count: more than codecs change a static image."""

_HASH_SIZE, _HASH_FREQUENCIES = 32, 8
_BATCH_BYTES = 48 * 2**20
"""Most bytes of decoded frames in memory."""


def phash_similarity(view: View, size: int | None = None) -> FloatArray:
    """Return the similarity of each frame to the previous one, 0..1, shape (n_frames,); NaN for the first.

    1 - hamming / 64 of the pHashes (ProcVLM, common.py: imagehash.phash); ProcVLM uses the third-person
    camera.

    Args:
        size: Longer side to decode at; ``None`` hashes the recorded frames, as published. 128 takes half the
            time and
        changes the hash of every fourth frame by a bit.
    """
    similarity = np.full(view.info().n_frames, np.nan)
    previous: np.ndarray[Any, np.dtype[np.bool_]] | None = None
    for first, frames in _batches(view, size):
        for index, frame in enumerate(frames, start=first):
            bits = phash(frame)
            if previous is not None:
                similarity[index] = 1.0 - np.count_nonzero(bits != previous) / bits.size
            previous = bits
    return similarity


def phash(frame: Frames) -> np.ndarray[Any, np.dtype[np.bool_]]:
    """Return the 64-bit perceptual hash of an image, shape (64,): imagehash.phash with its defaults.

    Grey, 32 x 32 by Lanczos, discrete cosine transform (type II) along both sides; of the 8 x 8 lowest
    frequencies, whether each is above their median.
    """
    from PIL import Image

    grey = Image.fromarray(frame).convert("L").resize((_HASH_SIZE, _HASH_SIZE), Image.Resampling.LANCZOS)
    cosines = _cosines()
    low = cosines @ np.asarray(grey, dtype=np.float64) @ cosines.T
    return np.asarray(low > np.median(low)).ravel()


@lru_cache(maxsize=1)
def _cosines() -> FloatArray:
    """Return the first 8 of the 32 rows of the cosine transform."""
    frequency, position = np.arange(_HASH_FREQUENCIES)[:, None], np.arange(_HASH_SIZE)
    return np.asarray(2.0 * np.cos(np.pi * frequency * (2 * position + 1) / (2 * _HASH_SIZE)))


def visual_change(view: View, size: int = CHANGE_SIZE, noise: float = NOISE_LEVELS) -> FloatArray:
    """Return how much each frame changed, in grey levels per pixel, shape (n_frames,); 0 for the first.

    Every pixel has a resting value. A departure of more than ``noise`` grey levels counts and becomes the new
    resting value; smaller ones wait, so that slow motion adds up and noise does not.
    """
    change = np.zeros(view.info().n_frames)
    resting: FloatArray | None = None
    for first, frames in _batches(view, size):
        for index, frame in enumerate(frames @ np.array([0.299, 0.587, 0.114]), start=first):
            if resting is None:
                resting = frame.copy()
            departed = np.abs(frame - resting)
            moved = departed > noise
            change[index] = departed[moved].sum() / departed.size
            resting[moved] = frame[moved]
    return change


def _batches(view: View, size: int | None) -> Iterator[tuple[int, Frames]]:
    """Yield batches of consecutive frames that fit in ``_BATCH_BYTES``, with the index of the first."""
    info = view.info()
    longer = max(info.width, info.height)
    scale = 1.0 if size is None else size / longer
    frame_bytes = max(1.0, info.width * info.height * scale**2 * 3)
    step = max(16, int(_BATCH_BYTES / frame_bytes))
    for first in range(0, info.n_frames, step):
        yield first, view.read(range(first, min(first + step, info.n_frames)), size)
