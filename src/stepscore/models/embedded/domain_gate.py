"""Is this an image of the scene that the instruction is about, as a small judge was trained on it?

A judge trained on a few scenes under one camera answers on any other image with the same confidence, and
wrongly. The gate looks at an image through the judge's own vision encoder: every token, by its principal
components over trained images, goes to a small network that was taught to name the scene or to say that it is
none of them. A scene is what one camera sees of a task; tasks that look the same, as opening and closing a drawer
do, share it. How well an image fits a scene is the mean of two numbers, each in standard deviations of what
trained images reach in their own scene: the network's log-odds of the scene, and the largest cosine between the
image's hidden layer and those of trained images of the scene. The second finds what no one thought of teaching.

The instruction says which scenes are asked about: those that have words in common with it. An image passes if it
fits one of these. A text that names none leaves all of them.
``python -m stepscore.training.embedded gate`` trains a gate.
"""

from __future__ import annotations

import hashlib
import json
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from stepscore.errors import ModelError
from stepscore.types import FloatArray, Frames

if TYPE_CHECKING:
    from stepscore.models.qwen3vl.network import Qwen3VLNetwork

GATE_FILE = "gate.safetensors"
FORMAT = 2
IMAGE_SIDE = 128
"""Images are looked at as squares of this many pixels, or as many as the judge takes, whatever their shape."""
MAX_ABS_COMPONENT = 6.0
"""Standardised components are cut here before the network, so that far ones do not lead it astray."""
MAX_IMAGES_PER_BATCH = 64
MIN_EVIDENCE = 0.4
"""A scene is named by a text if its words weigh at least this share of the best named scene's."""

Float32 = NDArray[np.float32]
Flags = NDArray[np.bool_]
ARRAYS = ("token_mean", "token_basis", "mean", "scale", "first", "first_bias", "last", "last_bias", "bank")


@dataclass(frozen=True, eq=False)
class DomainGate:
    """Tells images of an instruction's scene from others by what the vision encoder sees in them.

    Attributes:
        token_mean: Mean of a token over trained images, (width,).
        token_basis: Its principal components, the same for all tokens of an image, (width, k).
        mean: Mean of an image's components, token by token, (tokens * k,).
        scale: Their standard deviations, (tokens * k,).
        first: Weights of the network's hidden layer, (tokens * k, hidden); then a GELU.
        first_bias: Its biases, (hidden,).
        last: Weights of the scenes' logits, and in the last column of "none of them", (hidden, scenes + 1).
        last_bias: Their biases, (scenes + 1,).
        bank: Hidden layers of trained images, each of length 1, (n, hidden).
        scenes: Which scene each of them is of, (n,).
        usual: Mean and standard deviation of the log-odds, then of the cosine, of trained images.
        thresholds: Fit from which on an image is of the scene, (scenes,).
        words: Scenes that each word speaks of.
        facts: How it was made: counts, seeds, shares refused.
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
        """Scenes it knows."""
        return int(self.last.shape[1]) - 1

    def components(self, features: Float32) -> Float32:
        """An image's tokens by their components, standardised and cut, shape (n, tokens * k)."""
        tokens = features.reshape(len(features), -1, len(self.token_mean)) - self.token_mean
        flat = (tokens @ self.token_basis).reshape(len(features), -1)
        return np.asarray(
            np.clip((flat - self.mean) / self.scale, -MAX_ABS_COMPONENT, MAX_ABS_COMPONENT), dtype=np.float32
        )

    def hidden(self, components: Float32) -> Float32:
        """The network's hidden layer, shape (n, hidden)."""
        x = components @ self.first + self.first_bias
        return np.asarray(0.5 * x * (1.0 + np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x**3))), np.float32)

    def measures(self, features: Float32) -> tuple[FloatArray, FloatArray]:
        """Log-odds of each scene against all else, and largest cosine with its images; both (n, scenes)."""
        hidden = self.hidden(self.components(features))
        logits = (hidden @ self.last + self.last_bias).astype(np.float64)
        odds = np.stack([logits[:, s] - _logsumexp(np.delete(logits, s, 1)) for s in range(len(self))], 1)
        length = np.linalg.norm(hidden, axis=1, keepdims=True)
        cosines = (hidden / np.maximum(length, 1e-9)) @ self.bank.T
        near = np.stack([cosines[:, self.scenes == s].max(axis=1) for s in range(len(self))], axis=1)
        return odds, near.astype(np.float64)

    def fits(self, features: Float32) -> FloatArray:
        """How well each image fits each scene, about 0 for a trained image's own, shape (n, scenes)."""
        odds, near = self.measures(features)
        odds_mean, odds_sd, near_mean, near_sd = self.usual
        return ((odds - odds_mean) / odds_sd + (near - near_mean) / near_sd) / 2

    def named(self, text: str) -> Flags:
        """Scenes that a text may be about, shape (scenes,); all of them where its words speak of none.

        A word weighs 1 / (scenes it speaks of), and at most 1/2: one that speaks of many says little.
        """
        weight = np.zeros(len(self))
        for word in set(words_of(text)):
            if spoken := self.words.get(word):
                weight[list(spoken)] += 1 / max(2, len(spoken))
        return np.asarray(weight >= MIN_EVIDENCE * weight.max())

    def passes(self, fits: FloatArray, text: str = "") -> Flags:
        """Whether images with these fits are of a scene the text may be about, shape (n,)."""
        return np.asarray(((fits >= self.thresholds) & self.named(text)).any(axis=1))


