"""The policy: a small network from the simulator's state to a chunk of actions, all configurations trained at once.

Input, 19 numbers: the hand's position and the gripper's opening, the positions of the object, of the target and of
the task's second object (``observation.state`` and ``observation.environment_state`` of the dataset), and of the
object from the hand and the target from the object. Output: the next ``horizon`` actions of four numbers. Two hidden
layers. The loss is the mean squared error of the chunk, times the weight of the frame at which it begins.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import torch
from torch import Tensor

from examples.better_policy.demonstrations import Record
from examples.better_policy.setting import Setting
from stepscore.types import FloatArray

MIN_STD = 0.005
"""Least standard deviation by which an input is scaled, in metres: one that varies less carries no information."""


def inputs(states: FloatArray, things: FloatArray) -> FloatArray:
    """Return the policy's inputs, (..., 19), from the dataset's two columns, (..., 4) and (..., 9)."""
    hand, thing, target = states[..., :3], things[..., :3], things[..., 3:6]
    return np.concatenate([states, things, thing - hand, target - thing], axis=-1)


@dataclass(frozen=True)
class Samples:
    """Training examples: one for every action of every demonstration.

    Attributes:
        inputs: The policy's inputs before it, scaled, (n, 19) float32.
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
    """Return the training examples of a task's demonstrations."""
    every = inputs(record.states, record.things)
    mean, spread = every.mean(axis=0), np.maximum(every.std(axis=0), MIN_STD)
    places = np.arange(len(every))[:, None] + np.arange(horizon)
    inside = places < len(every)
    places = np.minimum(places, len(every) - 1)
    inside &= record.episode[places] == record.episode[:, None]
    chunks = np.where(inside[..., None], record.actions[places], 0.0)
    return Samples(
        torch.from_numpy(((every - mean) / spread).astype(np.float32)),
        torch.from_numpy(chunks.astype(np.float32)),
        torch.from_numpy(inside.astype(np.float32)),
        mean,
        spread,
    )


@dataclass(frozen=True)
class Policies:
    """Trained networks, one for each configuration.

    Attributes:
        weights: Of each layer, (configs, from, to).
        biases: Of each layer, (configs, to).
        mean: Mean of the inputs, (19,), subtracted from them.
        spread: Their standard deviation, (19,), by which they are divided.
    """

    weights: tuple[FloatArray, ...]
    biases: tuple[FloatArray, ...]
    mean: FloatArray
    spread: FloatArray

    def of(self, config: int) -> Callable[[FloatArray], FloatArray]:
        """Return one configuration's policy: from ``inputs``, (19,), to actions, (horizon, 4) within -1..1."""
        layers = [
            (weight[config], bias[config]) for weight, bias in zip(self.weights, self.biases, strict=True)
        ]

        def chunk(values: FloatArray) -> FloatArray:
            layer = (values - self.mean) / self.spread
            for number, (weight, bias) in enumerate(layers):
                layer = (np.maximum(layer, 0.0) if number else layer) @ weight + bias
            return np.clip(layer.reshape(-1, 4), -1.0, 1.0)

        return chunk


def train(samples: Samples, weights: FloatArray, setting: Setting, seed: int) -> Policies:
    """Train one policy for every row of weights; all begin with the same network and get the same batches.

    Args:
        samples: Training examples.
        weights: A weight for every configuration and sample, (configs, n), of mean 1.
        setting: Sizes, steps and learning rate.
        seed: Random seed of the initial networks and of the batches.
    """
    configs, known = len(weights), torch.from_numpy(weights.astype(np.float32))
    layers = _initial_layers(configs, samples, setting, seed)
    optimizer = torch.optim.Adam([part for layer in layers for part in layer], lr=setting.lr, fused=True)
    rng = np.random.default_rng([seed, 1])
    for step in range(setting.steps):
        for group in optimizer.param_groups:
            group["lr"] = setting.lr * (0.01 + 0.99 * 0.5 * (1 + math.cos(math.pi * step / setting.steps)))
        batch = torch.from_numpy(rng.integers(len(samples.inputs), size=setting.batch_size))
        losses = _losses(layers, samples, batch, known[:, batch])
        # Configurations share no parameter, so the gradient of their sum is each one's own.
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


def _initial_layers(
    configs: int, samples: Samples, setting: Setting, seed: int
) -> list[tuple[Tensor, Tensor]]:
    rng = torch.Generator().manual_seed(seed)
    sizes = [samples.inputs.shape[1], setting.hidden_dim, setting.hidden_dim, 4 * setting.horizon]
    layers = []
    for wide, narrow in pairwise(sizes):
        drawn = torch.randn(wide, narrow, generator=rng) * math.sqrt(2.0 / wide)
        weight = drawn.expand(configs, -1, -1).clone().requires_grad_()
        layers.append((weight, torch.zeros(configs, 1, narrow, requires_grad=True)))
    return layers


def _losses(layers: list[tuple[Tensor, Tensor]], samples: Samples, batch: Tensor, weights: Tensor) -> Tensor:
    """Return the weighted loss of each configuration, (configs,)."""
    layer = samples.inputs[batch].expand(len(weights), -1, -1)
    for number, (weight, bias) in enumerate(layers):
        layer = torch.baddbmm(bias, torch.relu(layer) if number else layer, weight)
    inside = samples.inside[batch]
    errors = (layer.reshape(*layer.shape[:2], -1, 4) - samples.chunks[batch]).square().mean(dim=-1)
    each = (errors * inside).sum(dim=-1) / inside.sum(dim=-1)
    losses: Tensor = (each * weights).mean(dim=-1)
    return losses
