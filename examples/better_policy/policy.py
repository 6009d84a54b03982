"""The policy: a small network from the simulator's state to a chunk of actions, trained for all arms at once.

Input, 19 numbers: the hand's place and the gripper's opening, the places of the object, of the target and of the
task's second thing (``observation.state`` and ``observation.environment_state`` of the dataset), and where the object
lies from the hand and the target from the object. Output: the next ``horizon`` actions of four numbers. Two hidden
layers. The loss is the mean squared error of the chunk, times the weight of the frame at which it begins.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import torch
from examples.better_policy.demonstrations import Record
from examples.better_policy.setting import Setting
from torch import Tensor

from stepscore.types import FloatArray

LEAST_SPREAD = 0.005
"""Inputs that vary less, in metres, are scaled as if they varied so much: they tell nothing."""


def inputs(states: FloatArray, things: FloatArray) -> FloatArray:
    """What the policy sees, (..., 19), from the dataset's two columns, (..., 4) and (..., 9)."""
    hand, thing, target = states[..., :3], things[..., :3], things[..., 3:6]
    return np.concatenate([states, things, thing - hand, target - thing], axis=-1)


@dataclass(frozen=True)
class Samples:
    """What there is to learn: a sample for every action of every demonstration.

    Attributes:
        inputs: What is seen before it, scaled, (n, 19) float32.
        chunks: The actions from it on, (n, horizon, 4) float32; zeros after the episode's end.
        inside: Which of these the episode has, (n, horizon) float32.
        mean: Mean of the inputs, (19,).
        spread: Their standard deviation, (19,).
    """

    inputs: Tensor
    chunks: Tensor
    inside: Tensor
    mean: FloatArray
    spread: FloatArray


def make_samples(record: Record, horizon: int) -> Samples:
    """The samples of a task's demonstrations."""
    seen = inputs(record.states, record.things)
    mean, spread = seen.mean(axis=0), np.maximum(seen.std(axis=0), LEAST_SPREAD)
    places = np.arange(len(seen))[:, None] + np.arange(horizon)
    inside = places < len(seen)
    places = np.minimum(places, len(seen) - 1)
    inside &= record.episode[places] == record.episode[:, None]
    chunks = np.where(inside[..., None], record.actions[places], 0.0)
    return Samples(
        torch.from_numpy(((seen - mean) / spread).astype(np.float32)),
        torch.from_numpy(chunks.astype(np.float32)),
        torch.from_numpy(inside.astype(np.float32)),
        mean,
        spread,
    )


@dataclass(frozen=True)
class Policies:
    """Trained networks, one an arm.

    Attributes:
        weights: Of each layer, (arms, from, to).
        biases: Of each layer, (arms, to).
        mean: What is subtracted from the inputs.
        spread: What they are divided by.
    """

    weights: tuple[FloatArray, ...]
    biases: tuple[FloatArray, ...]
    mean: FloatArray
    spread: FloatArray

    def of(self, arm: int) -> Callable[[FloatArray], FloatArray]:
        """The policy of one arm: from ``inputs``, (19,), to the next actions, (horizon, 4) within -1..1."""
        layers = [(weight[arm], bias[arm]) for weight, bias in zip(self.weights, self.biases, strict=True)]

        def chunk(seen: FloatArray) -> FloatArray:
            layer = (seen - self.mean) / self.spread
            for number, (weight, bias) in enumerate(layers):
                layer = (np.maximum(layer, 0.0) if number else layer) @ weight + bias
            return np.clip(layer.reshape(-1, 4), -1.0, 1.0)

        return chunk


def train(samples: Samples, weights: FloatArray, setting: Setting, seed: int) -> Policies:
    """One policy for every row of weights; all begin alike and see the same batches.

    Args:
        samples: What is learned.
        weights: A weight for every arm and sample, (arms, n), of mean 1.
        setting: Sizes, steps and rate.
        seed: Of the first weights and of the batches.
    """
    arms, known = len(weights), torch.from_numpy(weights.astype(np.float32))
    layers = _first_layers(arms, samples, setting, seed)
    optimizer = torch.optim.Adam([part for layer in layers for part in layer], lr=setting.rate, fused=True)
    rng = np.random.default_rng([seed, 1])
    for step in range(setting.steps):
        for group in optimizer.param_groups:
            group["lr"] = setting.rate * (0.01 + 0.99 * 0.5 * (1 + math.cos(math.pi * step / setting.steps)))
        batch = torch.from_numpy(rng.integers(len(samples.inputs), size=setting.batch))
        losses = _losses(layers, samples, batch, known[:, batch])
        # Arms share no weight, so the gradient of their sum is each one's own.
        torch.autograd.backward(losses.sum())
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
    plain = [[part.detach().numpy().astype(np.float64) for part in layer] for layer in layers]
    return Policies(
        tuple(weight for weight, _ in plain),
        tuple(bias[:, 0] for _, bias in plain),
        samples.mean,
        samples.spread,
    )


def _first_layers(arms: int, samples: Samples, setting: Setting, seed: int) -> list[tuple[Tensor, Tensor]]:
    rng = torch.Generator().manual_seed(seed)
    sizes = [samples.inputs.shape[1], setting.hidden, setting.hidden, 4 * setting.horizon]
    layers = []
    for wide, narrow in pairwise(sizes):
        drawn = torch.randn(wide, narrow, generator=rng) * math.sqrt(2.0 / wide)
        weight = drawn.expand(arms, -1, -1).clone().requires_grad_()
        layers.append((weight, torch.zeros(arms, 1, narrow, requires_grad=True)))
    return layers


def _losses(layers: list[tuple[Tensor, Tensor]], samples: Samples, batch: Tensor, weights: Tensor) -> Tensor:
    """The weighted loss of each arm, (arms,)."""
    layer = samples.inputs[batch].expand(len(weights), -1, -1)
    for number, (weight, bias) in enumerate(layers):
        layer = torch.baddbmm(bias, torch.relu(layer) if number else layer, weight)
    inside = samples.inside[batch]
    missed = (layer.reshape(*layer.shape[:2], -1, 4) - samples.chunks[batch]).square().mean(dim=-1)
    each = (missed * inside).sum(dim=-1) / inside.sum(dim=-1)
    losses: Tensor = (each * weights).mean(dim=-1)
    return losses
