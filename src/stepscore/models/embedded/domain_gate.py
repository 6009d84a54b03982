"""The domain gate: is an image of the scene that the instruction is about, as a small judge was trained on it?

A judge trained on a few scenes under one camera answers on any other image with the same confidence, and wrongly.
The gate encodes an image with the judge's own vision encoder: every token, by its principal components over training
images, is an input of a small classifier of scenes, with one more class for none of them. A scene is the view of one
camera on a task; tasks that look the same, as opening and closing a drawer do, share it. How well an image fits a
scene is the mean of two numbers, each in standard deviations of training images in their own scene: the log-odds of
the scene, and the largest cosine between the image's hidden layer and those of training images of the scene. The
second catches images unlike any that the classifier was trained on.

The instruction says which scenes are in question: those that have words in common with it. An image passes if it
fits one of these. A text that names none leaves all of them. With a camera check it fits only scenes of the camera
that took it (``camera_check.py``).
``python -m stepscore.training.embedded gate`` trains a gate.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from stepscore._files import atomic_path
from stepscore._untrusted import parse_json, shown
from stepscore._untrusted.checkpoint_folder import checked_file, has_file
from stepscore._untrusted.safetensors_header import read_header
from stepscore.errors import ModelError, RunError
from stepscore.models.checkpoints.digests import file_digest
from stepscore.models.embedded.camera_check import (
    CameraCheck,
    check_cameras,
    class_log_odds,
    gelu,
    read_camera_check,
)
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
        cameras: Recognizes the cameras of the scenes; ``None`` for a gate that does not look at the camera.
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
    cameras: CameraCheck | None = None

    def __len__(self) -> int:
        """Return the number of scenes it knows."""
        return int(self.last.shape[1]) - 1

    @property
    def n_features(self) -> int:
        """Features of an image that it takes."""
        return len(self.mean) // int(self.token_basis.shape[1]) * len(self.token_mean)

    def components(self, features: Float32) -> Float32:
        """Return the components of each image's tokens, standardised and clipped, shape (n, tokens * k)."""
        tokens = features.reshape(len(features), -1, len(self.token_mean)) - self.token_mean
        flat = (tokens @ self.token_basis).reshape(len(features), -1)
        return np.asarray(
            np.clip((flat - self.mean) / self.scale, -MAX_ABS_COMPONENT, MAX_ABS_COMPONENT), dtype=np.float32
        )

    def hidden(self, components: Float32) -> Float32:
        """Return the network's hidden layer, shape (n, hidden)."""
        return gelu(components @ self.first + self.first_bias)

    def measures(self, features: Float32) -> tuple[FloatArray, FloatArray]:
        """Return the log-odds of each scene, and the largest cosine with its images; both (n, scenes)."""
        hidden = self.hidden(self.components(features))
        odds = class_log_odds((hidden @ self.last + self.last_bias).astype(np.float64))
        length = np.linalg.norm(hidden, axis=1, keepdims=True)
        cosines = (hidden / np.maximum(length, 1e-9)) @ self.bank.T
        near = np.stack([cosines[:, self.scenes == s].max(axis=1) for s in range(len(self))], axis=1)
        return odds, near.astype(np.float64)

    def fits(self, features: Float32) -> FloatArray:
        """Return how well each image fits each scene, about 0 for a training image and its own, shape (n, scenes).

        Minus infinity for the scenes of a camera that did not take it.
        """
        odds, near = self.measures(features)
        odds_mean, odds_sd, near_mean, near_sd = self.usual
        fits = ((odds - odds_mean) / odds_sd + (near - near_mean) / near_sd) / 2
        if self.cameras is None:
            return fits
        return np.where(self.cameras.scenes_seen(self.components(features)), fits, -np.inf)

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
    from safetensors import SafetensorError
    from safetensors.numpy import save_file

    arrays = {name: getattr(gate, name).astype(np.float16) for name in ARRAYS}
    arrays["scenes"] = gate.scenes.astype(np.int16)
    metadata: dict[str, Any] = {
        "format": FORMAT,
        "usual": list(gate.usual),
        "thresholds": gate.thresholds.tolist(),
        "words": {word: list(scenes) for word, scenes in gate.words.items()},
        "facts": dict(gate.facts),
    }
    if gate.cameras is not None:
        arrays |= gate.cameras.tensors()
        metadata["cameras"] = gate.cameras.metadata()
    content = {"gate": json.dumps(metadata, sort_keys=True)}
    with atomic_path(path) as temporary:
        try:
            save_file(arrays, temporary, metadata=content)
        except SafetensorError as error:  # a full disk
            raise RunError(f"Cannot write {shown(path)}: {error}.") from error


