"""Statistics of features as LeRobot keeps them: min, max, mean, std and count, per episode and overall."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from stepscore.types import FloatArray, Frames

_MAX_IMAGE_SIDE = 150
"""Images are subsampled to about this many pixels a side before their statistics are computed."""


@dataclass(frozen=True)
class Stats:
    """Statistics over ``count`` samples, for each dimension of a feature."""

    min: FloatArray
    max: FloatArray
    mean: FloatArray
    std: FloatArray
    count: int

    @classmethod
    def of(cls, values: NDArray[np.generic]) -> Stats:
        """Return the statistics of rows of numbers, shape (n,) or (n, d)."""
        rows = values.reshape(len(values), -1).astype(np.float64)
        return cls(rows.min(axis=0), rows.max(axis=0), rows.mean(axis=0), rows.std(axis=0), len(rows))

    @classmethod
    def of_image(cls, image: Frames) -> Stats:
        """Return the statistics of the channels of one image, scaled to 0..1; the image counts as one sample."""
        step = max(1, max(image.shape[:2]) // _MAX_IMAGE_SIDE)
        pixels = image[::step, ::step].reshape(-1, 3) / 255.0
        return cls(pixels.min(axis=0), pixels.max(axis=0), pixels.mean(axis=0), pixels.std(axis=0), 1)

    @classmethod
    def merged(cls, parts: Sequence[Stats]) -> Stats:
        """Return the statistics of all samples of several parts, exactly: E[x^2] - E[x]^2 around the common mean."""
        count = sum(part.count for part in parts)
        weights = [part.count / count for part in parts]
        mean = np.sum([w * part.mean for w, part in zip(weights, parts, strict=True)], axis=0)
        variance = np.sum(
            [w * (part.std**2 + (part.mean - mean) ** 2) for w, part in zip(weights, parts, strict=True)],
            axis=0,
        )
        return cls(
            np.min([part.min for part in parts], axis=0),
            np.max([part.max for part in parts], axis=0),
            mean,
            np.sqrt(variance),
            count,
        )

    def as_lists(self, *, image: bool = False) -> dict[str, list[object]]:
        """Return the JSON form; channels of an image have shape (3, 1, 1)."""
        shape = (-1, 1, 1) if image else (-1,)
        numbers = {
            name: getattr(self, name).reshape(shape).tolist() for name in ("min", "max", "mean", "std")
        }
        return {**numbers, "count": [self.count]}
