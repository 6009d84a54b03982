"""The domain gate: is an image of the scene that the instruction is about, as a small judge was trained on it?

A judge trained on a few scenes under one camera answers on any other image with the same confidence, and wrongly.
The gate encodes an image with the judge's own vision encoder: every token, by its principal components over training
images, is an input of a small classifier of scenes, with one more class for none of them. A scene is the view of one
camera on a task; tasks that look the same, as opening and closing a drawer do, share it. How well an image fits a
scene is the mean of two numbers, each in standard deviations of training images in their own scene: the log-odds of
the scene, and the largest cosine between the image's hidden layer and those of training images of the scene. The
second catches images unlike any that the classifier was trained on.

The instruction says which scenes are in question: those that have words in common with it. An image passes if it
fits one of these. A text that names none leaves all of them.
``python -m stepscore.training.embedded gate`` trains a gate.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from stepscore.errors import ModelError
from stepscore.types import FloatArray

GATE_FILE = "gate.safetensors"
FORMAT = 2
MAX_ABS_COMPONENT = 6.0
"""Standardised components are clipped to plus or minus this, so that outliers do not dominate."""
MIN_EVIDENCE = 0.4
"""A text names a scene if its words for it weigh at least this share of those for the best named scene."""

Float32 = NDArray[np.float32]
Flags = NDArray[np.bool_]
ARRAYS = ("token_mean", "token_basis", "mean", "scale", "first", "first_bias", "last", "last_bias", "bank")


@dataclass(frozen=True, eq=False)
class DomainGate:
    """A classifier of images by scene, on features of the vision encoder.

    Attributes:
        token_mean: Mean of a token over training images, (width,).
        token_basis: Its principal components, the same for all tokens of an image, (width, k).
        mean: Mean of an image's components, token by token, (tokens * k,).
        scale: Their standard deviations, (tokens * k,).
        first: Weights of the network's hidden layer, (tokens * k, hidden); then a GELU.
        first_bias: Its biases, (hidden,).
        last: Weights of the scenes' logits, and in the last column of "none of them", (hidden, scenes + 1).
        last_bias: Their biases, (scenes + 1,).
        bank: Hidden layers of training images, each of length 1, (n, hidden).
        scenes: The scene of each of them, (n,).
        usual: Mean and standard deviation of the log-odds, then of the cosine, of training images.
        thresholds: Fit from which on an image is of the scene, (scenes,).
        words: Scenes that each word refers to.
        facts: How it was trained: counts, seeds, shares refused.
    """

    token_mean: Float32
    token_basis: Float32
    mean: Float32
    scale: Float32
    first: Float32
    first_bias: Float32
    last: Float32
    last_bias: Float32
    bank: Float32
    scenes: NDArray[np.int64]
    thresholds: FloatArray
    usual: tuple[float, float, float, float] = (0.0, 1.0, 0.0, 1.0)
    words: Mapping[str, Sequence[int]] = field(default_factory=dict)
    facts: Mapping[str, Any] = field(default_factory=dict)

    def __len__(self) -> int:
        """Return the number of scenes it knows."""
        return int(self.last.shape[1]) - 1

    def components(self, features: Float32) -> Float32:
        """Return the components of each image's tokens, standardised and clipped, shape (n, tokens * k)."""
        tokens = features.reshape(len(features), -1, len(self.token_mean)) - self.token_mean
        flat = (tokens @ self.token_basis).reshape(len(features), -1)
        return np.asarray(
            np.clip((flat - self.mean) / self.scale, -MAX_ABS_COMPONENT, MAX_ABS_COMPONENT), dtype=np.float32
        )

    def hidden(self, components: Float32) -> Float32:
        """Return the network's hidden layer, shape (n, hidden)."""
        x = components @ self.first + self.first_bias
        return np.asarray(0.5 * x * (1.0 + np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x**3))), np.float32)

    def measures(self, features: Float32) -> tuple[FloatArray, FloatArray]:
        """Return the log-odds of each scene, and the largest cosine with its images; both (n, scenes)."""
        hidden = self.hidden(self.components(features))
        logits = (hidden @ self.last + self.last_bias).astype(np.float64)
        odds = np.stack([logits[:, s] - _logsumexp(np.delete(logits, s, 1)) for s in range(len(self))], 1)
        length = np.linalg.norm(hidden, axis=1, keepdims=True)
        cosines = (hidden / np.maximum(length, 1e-9)) @ self.bank.T
        near = np.stack([cosines[:, self.scenes == s].max(axis=1) for s in range(len(self))], axis=1)
        return odds, near.astype(np.float64)

    def fits(self, features: Float32) -> FloatArray:
        """Return how well each image fits each scene, about 0 for a training image and its own, shape (n, scenes)."""
        odds, near = self.measures(features)
        odds_mean, odds_sd, near_mean, near_sd = self.usual
        return ((odds - odds_mean) / odds_sd + (near - near_mean) / near_sd) / 2

    def named_scenes(self, text: str) -> Flags:
        """Return the scenes that a text may be about, shape (scenes,); all of them where its words name none.

        A word weighs 1 / (scenes it refers to), and at most 1/2: one that refers to many says little.
        """
        weight = np.zeros(len(self))
        for word in set(words_of(text)):
            if scenes := self.words.get(word):
                weight[list(scenes)] += 1 / max(2, len(scenes))
        return np.asarray(weight >= MIN_EVIDENCE * weight.max())

    def passes(self, fits: FloatArray, text: str = "") -> Flags:
        """Return whether images with these fits are of a scene the text may be about, shape (n,)."""
        return np.asarray(((fits >= self.thresholds) & self.named_scenes(text)).any(axis=1))