def load_gate(path: Path) -> DomainGate:
    """Load a gate from a file.

    Raises:
        ModelError: There is no such file, or it is not a gate of this format.
    """
    from safetensors import SafetensorError, safe_open

    make = (
        f"python -m stepscore.training.embedded gate {shown(path.parent)} --in-distribution DATASET "
        "--out-of-distribution DATASET"
    )
    if not has_file(path.parent, path.name):
        raise ModelError(
            f"{shown(path)} is missing, so videos that are out of distribution cannot be refused. Make it: {make}; "
            "or judge without it: -M gate=false"
        )
    where = f"{shown(path)} is not a gate"
    try:
        header = read_header(checked_file(path.parent, path.name))
    except ModelError as error:
        raise ModelError(f"{where}: {error}") from error
    metadata = parse_json(header.metadata.get("gate", "{}"), f"{where}: its metadata", ModelError)
    if not isinstance(metadata, dict) or metadata.get("format") != FORMAT:
        raise ModelError(f"{where} of format {FORMAT}. Make it again: {make}")
    if absent := [name for name in (*ARRAYS, "scenes") if name not in header.tensors]:
        raise ModelError(f"{where}: it lacks {', '.join(absent)}. Make it again: {make}")
    try:
        with safe_open(path, "numpy") as file:
            tensors = {name: file.get_tensor(name).astype(np.float32) for name in header.tensors}
            cameras = metadata.get("cameras")
            gate = DomainGate(
                **{name: tensors[name] for name in ARRAYS},
                scenes=file.get_tensor("scenes").astype(np.int64),
                thresholds=np.array(metadata["thresholds"], dtype=np.float64),
                usual=tuple(float(value) for value in metadata["usual"]),  # type: ignore[arg-type]
                words=metadata["words"],
                facts=metadata["facts"],
                cameras=None if cameras is None else read_camera_check(tensors, cameras),
            )
        check_gate(gate)
    except (SafetensorError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise ModelError(f"{where} ({error}). Make it again: {make}") from error
    return gate


def check_gate(gate: DomainGate) -> None:
    """Check that the parts of a gate fit together.

    Raises:
        ValueError: They do not; the message names the part.
    """
    tokens, n = gate.token_basis.ndim == 2 and gate.token_basis.shape[1], len(gate.bank)
    hidden, classes = gate.last.shape if gate.last.ndim == 2 else (0, 0)
    components = len(gate.mean) if gate.mean.ndim else 0
    shapes = {
        "token_mean": (len(gate.token_basis),),
        "mean": (components,),
        "scale": (components,),
        "first": (components, hidden),
        "first_bias": (hidden,),
        "last": (hidden, classes),
        "last_bias": (classes,),
        "bank": (n, hidden),
        "scenes": (n,),
        "thresholds": (classes - 1,),
    }
    for name, shape in shapes.items():
        values = getattr(gate, name)
        if values.shape != shape or 0 in shape:
            raise ValueError(f"{name} has the shape {values.shape}")
        if not np.isfinite(values).all():
            raise ValueError(f"{name} has values that are not numbers")
    if not tokens or components % tokens:
        raise ValueError(f"token_basis has the shape {gate.token_basis.shape}")
    if len(gate.usual) != 4 or not np.isfinite(gate.usual).all() or not gate.usual[1] * gate.usual[3]:
        raise ValueError(f"usual is {gate.usual}")
    if not np.isin(np.arange(classes - 1), gate.scenes).all() or gate.scenes.min() < 0:
        raise ValueError("scenes does not have an image of every scene")
    if not isinstance(gate.words, dict) or not isinstance(gate.facts, dict):
        raise ValueError("words and facts are not objects")
    for word, scenes in gate.words.items():
        if not isinstance(scenes, list) or not all(type(s) is int and 0 <= s < classes - 1 for s in scenes):
            raise ValueError(f"the word {shown(word)} refers to scenes it does not have")
    if gate.cameras is not None:
        check_cameras(gate.cameras, components, classes - 1)


def gate_digest(folder: Path) -> str | None:
    """Return the sha256 of a checkpoint's gate; ``None`` where it has none."""
    return file_digest(checked_file(folder, GATE_FILE)) if has_file(folder, GATE_FILE) else None
