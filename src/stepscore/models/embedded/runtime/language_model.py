"""The language model in NumPy: tokens and image features into hidden states and logits.

A pass reads *segments*: rows that attend to the beginning of the KV cache, to a segment that they share with others
(their stem), and causally to themselves. The video is read once; the texts after its prefixes are segments of one
pass through the matrices. The last layer computes keys and values only, except at the rows that are read.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from stepscore.errors import ModelError
from stepscore.models.embedded.runtime.layers import (
    Array,
    Linear,
    Weights,
    f32,
    gated,
    inverse_frequencies,
    rms_scale,
    rotary_tables,
    rotate,
    swap_halves,
    tensor,
)
from stepscore.models.qwen3vl.prefix_plan import TokenSpan
from stepscore.types import IntArray

ROWS_PER_SEGMENT = 128
"""Rows of a segment of a causal pass: the upper triangle of the attention is skipped from one to the next."""

MAX_SCORE = 60.0
"""Largest attention score for which a softmax needs no maximum subtracted: its exp is far below float32's largest."""


class Segment(NamedTuple):
    """Rows ``start`` to ``stop`` of a pass, and what they attend to besides themselves.

    Attributes:
        start: Its first row.
        stop: The row after its last.
        past: Number of tokens of the KV cache that it attends to, from the first on.
        stem: Rows of the pass that it attends to as a whole.
    """

    start: int
    stop: int
    past: int
    stem: slice = slice(0, 0)


class KVCache:
    """Keys and values of every layer, (layers, capacity, heads, d), of which the first ``length`` are filled."""

    def __init__(self, layers: int, heads: int, dim: int) -> None:
        self.keys = np.empty((layers, 0, heads, dim), f32)
        self.values = np.empty((layers, 0, heads, dim), f32)
        self.length = 0

    def reserve(self, rows: int) -> None:
        """Make room for more rows; what is there is kept."""
        if self.length + rows > self.keys.shape[1]:
            room = max(self.length + rows, 2 * self.keys.shape[1])
            for name in ("keys", "values"):
                old = getattr(self, name)
                grown = np.empty((old.shape[0], room, *old.shape[2:]), f32)
                grown[:, : self.length] = old[:, : self.length]
                setattr(self, name, grown)