def words_of(text: str) -> list[str]:
    """Return a text's words in lower case."""
    return re.findall(r"[a-z]+", text.lower())


def save_gate(gate: DomainGate, path: Path) -> None:
    """Write a gate: arrays in float16, which moves fits by hundredths, and the rest as metadata."""
    from safetensors.numpy import save_file

    arrays = {name: getattr(gate, name).astype(np.float16) for name in ARRAYS}
    arrays["scenes"] = gate.scenes.astype(np.int16)
    metadata = {
        "format": FORMAT,
        "usual": list(gate.usual),
        "thresholds": gate.thresholds.tolist(),
        "words": {word: list(scenes) for word, scenes in gate.words.items()},
        "facts": dict(gate.facts),
    }
    save_file(arrays, path, metadata={"gate": json.dumps(metadata, sort_keys=True)})


def load_gate(path: Path) -> DomainGate:
    """Load a gate from a file.

    Raises:
        ModelError: There is no such file, or it is not a gate of this format.
    """
    from safetensors import SafetensorError, safe_open

    make = (
        f"python -m stepscore.training.embedded gate {path.parent} --in-distribution DATASET "
        "--out-of-distribution DATASET"
    )
    if not path.is_file():
        raise ModelError(
            f"{path} is missing, so videos that are out of distribution cannot be refused. Make it: {make}; "
            "or judge without it: -M gate=false"
        )
    try:
        with safe_open(path, "numpy") as file:
            metadata = json.loads((file.metadata() or {}).get("gate", "{}"))
            if metadata.get("format") != FORMAT:
                raise ModelError(f"{path} is not a gate of format {FORMAT}. Make it again: {make}")
            arrays = {name: file.get_tensor(name).astype(np.float32) for name in ARRAYS}
            scenes = file.get_tensor("scenes").astype(np.int64)
    except SafetensorError as error:
        raise ModelError(f"{path} is not a gate: {error}.") from error
    return DomainGate(
        **arrays,
        scenes=scenes,
        thresholds=np.array(metadata["thresholds"], dtype=np.float64),
        usual=tuple(metadata["usual"]),
        words=metadata["words"],
        facts=metadata["facts"],
    )


def gate_digest(folder: Path) -> str | None:
    """Return the sha256 of a checkpoint's gate; ``None`` where it has none."""
    path = folder / GATE_FILE
    return hashlib.sha256(path.read_bytes()).hexdigest() if path.is_file() else None


def _logsumexp(values: FloatArray) -> FloatArray:
    """Return the logarithm of the sum of exponentials along the last axis."""
    most = values.max(axis=-1)
    return np.asarray(most + np.log(np.exp(values - most[..., None]).sum(axis=-1)))
