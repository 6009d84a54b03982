"""The camera check of a domain gate: was an image taken by a camera that the judge was trained with?

A scene looks similar from another camera position, and the scene classifier was trained to ignore small
changes. Without a second check, images from cameras for which the judge is wrong would pass. The camera check
is a second, smaller classifier on the same components, with one class for each trained camera and one for all
others. An image passes for a camera if the log-odds of that camera's class reach a threshold. ``python -m
stepscore.training.embedded gate-cameras`` trains it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from stepscore.types import FloatArray

Float32 = NDArray[np.float32]
ARRAYS = ("first", "first_bias", "last", "last_bias")
PREFIX = "camera_"
"""Prefix of the camera check's array names in the gate's file."""


@dataclass(frozen=True, eq=False)
class CameraCheck:
    """A classifier of images by camera, on the components of a domain gate.

    Attributes:
        views: The trained cameras.
        of_scenes: Index of the camera of each of the gate's scenes, (scenes,).
        first: Weights of the hidden layer, (tokens * k, hidden), which is followed by a GELU.
        first_bias: Biases of the hidden layer, (hidden,).
        last: Weights of the cameras' logits, (hidden, views + 1); the last column is "another camera".
        last_bias: Biases of the logits, (views + 1,).
        thresholds: Smallest log-odds at which an image is attributed to the camera, (views,).
        facts: Facts about its training: counts, seed, shares of rejected images.
    """

    views: tuple[str, ...]
    of_scenes: NDArray[np.int64]
    first: Float32
    first_bias: Float32
    last: Float32
    last_bias: Float32
    thresholds: FloatArray
    facts: Mapping[str, Any] = field(default_factory=dict)

    def log_odds(self, components: Float32) -> FloatArray:
        """Return the log-odds of each camera, shape (n, views)."""
        hidden = gelu(components @ self.first + self.first_bias)
        return class_log_odds((hidden @ self.last + self.last_bias).astype(np.float64))

    def scenes_seen(self, components: Float32) -> NDArray[np.bool_]:
        """Return whether each image was taken by the camera of each scene, shape (n, scenes)."""
        return np.asarray((self.log_odds(components) >= self.thresholds)[:, self.of_scenes])

    def tensors(self) -> dict[str, NDArray[np.float16]]:
        """Return the arrays as stored in the gate's file."""
        return {PREFIX + name: getattr(self, name).astype(np.float16) for name in ARRAYS}

    def metadata(self) -> dict[str, Any]:
        """Return everything except the arrays as JSON values."""
        return {
            "views": list(self.views),
            "of_scenes": self.of_scenes.tolist(),
            "thresholds": self.thresholds.tolist(),
            "facts": dict(self.facts),
        }


def read_camera_check(tensors: Mapping[str, Float32], metadata: Mapping[str, Any]) -> CameraCheck:
    """Build an unchecked camera check from stored arrays; KeyError or ValueError if a part is missing or wrong."""
    return CameraCheck(
        tuple(str(view) for view in metadata["views"]),
        np.array(metadata["of_scenes"], dtype=np.int64),
        **{name: tensors[PREFIX + name] for name in ARRAYS},
        thresholds=np.array(metadata["thresholds"], dtype=np.float64),
        facts=dict(metadata["facts"]),
    )


def check_cameras(check: CameraCheck, components: int, scenes: int) -> None:
    """Check that a camera check fits its gate; ValueError names the part that does not."""
    hidden, views = len(check.first_bias) if check.first_bias.ndim else 0, len(check.views)
    shapes = {
        "first": (components, hidden),
        "first_bias": (hidden,),
        "last": (hidden, views + 1),
        "last_bias": (views + 1,),
        "thresholds": (views,),
    }
    for name, shape in shapes.items():
        values = getattr(check, name)
        if values.shape != shape or 0 in shape:
            raise ValueError(f"{PREFIX}{name} has the shape {values.shape}")
        if not np.isfinite(values).all():
            raise ValueError(f"{PREFIX}{name} has values that are not numbers")
    numbers = check.of_scenes
    if numbers.shape != (scenes,) or numbers.min() < 0 or numbers.max() >= views:
        raise ValueError("the cameras' of_scenes does not have a camera for every scene")


def gelu(x: Float32) -> Float32:
    """Return the GELU in its tanh approximation."""
    return np.asarray(0.5 * x * (1.0 + np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x**3))), np.float32)


def class_log_odds(logits: FloatArray) -> FloatArray:
    """Return the log-odds of each class except the last, shape (n, classes - 1)."""
    count = logits.shape[1] - 1
    return np.stack([logits[:, c] - _logsumexp(np.delete(logits, c, 1)) for c in range(count)], axis=1)


def _logsumexp(values: FloatArray) -> FloatArray:
    """Return the logarithm of the sum of exponentials along the last axis."""
    most = values.max(axis=-1)
    return np.asarray(most + np.log(np.exp(values - most[..., None]).sum(axis=-1)))