def words_of(text: str) -> list[str]:
    """A text's words in small letters."""
    return re.findall(r"[a-z]+", text.lower())


def image_features(network: Qwen3VLNetwork, images: Sequence[Frames]) -> Float32:
    """What the vision encoder sees in images, each shown alone: all its tokens in order, deepstack included.

    Args:
        network: The judge.
        images: Of any sizes, each (h, w, 3).

    Returns:
        One row an image, (n, tokens * width), the width being that of the vision encoder and of its deepstack layers.
    """
    import torch

    from stepscore.episodes import resize_frames

    geometry, t = network.geometry, network.geometry.temporal
    side = min(IMAGE_SIDE, math.isqrt(geometry.video_pixels[1]) // geometry.unit * geometry.unit)
    rows = []
    for start in range(0, len(images), MAX_IMAGES_PER_BATCH):
        squares = np.concatenate(
            [resize_frames(p[None], (side, side)) for p in images[start : start + MAX_IMAGES_PER_BATCH]]
        )
        with torch.inference_mode():
            seen = network.see(squares, [(i,) * t for i in range(len(squares))], 1 << 30)
            tokens = torch.cat([seen.rows, *seen.deep], dim=1)
        rows.append(tokens.reshape(len(squares), -1).float().cpu().numpy())
    return np.concatenate(rows)


def save_gate(gate: DomainGate, path: Path) -> None:
    """Write a gate: arrays in float16, which moves fits by hundredths, and the rest as metadata."""
    from safetensors.numpy import save_file

    arrays = {name: getattr(gate, name).astype(np.float16) for name in ARRAYS}
    arrays["scenes"] = gate.scenes.astype(np.int16)
    told = {
        "format": FORMAT,
        "usual": list(gate.usual),
        "thresholds": gate.thresholds.tolist(),
        "words": {word: list(spoken) for word, spoken in gate.words.items()},
        "facts": dict(gate.facts),
    }
    save_file(arrays, path, metadata={"gate": json.dumps(told, sort_keys=True)})


def load_gate(path: Path) -> DomainGate:
    """The gate in a file.

    Raises:
        ModelError: There is none, or it is of another form.
    """
    from safetensors import SafetensorError, safe_open

    make = (
        f"python -m stepscore.training.embedded gate {path.parent} --in-distribution DATASET "
        "--out-of-distribution DATASET"
    )
    if not path.is_file():
        raise ModelError(
            f"{path} is missing, so it cannot be told which videos this judge knows. Make it: {make}; "
            "or judge without: -M gate=false"
        )
    try:
        with safe_open(path, "numpy") as file:
            told = json.loads((file.metadata() or {}).get("gate", "{}"))
            if told.get("format") != FORMAT:
                raise ModelError(f"{path} is no gate of format {FORMAT}. Make it anew: {make}")
            arrays = {name: file.get_tensor(name).astype(np.float32) for name in ARRAYS}
            scenes = file.get_tensor("scenes").astype(np.int64)
    except SafetensorError as error:
        raise ModelError(f"{path} is no gate: {error}.") from error
    return DomainGate(
        **arrays,
        scenes=scenes,
        thresholds=np.array(told["thresholds"], dtype=np.float64),
        usual=tuple(told["usual"]),
        words=told["words"],
        facts=told["facts"],
    )


def gate_digest(folder: Path) -> str | None:
    """sha256 of a checkpoint's gate; ``None`` where it has none."""
    path = folder / GATE_FILE
    return hashlib.sha256(path.read_bytes()).hexdigest() if path.is_file() else None


def _logsumexp(values: FloatArray) -> FloatArray:
    """Logarithm of the sum of exponentials along the last axis."""
    most = values.max(axis=-1)
    return np.asarray(most + np.log(np.exp(values - most[..., None]).sum(axis=-1)))
