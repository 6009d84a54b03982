"""How much a view changes from frame to frame, measured on small pictures.

Two measures. ProcVLM compares perceptual hashes of neighbouring frames. Ours adds up how far pixels moved
from where they last stood still, and forgets what is no more than noise, so that a frozen picture measures 0
even where the codec makes it flicker, and a slow motion measures as much as a fast one over the same way.

Frames are decoded in pieces and dropped; what is kept is one number a frame.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from typing import Any

import numpy as np

from stepscore.episodes import View
from stepscore.types import FloatArray, Frames

CHANGE_SIZE = 64
"""Longer side of the pictures whose pixels are compared."""
NOISE = 8.0
"""Grey levels (of 255) that a pixel must have moved to count: above what codecs do to a picture at rest."""

_SIDE, _LOW = 32, 8
_PIECE_BYTES = 48 * 2**20


def phash_similarity(view: View, size: int | None = None) -> FloatArray:
    """Similarity of each frame to the one before it, 0..1, shape (n_frames,); NaN for the first.

    1 - hamming / 64 of the pHashes (ProcVLM, common.py: imagehash.phash).

    Args:
        view: The camera; ProcVLM takes the third-person one.
        size: Longer side to decode at; ``None`` hashes the recorded pictures, as published. 128 takes half
            the time and changes the hash of every fourth frame by a bit.
    """
    found = np.full(view.info().n_frames, np.nan)
    before: np.ndarray[Any, np.dtype[np.bool_]] | None = None
    for at, frames in _pieces(view, size):
        for number, frame in enumerate(frames, start=at):
            here = phash(frame)
            if before is not None:
                found[number] = 1.0 - np.count_nonzero(here != before) / here.size
            before = here
    return found


def phash(frame: Frames) -> np.ndarray[Any, np.dtype[np.bool_]]:
    """The 64-bit perceptual hash of a picture, shape (64,): imagehash.phash with its defaults.

    Grey, 32 x 32 by Lanczos, discrete cosine transform (type II) along both sides; of the 8 x 8 lowest
    frequencies, whether each is above their median.
    """
    from PIL import Image

    grey = Image.fromarray(frame).convert("L").resize((_SIDE, _SIDE), Image.Resampling.LANCZOS)
    waves = _cosines()
    low = waves @ np.asarray(grey, dtype=np.float64) @ waves.T
    return np.asarray(low > np.median(low)).ravel()


@lru_cache(maxsize=1)
def _cosines() -> FloatArray:
    """The first 8 of the 32 rows of the cosine transform."""
    frequency, place = np.arange(_LOW)[:, None], np.arange(_SIDE)
    return np.asarray(2.0 * np.cos(np.pi * frequency * (2 * place + 1) / (2 * _SIDE)))


def visual_change(view: View, size: int = CHANGE_SIZE, noise: float = NOISE) -> FloatArray:
    """How much the picture changed at each frame, in grey levels a pixel, shape (n_frames,); 0 for the first.

    Every pixel has a resting value. Where a frame departs from it by more than ``noise``, the departure
    counts and becomes the new resting value; smaller ones wait, so that noise never adds up and slow motion
    does.

    Args:
        view: The camera.
        size: Longer side of the compared pictures; small ones average noise away.
        noise: Grey levels that are taken for noise; 0 counts everything.
    """
    change = np.zeros(view.info().n_frames)
    resting: FloatArray | None = None
    for at, frames in _pieces(view, size):
        for number, frame in enumerate(frames @ np.array([0.299, 0.587, 0.114]), start=at):
            if resting is None:
                resting = frame.copy()
            departed = np.abs(frame - resting)
            moved = departed > noise
            change[number] = departed[moved].sum() / departed.size
            resting[moved] = frame[moved]
    return change


def _pieces(view: View, size: int | None) -> Iterator[tuple[int, Frames]]:
    """Runs of frames that fit in a fixed number of bytes, with the number of the first."""
    info = view.info()
    longer = max(info.width, info.height)
    scale = 1.0 if size is None else size / longer
    each = max(1.0, info.width * info.height * scale**2 * 3)
    step = max(16, int(_PIECE_BYTES / each))
    for first in range(0, info.n_frames, step):
        yield first, view.read(range(first, min(first + step, info.n_frames)), size)
