"""The vision encoder in NumPy: blocks of frames into tokens of the language model, deepstack included.

Folded into weights when it is loaded: the norms' gains and biases, the scaling of pixels, the order of colours, and
the attention's scale.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from stepscore.models.embedded.runtime.layers import (
    Array,
    Linear,
    Weights,
    f32,
    gelu_erf,
    gelu_tanh,
    inverse_frequencies,
    layer_norm,
    rotary_tables,
    rotate,
    tensor,
)
from stepscore.models.qwen3vl.inputs import Geometry
from stepscore.types import Frames

BLOCKS_PER_PASS = 8
"""Blocks of one pass, which bounds its memory; the speed is the same from 6 to 19."""


class VisionEncoder:
    """The vision encoder of a checkpoint."""

    def __init__(self, weights: Weights, config: Mapping[str, Any], geometry: Geometry) -> None:
        w = {name.removeprefix("model.visual."): v for name, v in weights.items() if ".visual." in name}
        self._geometry = geometry
        self._heads, self._width = int(config["num_heads"]), int(config["hidden_size"])
        self._deepstack_at = list(config["deepstack_visual_indexes"])
        self._theta = float(config["rope_parameters"]["rope_theta"])
        self._embed, self._embed_bias = _patch_embedding(w, geometry)
        self._position_embeddings = tensor(w, "pos_embed.weight")
        self._layers = [self._layer(w, f"blocks.{number}.") for number in range(int(config["depth"]))]
        merged = geometry.merge**2
        for kind in (
            "weight",
            "bias",
        ):  # this norm is over one patch, those of deepstack over the merged ones
            w[f"merger.norm.{kind}"] = np.tile(tensor(w, f"merger.norm.{kind}"), merged)
        names = ["merger", *(f"deepstack_merger_list.{i}" for i in range(len(self._deepstack_at)))]
        self._mergers = [
            (Linear(w, f"{name}.linear_fc1", norm=f"{name}.norm"), Linear(w, f"{name}.linear_fc2"))
            for name in names
        ]
        self._grids: dict[tuple[int, int], tuple[Array, Array, Array]] = {}

    def _layer(self, w: Weights, at: str) -> tuple[Linear, Linear, Linear, Linear]:
        qkv = Linear(w, f"{at}attn.qkv", norm=f"{at}norm1")
        scale = f32((self._width // self._heads) ** -0.5)
        qkv.weight[:, : self._width] *= scale
        if qkv.bias is not None:
            qkv.bias[: self._width] *= scale
        up = Linear(w, f"{at}mlp.linear_fc1", norm=f"{at}norm2")
        return qkv, Linear(w, f"{at}attn.proj"), up, Linear(w, f"{at}mlp.linear_fc2")

    def encode(self, frames: Frames, blocks: Sequence[tuple[int, ...]]) -> list[Array]:
        """Return the tokens of each block, then their deepstack features, each of shape (blocks, tokens, hidden)."""
        starts = range(0, len(blocks), BLOCKS_PER_PASS)
        parts = [self._encode(frames, blocks[start : start + BLOCKS_PER_PASS]) for start in starts]
        return [np.concatenate(layer) for layer in zip(*parts, strict=True)]

    def _encode(self, frames: Frames, blocks: Sequence[tuple[int, ...]]) -> list[Array]:
        p, m, t, n = self._geometry.patch, self._geometry.merge, self._geometry.temporal, len(blocks)
        rows, columns = (side // p for side in frames.shape[1:3])
        pixels = frames[np.array(blocks).ravel()].reshape(n, t, rows // m, m, p, columns // m, m, p * 3)
        pixels = pixels.transpose(0, 2, 5, 3, 6, 1, 4, 7).astype(f32, order="C")
        x = pixels.reshape(-1, len(self._embed)) @ self._embed
        places, cos, sin = self._grid(rows, columns)
        x = (x.reshape(n, rows * columns, -1) + places).reshape(-1, self._width)
        deepstack = []
        for number, (qkv, proj, up, down) in enumerate(self._layers):
            q, k, v = np.moveaxis(qkv(layer_norm(x)).reshape(n, rows * columns, 3, self._heads, -1), 2, 0)
            x += proj(_attention(rotate(q, cos, sin), rotate(k, cos, sin), v).reshape(x.shape))
            x += down(gelu_tanh(up(layer_norm(x))))
            if number in self._deepstack_at:
                which = 1 + self._deepstack_at.index(number)
                deepstack.append(self._merge(layer_norm(x.reshape(-1, m * m * self._width)), which))
        merged = self._merge(layer_norm(x).reshape(-1, m * m * self._width), 0)
        return [y.reshape(n, rows * columns // m**2, -1) for y in (merged, *deepstack)]

    def _merge(self, normed: Array, which: int) -> Array:
        first, second = self._mergers[which]
        return second(gelu_erf(first(normed)))

    def _grid(self, rows: int, columns: int) -> tuple[Array, Array, Array]:
        """Return position embeddings (n, width) and rotary tables of a grid of patches, in the order of merging."""
        if (rows, columns) not in self._grids:
            m = self._geometry.merge
            at = np.indices((rows, columns)).reshape(2, rows // m, m, columns // m, m)
            place = at.transpose(0, 1, 3, 2, 4).reshape(2, -1).astype(f32)
            embeddings = self._interpolated(place, (rows, columns)) + self._embed_bias
            angles = place[:, :, None] * inverse_frequencies(self._width // self._heads // 2, self._theta)
            self._grids[rows, columns] = (embeddings, *rotary_tables(np.concatenate(list(angles), axis=1)))
        return self._grids[rows, columns]

    def _interpolated(self, place: Array, size: tuple[int, int]) -> Array:
        """Return the position embeddings at rows and columns (2, n) of a grid: bilinear, corners aligned."""
        side = math.isqrt(len(self._position_embeddings))
        taps = []
        for at, length in zip(place, size, strict=True):
            source = at * f32(side - 1) / f32(max(1, length - 1))
            low = np.floor(source).astype(int)
            share = source - low.astype(f32)  # minus integers it would be float64
            taps.append(((low, 1 - share), (np.minimum(low + 1, side - 1), share)))
        grid = self._position_embeddings.reshape(side, side, -1)
        near = [grid[i, j] * (down * across)[:, None] for i, down in taps[0] for j, across in taps[1]]
        made: Array = near[0] + near[1] + near[2] + near[3]
        return made


def _patch_embedding(w: Weights, geometry: Geometry) -> tuple[Array, Array]:
    """Return matrix and bias for pixels of 0..255 with their colours last: scaling and order are in the weights."""
    proj = tensor(w, "patch_embed.proj.weight").transpose(
        2, 3, 4, 1, 0
    )  # frame, row, column, colour, feature
    mean, std = (np.asarray(values, dtype=f32) * f32(255) for values in (geometry.mean, geometry.std))
    scaled = proj / std[:, None]
    bias = tensor(w, "patch_embed.proj.bias") - np.einsum("trcif,i->f", scaled, mean)
    return np.ascontiguousarray(scaled.reshape(-1, proj.shape[-1])), bias.astype(f32)


def _attention(q: Array, k: Array, v: Array) -> Array:
    """Return the attention of each block's patches to each other; all are (blocks, patches, heads, d)."""
    scores = q.transpose(0, 2, 1, 3) @ k.transpose(0, 2, 3, 1)
    scores -= scores.max(axis=-1, keepdims=True)
    np.exp(scores, out=scores)
    made = np.empty(q.shape, f32)
    total = scores.sum(axis=-1, keepdims=True)
    np.divide(scores @ v.transpose(0, 2, 1, 3), total, out=made.transpose(0, 2, 1, 3))
    return made
