"""Layers of a Qwen3-VL in NumPy: matrices with the norms before them folded in, activations, rotations.

All arrays are float32. One float64 array would make all that follow float64, at half the speed; :class:`Linear`
refuses it.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from stepscore.errors import ModelError

Array = NDArray[np.float32]
Weights = Mapping[str, Array]
f32 = np.float32


class Linear:
    """``x @ weight + bias``, with gain and bias of the norm before it folded in.

    Args:
        weights: All tensors, by name.
        names: Layers whose rows are computed together; none or all of them have a bias.
        norm: The norm before them.
    """

    def __init__(self, weights: Weights, *names: str, norm: str | None = None) -> None:
        weight = np.concatenate([tensor(weights, f"{name}.weight") for name in names])  # (out, in)
        biases = [weights[f"{name}.bias"] for name in names if f"{name}.bias" in weights]
        bias: Array | None = np.concatenate(biases) if biases else None
        if norm is not None:
            if f"{norm}.bias" in weights:
                shifted = weight @ weights[f"{norm}.bias"]
                bias = shifted if bias is None else bias + shifted
            weight = weight * tensor(weights, f"{norm}.weight")
        self.weight, self.bias = np.ascontiguousarray(weight.T), bias

    def __call__(self, x: Array) -> Array:
        """Return the layer's output."""
        y: Array = x @ self.weight
        assert y.dtype == f32, "a float64 array has come in"
        if self.bias is not None:
            y += self.bias
        return y


def tensor(weights: Weights, name: str) -> Array:
    """Return a tensor by its name; ModelError if the checkpoint lacks it."""
    try:
        return weights[name]
    except KeyError:
        raise ModelError(f"embedded: the weights lack {name}. Copy the checkpoint again.") from None


def rms_scale(x: Array, eps: float) -> Array:
    """Return what RMSNorm multiplies ``x`` by, without its gain; shape (..., 1)."""
    mean = np.einsum("...i,...i->...", x, x) * f32(1 / x.shape[-1])
    scale: Array = (1 / np.sqrt(mean + f32(eps)))[..., None]
    return scale


def layer_norm(x: Array, eps: float = 1e-6) -> Array:
    """Return LayerNorm of ``x``, without gain and bias."""
    x = x - x.mean(axis=-1, keepdims=True)
    x *= rms_scale(x, eps)
    return x


def gated(minus: Array, x: Array) -> Array:
    """Return ``x * sigmoid(-minus)``; overwrites ``minus``. Where exp overflows to inf, the result is the right 0."""
    with np.errstate(over="ignore"):
        np.exp(minus, out=minus)
    minus += 1
    return np.divide(x, minus, out=minus)


def gelu_tanh(x: Array) -> Array:
    """Return GELU in its tanh form, as the vision encoder's layers use it: x / 2 (1 + tanh u) = x sigmoid(2 u)."""
    u = x * x
    u *= f32(-2 * math.sqrt(2 / math.pi) * 0.044715)
    u -= f32(2 * math.sqrt(2 / math.pi))
    u *= x
    return gated(u, x)


def gelu_erf(x: Array) -> Array:
    """Return GELU by the error function, as the mergers use it; erf by Abramowitz and Stegun 7.1.26, within 2e-7."""
    size = np.abs(x)
    t: Array = np.reciprocal(1 + f32(0.3275911 * math.sqrt(0.5)) * size, dtype=f32)
    rest: Array = f32(1.061405429) * t
    for c in (-1.453152027, 1.421413741, -0.284496736, 0.254829592):
        rest += f32(c)
        rest *= t
    rest *= np.exp(f32(-0.5) * x * x)  # 1 - erf(|x| / sqrt 2)
    made: Array = np.multiply(f32(0.5), x + size * (1 - rest), dtype=f32)
    return made


def inverse_frequencies(dim: int, theta: float) -> Array:
    """Return the inverse frequencies of a rotary embedding over ``dim`` features, (dim / 2,)."""
    made: Array = (1 / f32(theta) ** (np.arange(0, dim, 2, dtype=f32) / f32(dim))).astype(f32)
    return made


def rotary_tables(angles: Array) -> tuple[Array, Array]:
    """Return cos and sin for :func:`rotate`, (n, 1, d), from angles (n, d / 2); the first half of sin is negated."""
    cos, sin = np.cos(angles), np.sin(angles)
    return np.concatenate([cos, cos], axis=1)[:, None], np.concatenate([-sin, sin], axis=1)[:, None]


def swap_halves(x: Array) -> Array:
    """Return the two halves of the last axis, exchanged."""
    half, y = x.shape[-1] // 2, np.empty(x.shape, f32)
    y[..., :half], y[..., half:] = x[..., half:], x[..., :half]
    return y


def rotate(x: Array, cos: Array, sin: Array) -> Array:
    """Return the rotary embedding of ``x``, (..., n, heads, d)."""
    y = swap_halves(x)
    y *= sin
    y += x * cos
    return y
