"""Is this a picture of the scenes a small judge was trained on? Decided from the picture alone.

A judge trained on a few scenes under one camera answers on any other picture with the same confidence, and
wrongly. The gate looks at a picture through the judge's own vision tower. The tower's tokens become z, their
principal components over trained pictures by standard deviation, and r, what the components leave of them over
what they leave of a trained picture. z and log r go to a small network that was taught to tell trained pictures
(moved, enlarged, darker, compressed again) from others (other scenes, other cameras, trained pictures with
something put in, mirrored or cut up). A picture passes if the network's log-odds reach the threshold, and if it
lies no further from the trained ones than they from each other: mean z^2 + r, the Mahalanobis distance within the
components and the distance from them, which find what no one thought of teaching.
``python -m stepscore.training.domain_gate`` makes one.
"""

from __future__ import annotations

import hashlib
import json
import math
import warnings
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from stepscore.errors import ModelError
from stepscore.models.request import Request, ScorePrefixes, Shown
from stepscore.types import FloatArray, Frames

if TYPE_CHECKING:
    from stepscore.models.hf_engine import HfEngine
    from stepscore.models.qwen3vl_network import Qwen3VLNetwork

GATE_FILE = "gate.safetensors"
FORMAT = 1
SIDE = 128
"""Pictures are looked at as squares of this many pixels, or as many as the judge takes, whatever their shape."""
CLIP = 10.0
"""Whitened components are cut here before the network, so that far ones do not lead it astray."""
AT_ONCE = 64
KEPT = 4096
"""Pictures whose decision is remembered."""

Float32 = NDArray[np.float32]
ARRAYS = ("mean", "basis", "scale", "first", "first_bias", "last", "last_bias")
LIMITS = ("left", "threshold", "farthest")


@dataclass(frozen=True, eq=False)
class DomainGate:
    """Tells trained pictures from others by what the vision tower sees in them.

    Attributes:
        mean: Mean of trained pictures' features, (D,).
        basis: Their principal components, each over its standard deviation, (D, k).
        scale: These standard deviations, (k,).
        first: Weights of the network's hidden layer, (k + 1, hidden); then a GELU.
        first_bias: Its biases, (hidden,).
        last: Weights of the log-odds, (hidden, 1).
        last_bias: Its bias, (1,).
        left: Mean square that the components leave of a trained picture.
        threshold: Log-odds from which on a picture passes.
        farthest: Distance up to which it passes.
        facts: How it was made: counts, seeds, shares refused.
    """

    mean: Float32
    basis: Float32
    scale: Float32
    first: Float32
    first_bias: Float32
    last: Float32
    last_bias: Float32
    left: float
    threshold: float
    farthest: float
    facts: Mapping[str, Any] = field(default_factory=dict)

    def coordinates(self, features: Float32) -> Float32:
        """z, and log r in the last column, shape (n, k + 1)."""
        centred = features - self.mean
        z = centred @ self.basis
        whole, within = (np.sum(part.astype(np.float64) ** 2, axis=1) for part in (centred, z * self.scale))
        ratio = np.maximum(whole - within, 1e-3 * self.left) / self.left
        return np.concatenate([z, np.log(ratio)[:, None]], axis=1, dtype=np.float32)

    def log_odds(self, coordinates: Float32) -> FloatArray:
        """Of being a trained picture, shape (n,)."""
        hidden = np.clip(coordinates, -CLIP, CLIP) @ self.first + self.first_bias
        active = 0.5 * hidden * (1.0 + np.tanh(np.sqrt(2 / np.pi) * (hidden + 0.044715 * hidden**3)))
        return np.asarray((active @ self.last + self.last_bias)[:, 0], dtype=np.float64)

    def distances(self, coordinates: Float32) -> FloatArray:
        """Mean z^2 + r, about 2 for a trained picture, shape (n,)."""
        exact = coordinates.astype(np.float64)
        return np.asarray(np.mean(exact[:, :-1] ** 2, axis=1) + np.exp(exact[:, -1]))

    def passes(self, features: Float32) -> NDArray[np.bool_]:
        """Whether each picture is of the trained scenes, shape (n,)."""
        at = self.coordinates(features)
        return np.asarray((self.log_odds(at) >= self.threshold) & (self.distances(at) <= self.farthest))