class LanguageModel:
    """The language model of a checkpoint."""

    def __init__(self, weights: Weights, config: Mapping[str, Any]) -> None:
        prefix = "model.language_model."
        w = {name.removeprefix(prefix): v for name, v in weights.items() if name.startswith(prefix)}
        self._heads, self._kv_heads = int(config["num_attention_heads"]), int(config["num_key_value_heads"])
        self._dim, self._eps = int(config["head_dim"]), float(config["rms_norm_eps"])
        rope = config["rope_parameters"]
        self._frequencies = inverse_frequencies(self._dim, float(rope["rope_theta"]))
        self._axis = np.zeros(
            self._dim // 2, int
        )  # what turns each frequency: time 0, row 1, column 2, interleaved
        for axis in (1, 2):
            self._axis[axis : 3 * rope["mrope_section"][axis] : 3] = axis
        self._embeddings = tensor(w, "embed_tokens.weight")
        head = weights.get("lm_head.weight", self._embeddings)
        self._head = np.ascontiguousarray((head * tensor(w, "norm.weight")).T)
        self._layers = [self._layer(w, f"layers.{i}.") for i in range(int(config["num_hidden_layers"]))]

    def _layer(
        self, w: Weights, at: str
    ) -> tuple[Linear, Linear, tuple[Array, Array], Linear, Linear, Linear]:
        attention, mlp, before = f"{at}self_attn.", f"{at}mlp.", f"{at}input_layernorm"
        gains = (
            tensor(w, f"{attention}q_norm.weight") * f32(self._dim**-0.5),
            tensor(w, f"{attention}k_norm.weight"),
        )
        # Normed queries and keys bound the scores.
        if self._dim * float(np.abs(gains[0]).max() * np.abs(gains[1]).max()) > MAX_SCORE:
            raise ModelError(
                "embedded: the gains of q_norm and k_norm are too large for this runtime: use hf/PATH."
            )
        return (
            Linear(w, f"{attention}q_proj", norm=before),
            Linear(w, f"{attention}k_proj", f"{attention}v_proj", norm=before),
            gains,
            Linear(w, f"{attention}o_proj"),
            Linear(w, f"{mlp}gate_proj", f"{mlp}up_proj", norm=f"{at}post_attention_layernorm"),
            Linear(w, f"{mlp}down_proj"),
        )

    def kv_cache(self) -> KVCache:
        """Return an empty KV cache."""
        return KVCache(len(self._layers), self._kv_heads, self._dim)

    def prefill(
        self, span: TokenSpan, images: IntArray, features: Sequence[Array] | None, cache: KVCache
    ) -> None:
        """Append tokens to the KV cache."""
        if len(span):
            segments = causal_segments(len(span), cache.length)
            self._forward(span, images, features, cache, segments, keep=True, read=())

    def last_hidden(
        self, span: TokenSpan, images: IntArray, features: Sequence[Array] | None, cache: KVCache
    ) -> Array:
        """Append tokens to the KV cache, and return the hidden state of the last, (1, hidden)."""
        segments = causal_segments(len(span), cache.length)
        return self._forward(span, images, features, cache, segments, keep=True, read=(len(segments) - 1,))

    def read(
        self,
        span: TokenSpan,
        images: IntArray,
        features: Sequence[Array] | None,
        cache: KVCache,
        segments: Sequence[Segment],
        read: Sequence[int],
    ) -> Array:
        """Return the hidden state at the last row of each segment of ``read``; the cache is left as it is."""
        return self._forward(span, images, features, cache, segments, keep=False, read=read)

    def logits(self, hidden: Array) -> Array:
        """Return the logits of all tokens, (n, vocabulary)."""
        made: Array = (hidden * rms_scale(hidden, self._eps)) @ self._head
        return made

    def _forward(
        self,
        span: TokenSpan,
        images: IntArray,
        features: Sequence[Array] | None,
        cache: KVCache,
        segments: Sequence[Segment],
        *,
        keep: bool,
        read: Sequence[int],
    ) -> Array:
        x, n = self._embeddings[span.ids], len(span)
        if features is not None:
            x[images] = features[0]
        if keep:
            cache.reserve(n)
        cos, sin = rotary_tables(span.positions[self._axis].T.astype(f32) * self._frequencies)
        rows = np.array([segments[number].stop - 1 for number in read], dtype=int)
        for i, (to_q, to_kv, gains, out, up, down) in enumerate(self._layers):
            # cos and sin take the gains of the queries' and keys' norms with them.
            (q_cos, q_sin), (k_cos, k_sin) = ((cos * gain, sin * swap_halves(gain)) for gain in gains)
            normed = x * rms_scale(x, self._eps)
            k, v = np.moveaxis(to_kv(normed).reshape(n, 2, self._kv_heads, self._dim), 1, 0)
            k = rotate(k * rms_scale(k, self._eps), k_cos, k_sin)
            if keep:
                cache.keys[i, cache.length : cache.length + n] = k
                cache.values[i, cache.length : cache.length + n] = v
            final = i == len(self._layers) - 1
            if final:
                if not len(rows):
                    break
                x, normed, q_cos, q_sin = (array[rows] for array in (x, normed, q_cos, q_sin))
            q = to_q(normed).reshape(len(x), self._heads, self._dim)
            q = rotate(q * rms_scale(q, self._eps), q_cos, q_sin)
            asking = [segments[number] for number in read] if final else segments
            x += out(self._attention(q, k, v, cache.keys[i], cache.values[i], asking, last_only=final))
            gate, value = np.split(up(x * rms_scale(x, self._eps)), 2, axis=1)
            value *= gate
            x += down(gated(np.negative(gate, out=gate), value))
            if features is not None and i < len(features) - 1:
                x[images] += features[1 + i]
        cache.length += n if keep else 0
        return x

    def _attention(
        self,
        q: Array,
        k: Array,
        v: Array,
        keys: Array,
        values: Array,
        segments: Sequence[Segment],
        *,
        last_only: bool,
    ) -> Array:
        """Return the attention of each segment's rows, or only of its last row, (rows, heads * d)."""
        made = np.empty((len(q), self._kv_heads, self._heads // self._kv_heads, self._dim), f32)
        q = q.reshape(made.shape)
        for number, (start, stop, past, stem) in enumerate(segments):
            rows = slice(number, number + 1) if last_only else slice(start, stop)
            if rows.start == rows.stop:
                continue
            asking = q[rows].transpose(1, 2, 0, 3)  # key-value head, query heads that share it, row, feature
            shared = stem.stop - stem.start
            weights = np.empty((*asking.shape[:3], past + shared + stop - start), f32)
            parts = (
                (slice(0, past), keys[:past], values[:past]),
                (slice(past, past + shared), k[stem], v[stem]),
                (slice(past + shared, None), k[start:stop], v[start:stop]),
            )
            for columns, part_keys, _ in parts:
                np.matmul(asking, part_keys.transpose(1, 2, 0)[:, None], out=weights[..., columns])
            np.exp(weights, out=weights)
            if not last_only:
                weights[..., past + shared :] *= np.tri(stop - start, dtype=f32)
            mixed = weights[..., :past] @ values[:past].transpose(1, 0, 2)[:, None]
            for columns, _, part_values in parts[1:]:
                if len(part_values):
                    mixed += weights[..., columns] @ part_values.transpose(1, 0, 2)[:, None]
            np.divide(mixed, weights.sum(axis=-1, keepdims=True), out=made[rows].transpose(1, 2, 0, 3))
        return made.reshape(len(q), -1)


def causal_segments(rows: int, past: int) -> list[Segment]:
    """Return the segments of a causal pass over tokens that are appended to a cache of ``past`` tokens."""
    starts = range(0, rows, ROWS_PER_SEGMENT)
    return [Segment(start, min(rows, start + ROWS_PER_SEGMENT), past + start) for start in starts]