def picture_features(network: Qwen3VLNetwork, pictures: Sequence[Frames]) -> Float32:
    """What the vision tower sees in pictures, each shown alone: all its tokens in order, deepstack included.

    Args:
        network: The judge.
        pictures: Of any sizes, each (h, w, 3).

    Returns:
        One row a picture, (n, tokens * width * layers).
    """
    import torch

    from stepscore.models.qwen3vl_inputs import resized

    geometry, t = network.geometry, network.geometry.temporal
    side = min(SIDE, math.isqrt(geometry.film_pixels[1]) // geometry.unit * geometry.unit)
    rows = []
    for start in range(0, len(pictures), AT_ONCE):
        squares = np.concatenate([resized(p[None], (side, side)) for p in pictures[start : start + AT_ONCE]])
        with torch.inference_mode():
            seen = network.see(squares, [(i,) * t for i in range(len(squares))], 1 << 30)
            tokens = torch.cat([seen.rows, *seen.deep], dim=1)
        rows.append(tokens.reshape(len(squares), -1).float().cpu().numpy())
    return np.concatenate(rows)


def save_gate(gate: DomainGate, path: Path) -> None:
    """Write a gate: arrays in float16, which moves log-odds by hundredths, and the rest as metadata."""
    from safetensors.numpy import save_file

    arrays = {name: getattr(gate, name).astype(np.float16) for name in ARRAYS}
    told = {"format": FORMAT, **{name: getattr(gate, name) for name in LIMITS}, "facts": dict(gate.facts)}
    save_file(arrays, path, metadata={"gate": json.dumps(told, sort_keys=True)})


def load_gate(path: Path) -> DomainGate:
    """The gate in a file.

    Raises:
        ModelError: There is none, or it is of another form.
    """
    from safetensors import SafetensorError, safe_open

    if not path.is_file():
        raise ModelError(
            f"{path} is missing, so it cannot be told which videos this judge knows. Make it: "
            f"python -m stepscore.training.domain_gate {path.parent} --inside DATASET --outside DATASET; "
            "or judge without: -M gate=false"
        )
    try:
        with safe_open(path, "numpy") as file:
            told = json.loads((file.metadata() or {}).get("gate", "{}"))
            if told.get("format") != FORMAT:
                raise ModelError(f"{path} is no gate of format {FORMAT}. Make it anew.")
            arrays = {name: file.get_tensor(name).astype(np.float32) for name in ARRAYS}
    except SafetensorError as error:
        raise ModelError(f"{path} is no gate: {error}.") from error
    return DomainGate(**arrays, **{name: told[name] for name in LIMITS}, facts=told["facts"])


def gate_digest(folder: Path) -> str | None:
    """sha256 of a checkpoint's gate; ``None`` where it has none."""
    path = folder / GATE_FILE
    return hashlib.sha256(path.read_bytes()).hexdigest() if path.is_file() else None


def decisive_pictures(request: Request) -> list[Frames]:
    """The pictures by which a request is let through: a film's first frame, and every picture shown alone.

    Of a film only the first frame counts, so that a prefix is answered the same whatever comes after it.
    """
    if isinstance(request, ScorePrefixes):
        assert isinstance(request.film, Shown)
        return [request.film.clip.frames[0]]
    parts = [part for turn in request.prompt.turns for part in turn.parts]
    return [part.clip.frames[0] for part in parts if isinstance(part, Shown)]


class DomainCheck:
    """Decides for a model's requests whether their pictures are of the trained scenes; remembers pictures.

    Args:
        folder: The checkpoint's folder, which holds the gate.
        engine: What runs the model; the vision tower is used on its thread.
        refusal: The warning given at the first refusal, and not again at every call.
    """

    def __init__(self, folder: Path, engine: HfEngine, refusal: str) -> None:
        self._folder, self._engine, self._refusal = folder, engine, refusal
        self._warned = False
        self._gate: DomainGate | None = None
        self._known: OrderedDict[bytes, bool] = OrderedDict()

    def admits(self, request: Request) -> bool:
        """Whether a request may be answered: at least half of its decisive pictures pass, or it has none."""
        return self.admits_pictures(decisive_pictures(request))

    def admits_pictures(self, pictures: Sequence[Frames]) -> bool:
        """Whether at least half of these pictures pass; true of none at all."""
        passed: bool = self._engine.thread.run(lambda: self._decide(pictures))
        if not passed and not self._warned:
            self._warned = True
            warnings.warn(self._refusal, stacklevel=3)
        return passed

    def _decide(self, pictures: Sequence[Frames]) -> bool:
        if not pictures:
            return True
        keys = [hashlib.sha256(f"{p.shape}".encode() + p.tobytes()).digest() for p in pictures]
        new = {key: picture for key, picture in zip(keys, pictures, strict=True) if key not in self._known}
        if new:
            network = self._engine.loaded.network
            if network is None:
                raise ModelError(f"{self._folder}: the gate needs a Qwen3-VL; this is {self._engine.family}.")
            if self._gate is None:
                self._gate = load_gate(self._folder / GATE_FILE)
            passed = self._gate.passes(picture_features(network, list(new.values())))
            self._known.update(zip(new, map(bool, passed), strict=True))
        share = np.mean([self._known[key] for key in keys])
        while len(self._known) > KEPT:
            self._known.popitem(last=False)
        return bool(share >= 0.5)
